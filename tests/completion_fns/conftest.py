import pytest

from evalframe.core.scope import SampleScope
from evalframe.core.specs import RunSpec
from evalframe.recorders.memory import MemoryRecorder

pytest.register_assert_rewrite("conformance")

VARIABLES = (
    *("OPENAI_BASE_URL", "OPENAI_API_KEY", "EVALS_THREAD_TIMEOUT", "OPENAI_API_VERSION"),
    *("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_BASE_URL"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """No variable of whoever runs the tests says where to ask, or how."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def recorder():
    return MemoryRecorder(RunSpec(["fn"], "base.dev.v1", "base", "dev"))


@pytest.fixture
def scope(recorder):
    """A sample in scope, whose row has an ideal answer."""
    with recorder.in_scope(SampleScope(recorder, "base.dev.0", sample={"input": "2+2?", "ideal": ["4", "four"], "number": 4})) as scope:
        yield scope


@pytest.fixture
def sampling(recorder, scope):
    """What the sampling events recorded so far hold."""
    return lambda: [event.data for event in recorder.events if event.type == "sampling"]
