import sys
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from evalframe.core.errors import BadArguments, BadClass, BadSetting, UnknownName
from evalframe.registry.registry import Registry

CODE = """
from evalframe.core.errors import BadSetting
from evalframe.core.completion import Completion

class Model:
    def __init__(self, model="none", extra=None, timeout_s=None, registry=None):
        self.model, self.extra, self.timeout_s, self.registry = model, extra, timeout_s, registry
        if extra:
            extra["touched"] = True
    def __call__(self, prompt, **kwargs):
        return Completion([self.model])

class Open:
    def __init__(self, **options):
        self.options = options
    def __call__(self, prompt, **kwargs):
        return Completion([""])

class Silent:
    pass

class Base:
    def __init__(self, completion_fns, eval_registry_path, seed=1, name="", registry=None, samples_jsonl=None):
        self.said = locals()

class Eval(Base):
    def __init__(self, completion_fns, *args, shots=0, **kwargs):
        super().__init__(completion_fns, *args, **kwargs)
        self.shots = shots

class Failing:
    def __init__(self, how="value"):
        if how == "ours":
            raise BadSetting("our own words")
        raise ValueError("theirs")
    class Inner:
        pass

data = 3
"""


@pytest.fixture
def code(registry, request):
    """A registry with code beside its YAML; the module has a name of its own in each test."""
    module = f"own_{abs(hash(request.node.nodeid))}"

    def make(files, **options):
        files = {name: text.replace("own:", f"{module}:") for name, text in files.items()}
        found = registry({**files, f"R/{module}.py": CODE}, **options)
        found.module = module
        return found

    return make


@dataclass(frozen=True)
class Part:
    count: int = 0
    names: Sequence[str] = ()
    rate: float | None = None
    label: str = ""
    rng: Random | None = None


def test_code_beside_the_yaml_and_beside_the_registry_can_be_imported(registry):
    found = registry({"R/own_inside.py": "class A: ...", "a.yaml": ""})
    (found.registry_paths[0].parent / "own_outside.py").write_text("class B: ...", encoding="utf-8")
    assert "own_inside" not in sys.modules
    assert found.build("own_inside:A").__class__.__name__ == "A"
    assert found.build("own_outside:B").__class__.__name__ == "B"


def test_the_folder_of_a_registry_can_be_imported_only_once_a_class_is_needed(registry):
    found = registry({"R/own_late.py": "class A: ...", "a.yaml": "a.dev.v0: {class: own_late:A}\n"})
    spec = found.get_eval("a.dev.v0")
    assert str(found.registry_paths[0]) not in sys.path
    found.get_class(spec)
    assert sys.path[-2:] == [str(found.registry_paths[0]), str(found.registry_paths[0].parent)]  # after all else: it hides nothing


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("own_a:A", 'no module "own_a"'),
        ("evalframe.no_such:A", 'no module "evalframe.no_such"'),
        ("evalframe.core.sample:Smaple", r'has no "Smaple"\. Closest: Sample'),
        ("evalframe.core.sample.Sample", "does not name a class"),
        ("evalframe.core.sample:", "does not name a class"),
        (":A", "does not name a class"),
        ("evalframe.core.secrets:MASK", "is str data, not a class"),
    ],
)
def test_a_class_that_cannot_be_found_is_told_with_what_failed(registry, reference, told):
    found = registry({"a.yaml": f'a.dev.v0: {{class: "{reference}"}}\n'})
    with pytest.raises(BadClass, match=told) as caught:
        found.get_class(found.get_eval("a.dev.v0"))
    assert "a.yaml:1:1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nx.nothing\n", r"AttributeError: .*own_bad\.py:2\)"),
        ("import own_missing\n", r'own_bad\.py:1 needs the module "own_missing"'),
        ("def f(:\n", r"SyntaxError: .*own_bad\.py:1\)"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(.*own_bad\.py:2\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .*own_bad\.py:2\)"),  # the line in their code, not in json's
    ],
)
def test_a_module_that_fails_is_told_with_its_own_line(registry, text, told):
    found = registry({"a.yaml": "", "R/own_bad.py": text})
    with pytest.raises(BadClass, match=told):
        found.build("own_bad:A")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("{modle: x}", r'takes no argument "modle" \(closest: model\)'),
        ("{zz: 1, yy: 2}", r'takes no argument "yy" \(it takes: extra, model, timeout_s\); takes no argument "zz"'),
    ],
)
def test_arguments_are_held_against_the_constructor_first(code, args, told):
    found = code({"m.yaml": f"m: {{class: own:Model, args: {args}}}\n"}, kind="completion_fns")
    with pytest.raises(BadArguments, match=told) as caught:
        found.make_completion_fn("m")
    assert 'completion function "m"' in str(caught.value)
    assert "m.yaml:1:1" in str(caught.value)


