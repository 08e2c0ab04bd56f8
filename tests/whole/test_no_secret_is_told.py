"""Keys are planted wherever a key can be, the servers repeat them wherever they can, and nothing that is written or shown may hold one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Answer, ModelStub

PLANTED = {
    "OPENAI_API_KEY": "sk-planted-openai-000111",
    "ANTHROPIC_API_KEY": "sk-planted-anthropic-000222",
    "GEMINI_API_KEY": "planted-gemini-000333",
    "AZURE_OPENAI_API_KEY": "planted-azure-000444",
    "TEAM_TOKEN": "planted-team-000555",
    "VLLM_API_KEY": "planted-vllm-000666",
}
IN_URL, IN_QUERY, IN_HEADER = "planted-password-000777", "planted-query-000888", "planted-header-000999"
SECRETS = [*PLANTED.values(), IN_URL, IN_QUERY, IN_HEADER]


def echoing(status):
    """A server that repeats every header and the address it was asked at, in its body and its headers."""

    def answer(number, body):
        told = json.dumps(stub[0].headers[-1]) + stub[0].paths[-1]
        error = {
            "message": f"bad key or parameter temperature is not supported: {told}",
            "param": "temperature",
            "code": "unsupported_parameter",
        }
        headers = {"location": "http://elsewhere/?" + told.replace("\n", " ").replace('"', "")} if status == 302 else {}
        return Answer(status, headers, json.dumps({"error": error}).encode())

    stub = [None]
    stub[0] = ModelStub(answer)
    return stub[0]


FUNCTIONS = ["m", "anthropic/m", "gemini/m", "azure/m", "vllm/m", "house", "with-headers"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 302, 400])
def test_no_planted_key_is_written_or_shown(tmp_path, status):
    registry = tmp_path / "R"
    for folder in ("evals", "completion_fns", "data/a"):
        (registry / folder).mkdir(parents=True)
    (registry / "data/a/s.jsonl").write_text('{"input": "Say 1", "ideal": "1"}\n')
    spec = {"class": "evalframe.evals.basic:Match", "args": {"samples_jsonl": "a/s.jsonl"}}
    (registry / "evals/a.yaml").write_text(json.dumps({"a": {"id": "a.dev.v1"}, "a.dev.v1": spec}))
    with echoing(status) as stub:
        base = f"http://user:{IN_URL}@127.0.0.1:{stub.port}/v1"
        (registry / "completion_fns/f.yaml").write_text(f"""
house:
  class: evalframe.completion_fns.gateway:GatewayCompletionFn
  args:
    url: "http://127.0.0.1:{stub.port}/x?key={IN_QUERY}"
    headers: {{x-own: !env TEAM_TOKEN}}
    body: {{p: "{{prompt}}"}}
    text: out
with-headers:
  class: evalframe.completion_fns.openai:OpenAIChatCompletionFn
  args:
    model: m
    base_url: "http://127.0.0.1:{stub.port}/v1?token={IN_QUERY}"
    api_key: !env TEAM_TOKEN
    extra_headers: {{x-api-token: "{IN_HEADER}"}}
    temperature: 0
""")
        environment = {**os.environ, **PLANTED, "OPENAI_BASE_URL": base}
        environment |= {f"{name}_BASE_URL": f"http://127.0.0.1:{stub.port}/v1" for name in ("ANTHROPIC", "GEMINI", "VLLM")}
        environment["AZURE_OPENAI_ENDPOINT"] = f"http://127.0.0.1:{stub.port}"
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        shown = ""
        for number, name in enumerate(FUNCTIONS):
            command = ["oaieval", name, "a", "--registry_path", "R", "--record_path", f"{number}.jsonl", "--max_retries", "1", "--debug"]
            command += ["--completion_args", "temperature=0"] if name != "house" else []
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode in (0, 1), done.stderr
            shown += done.stdout + done.stderr
        assert any(secret in json.dumps(stub.headers) for secret in PLANTED.values())  # they were sent
    written = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.jsonl"))
    assert len(written) > 1000
    for secret in SECRETS:
        assert secret not in shown, secret
        assert secret not in written, secret
