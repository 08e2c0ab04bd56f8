import pytest

from evalframe.core.errors import BadSetting, Faults
from evalframe.runs.config import RunConfig, arguments


@pytest.mark.parametrize(("given", "read"), [
    ("", {}),
    ("temperature=0.5,max_tokens=10,seed=7", {"temperature": 0.5, "max_tokens": 10, "seed": 7}),
    ("a=true,b=null,c=False,d=None,e=text", {"a": True, "b": None, "c": False, "d": None, "e": "text"}),
    ('stop=["a","b"],n=2', {"stop": ["a", "b"], "n": 2}),
    ('extra_options={"top_k": 5, "x": [1,2]},n=1', {"extra_options": {"top_k": 5, "x": [1, 2]}, "n": 1}),
    ('text="a,b",n=1', {"text": "a,b", "n": 1}),
    ('text="a\\",b"', {"text": 'a",b'}),
    ('{"a": {"b": 1}}', {"a": {"b": 1}}),
    ("url=http://host/x?a=b", {"url": "http://host/x?a=b"}),
    ("path=a=b", {"path": "a=b"}),
    ("a=", {"a": ""}),
    ({"a": 1}, {"a": 1}),
])  # fmt: skip
def test_arguments_are_read_as_json(given, read):
    assert arguments(given) == read


@pytest.mark.parametrize("given", ["temperature", "a=1,b", "=1", "{broken", "[1]"])
def test_arguments_that_are_none_are_told(given):
    with pytest.raises(BadSetting, match="--completion_args takes name=value"):
        RunConfig.resolve({"completion_args": given}, {})


@pytest.mark.parametrize(("setting", "given", "value"), [
    ("fail_on_error", "true", True), ("fail_on_error", "false", False), ("fail_on_error", "0.1", 0.1), ("fail_on_error", "5", 5),
    ("fail_on_error", 0, 0), ("fail_on_error", "0", 0), ("fail_on_error", 1, 1), ("fail_on_error", True, True),
    ("max_samples", "3", 3), ("threads", "32", 32), ("timeout_s", "1.5", 1.5), ("sequential", "yes", True), ("cache", False, False),
    ("registry_path", ["a", "b"], ("a", "b")), ("registry_path", "a", ("a",)),
])  # fmt: skip
def test_a_value_is_read_as_its_setting_says(setting, given, value):
    read = getattr(RunConfig.resolve({setting: given}, {}), setting)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("setting", "given"), [
    ("max_samples", "0"), ("max_samples", "-3"), ("max_samples", "1.5"), ("seed", "x"), ("threads", "0"), ("timeout_s", "0"), ("timeout_s", "nan"),
    ("fail_on_error", "2.5"), ("fail_on_error", "maybe"), ("fail_on_error", "-1"), ("cache", "perhaps"), ("max_samples", True), ("threads", 2.0),
])  # fmt: skip
def test_a_value_that_a_setting_does_not_take_is_told(setting, given):
    with pytest.raises(BadSetting, match=f"--{setting} takes .* not"):
        RunConfig.resolve({setting: given}, {})


def test_the_call_comes_before_the_environment_before_the_spec_before_the_default():
    asked_for = {"threads": 3, "max_samples": 5}
    environ = {"EVALS_THREADS": "4"}
    assert RunConfig.resolve({"threads": 5}, environ, asked_for).threads == 5
    assert RunConfig.resolve({}, environ, asked_for).threads == 4
    assert RunConfig.resolve({}, {}, asked_for).threads == 3
    assert RunConfig.resolve({}, {}, asked_for).max_samples == 5
    assert RunConfig.resolve({}, {}).threads == 10


def test_a_bad_value_is_told_with_where_it_came_from():
    with pytest.raises(BadSetting, match="EVALS_THREADS takes a whole number"):
        RunConfig.resolve({}, {"EVALS_THREADS": "many"})
    with pytest.raises(BadSetting, match='"threads" in the eval'):
        RunConfig.resolve({}, {}, {"threads": "many"})


def test_an_empty_variable_is_no_setting():
    assert RunConfig.resolve({}, {"EVALS_THREADS": ""}).threads == 10


def test_all_faults_are_told_at_once():
    with pytest.raises(Faults) as caught:
        RunConfig.resolve({"thread": 1, "seed": "x"}, {})
    assert "Closest: threads" in str(caught.value)
    assert "--seed takes" in str(caught.value)


def test_every_setting_has_a_help_of_one_sentence():
    for name, known in RunConfig.settings().items():
        assert known.help.endswith("."), name
        assert known.help[0].isupper(), name