def test_missing_arguments_are_told(code):
    found = code({"a.yaml": "a.dev.v0: {class: own:Base, args: {samples: x}}\n"})
    with pytest.raises(BadArguments, match=r'"samples" \(closest: samples_jsonl\); needs the argument "completion_fns"'):
        found.build(found.get_eval("a.dev.v0"))


def test_the_values_of_a_dataclass_are_read_as_its_types():
    rng = Random(1)
    built = Registry([]).build(Part, count="3", names=["a"], rate=1, label=4, rng=rng)
    assert built == Part(3, ["a"], 1.0, "4", rng)


def test_values_that_do_not_fit_a_dataclass_are_all_told():
    with pytest.raises(BadArguments, match=r"""argument "count" cannot be 'x': .*valid integer.*argument "names" cannot be 'a'"""):
        Registry([]).build(Part, count="x", names="a")


def test_a_value_from_the_environment_is_read_as_its_type_and_never_told(registry, monkeypatch):
    found = registry({"a.yaml": f"p: {{class: {__name__}:Part, args: {{count: !env EVALFRAME_TEST_COUNT}}}}\n"}, kind="solvers")
    monkeypatch.setenv("EVALFRAME_TEST_COUNT", "12")
    assert found.build("p") == Part(12)
    monkeypatch.setenv("EVALFRAME_TEST_COUNT", "sk-secret")
    with pytest.raises(BadArguments, match="cannot be !env EVALFRAME_TEST_COUNT") as caught:
        found.build("p")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("described", [{}, {"class": 3}, {"class": "a:B", "args": [1]}, {"class": "a:B", "options": {}}])
def test_a_part_that_is_described_oddly_is_told(described):
    with pytest.raises(BadArguments, match=r"Write .class: module:Class"):
        Registry([]).build(described)


def test_a_part_is_built_from_a_mapping_and_what_is_built_is_handed_back(code):
    found = code({"a.yaml": ""})
    model = found.build({"class": f"{found.module}:Model", "args": {"model": "m"}}, extra=None)
    assert (model.model, model.registry) == ("m", found)
    assert found.build(model) is model
    assert found.build(f"{found.module}:Failing.Inner").__class__.__name__ == "Inner"


def test_building_twice_leaves_nothing_behind(code):
    found = code({"m.yaml": "m: {class: own:Model, args: {extra: {a: [1]}}}\n"}, kind="completion_fns")
    first, second = found.make_completion_fn("m"), found.make_completion_fn("m")
    first.extra["a"].append(2)
    assert second.extra == {"a": [1], "touched": True}
    assert found.get_completion_fn("m").args == {"extra": {"a": [1]}}


def test_what_a_constructor_raises_is_told_with_its_line(code):
    found = code({"a.yaml": "f: {class: own:Failing}\ng: {class: own:Failing, args: {how: ours}}\n"}, kind="completion_fns")
    with pytest.raises(BadArguments, match=rf"could not be built: ValueError: theirs \(.*{found.module}\.py:\d+\)") as caught:
        found.make_completion_fn("f")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(BadSetting, match="our own words"):
        found.make_completion_fn("g")


EVALS = {"a.yaml": "a.dev.v0: {class: own:Eval, args: {shots: 2, samples_jsonl: x, seed: 5}}\n"}


def test_an_eval_gets_the_keywords_of_openai_evals(code):
    found = code(EVALS)
    spec = found.get_eval("a.dev.v0")
    built = found.make_eval(spec, ["fn"], seed=7, name="a.dev.v0", extra={"shots": 3})
    said = {key: built.said[key] for key in ("completion_fns", "eval_registry_path", "seed", "name", "registry", "samples_jsonl")}
    assert said == {
        "completion_fns": ["fn"],
        "eval_registry_path": found.registry_paths[0],
        "seed": 7,
        "name": "a.dev.v0",
        "registry": found,
        "samples_jsonl": "x",
    }
    assert built.shots == 3


def test_an_argument_that_no_class_of_an_eval_takes_is_told_by_name(code):
    found = code(EVALS)
    with pytest.raises(BadArguments, match=r'takes no argument "shot" \(closest: shots\)'):
        found.make_eval(found.get_eval("a.dev.v0"), [], seed=7, name="a.dev.v0", extra={"shot": 3})
    with pytest.raises(BadArguments, match="completion_fns cannot be given"):
        found.make_eval(found.get_eval("a.dev.v0"), [], seed=7, name="a.dev.v0", extra={"completion_fns": []})


def test_data_beside_the_yaml_of_an_eval_is_found_by_its_name(code):
    found = code(EVALS | {"R/evals/x": "{}"})
    spec = found.get_eval("a.dev.v0")
    found.make_eval(spec, [], seed=7, name="a.dev.v0")
    assert found.find_data("x", spec.registry_path, eval_name="a.dev.v0") == found.registry_paths[0] / "evals/x"


MODELS = {
    "m.yaml": """
        exact/one: {class: own:Model, args: {model: pinned, extra: {a: 1}}}
        openai/: {class: own:Model, args: {timeout_s: 5}}
        openai/azure/: {class: own:Model}
        local/: {class: own:Open}
        alias: exact/one
        mute: {class: own:Silent}
        dollar: {class: own:Open, args: {api_key: "${MY_KEY}"}}
    """,
    "R/solvers/s.yaml": "step: {class: own:Model, args: {model: solver}}\nalias: step\n",
}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("exact/one", "pinned"),
        ("alias", "pinned"),  # completion functions come before solvers
        ("step", "solver"),
        ("openai/gpt-9", "gpt-9"),
        ("openai/azure/gpt-9", "gpt-9"),  # the longest provider
        ("gpt-9", "gpt-9"),
        ("my-org/llama-4", "my-org/llama-4"),  # no such provider: a name of a model
        ("openai", "openai"),
    ],
)
def test_a_name_is_an_entry_then_a_model_of_a_provider_then_a_bare_model(code, name, model):
    found = code(MODELS, kind="completion_fns")
    built = found.make_completion_fn(name)
    assert (built.model, built("hi").get_completions()) == (model, [model])
    assert built.registry is found
    assert found.resolve_completion_fn(name).args["model"] == model


def test_arguments_of_the_command_line_win_over_the_entry(code):  # REG-04
    found = code(MODELS, kind="completion_fns")
    built = found.make_completion_fn("exact/one", model="other", timeout_s=9)
    assert (built.model, built.extra["a"], built.timeout_s) == ("other", 1, 9)
    assert found.make_completion_fn("local/x", anything=1).options == {"model": "x", "anything": 1}


def test_settings_of_the_run_reach_only_who_names_them_and_has_none(code):
    found = code(MODELS, kind="completion_fns")
    defaults = {"timeout_s": 300, "max_retries": 7}
    assert found.make_completion_fn("openai/azure/x", defaults=defaults).timeout_s == 300
    assert found.make_completion_fn("openai/x", defaults=defaults).timeout_s == 5
    assert found.make_completion_fn("exact/one", defaults=defaults, timeout_s=1).timeout_s == 1
    assert found.make_completion_fn("local/x", defaults=defaults).options == {"model": "x"}
    assert found.resolve_completion_fn("openai/azure/x", defaults=defaults).args == {"model": "x", "timeout_s": 300}


def test_a_completion_function_must_be_callable(code):
    with pytest.raises(BadClass, match="builds a Silent, which cannot be called"):
        code(MODELS, kind="completion_fns").make_completion_fn("mute")


def test_a_dollar_name_is_passed_on_with_a_warning(code):
    found = code(MODELS, kind="completion_fns")
    assert found.make_completion_fn("dollar").options == {"api_key": "${MY_KEY}"}
    found.make_completion_fn("dollar")
    assert [("${MY_KEY}" in str(warning), "Write !env MY_KEY" in str(warning)) for warning in found.warnings] == [(True, True)]


def test_without_a_provider_for_bare_names_an_unknown_one_is_told(code):
    found = code({"m.yaml": "dummy: {class: own:Model}\n"}, kind="completion_fns")
    assert found.find_completion_fn("dumy") is None
    for ask in (found.make_completion_fn, found.get_completion_fn):
        with pytest.raises(UnknownName, match=r'no completion function "dumy"\. Closest: dummy'):
            ask("dumy")


def test_a_solver_is_got_by_its_name(code):
    found = code(MODELS, kind="completion_fns")
    assert found.build(found.get_solver("step")).model == "solver"
    assert found.build("step", model="x").model == "x"


@pytest.mark.parametrize("order", [("R", "R2"), ("R2", "R")])
def test_several_registries_work_in_any_order(code, order):  # REG-04
    found = code(
        {"R/evals/a.yaml": "a.dev.v0: {class: own:Eval}\n", "R2/completion_fns/up.yaml": "loud: {class: own:Model, args: {model: m}}\n"}
    )
    root = found.registry_paths[0].parent
    turned = Registry([root / name for name in order])
    assert turned.make_completion_fn("loud").model == "m"
    assert turned.get_eval("a.dev.v0").key == "a.dev.v0"
