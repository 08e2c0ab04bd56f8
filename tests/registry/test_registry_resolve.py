import pytest

from evalframe.core.errors import AliasLoop, BadEntry, DanglingAlias, Faults, UnknownName
from evalframe.core.specs import BaseEvalSpec

SPEC = "{class: own:A}\n"


def test_aliases_are_followed_at_any_depth_in_either_form(registry):
    found = registry({"a.yaml": f"a: {{id: b}}\nb: c\nc: {{id: a.dev.v0}}\na.dev.v0: {SPEC}"})
    assert {found.get_eval(name).key for name in ("a", "b", "c", "a.dev.v0")} == {"a.dev.v0"}


def test_a_spec_knows_where_it_comes_from(registry):
    found = registry({"team/sums.yaml": "", "R/evals/team/sums.yaml": "\na.dev.v0:\n  class: own:A\n  args: {x: 1}\n  run: {epochs: 5}\n"})
    spec = found.get_eval("a.dev.v0")
    root = found.registry_paths[0]
    assert (spec.cls, spec.args, spec.run, spec.key, spec.group) == ("own:A", {"x": 1}, {"epochs": 5}, "a.dev.v0", "sums")
    assert spec.registry_path == root
    assert str(spec.place) == f"{root}/evals/team/sums.yaml:2:1"


def test_what_is_done_to_a_spec_leaves_the_registry_as_it_was(registry):
    found = registry({"a.yaml": "a.dev.v0: {class: own:A, args: {x: 1}}\n"})
    found.get_eval("a.dev.v0").args["x"] = 2
    assert found.get_eval("a.dev.v0").args == {"x": 1}


@pytest.mark.parametrize(("text", "chain"), [("a: b\nb: {id: c}\nc: a\n", "-> a."), ("a: {id: a}\n", "-> a.")])
def test_a_loop_of_aliases_is_told_with_its_chain(registry, text, chain):  # hangs for ever in openai/evals
    with pytest.raises(AliasLoop) as caught:
        registry({"a.yaml": text}).get_eval("a")
    assert chain in str(caught.value)
    assert "a.yaml:1:1" in str(caught.value)


def test_a_dangling_alias_is_told_with_its_chain_and_closest_names(registry):
    found = registry({"a.yaml": f"a: b\nb: {{id: arithmetic.dev.v1}}\narithmetic.dev.v0: {SPEC}"})
    with pytest.raises(DanglingAlias, match=r'"a" leads to "arithmetic.dev.v1".*b \(.*a.yaml:2:1\).*Closest: arithmetic.dev.v0'):
        found.get_eval("a")


def test_an_unknown_name_is_told_with_closest_names_and_not_all_of_them(registry):
    found = registry({"a.yaml": "".join(f"test-match{n}.dev.v0: {SPEC}" for n in range(300)) + f"test-match: {SPEC}"})
    with pytest.raises(UnknownName, match=r'no eval "test-mach"\. Closest: test-match.*All: evalframe list evals') as caught:
        found.get_eval("test-mach")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("~", "empty: neither an alias nor a spec"),
        ("[a, b]", "a list"),
        ("7", "7"),
        ("{id: [a]}", "has the id a list"),
        ("{description: x}", "has no class and no id"),
        ("{class: 3}", "has the class 3"),
        ("{class: own:A, args: [1]}", '"args" of eval "odd.dev.v0" is no mapping'),
        ("{class: own:A, args: {1: 2}}", '"args" of eval "odd.dev.v0" is no mapping'),
        ("{class: own:A, run: fast}", '"run" of eval "odd.dev.v0" is no mapping'),
    ],
)
def test_an_odd_entry_is_told_when_it_is_asked_for(registry, entry, told):
    found = registry({"a.yaml": f"odd.dev.v0: {entry}\nok.dev.v0: {SPEC}"})
    assert found.get_eval("ok.dev.v0")
    with pytest.raises(BadEntry, match=r"a\.yaml:1:") as caught:
        found.get_eval("odd.dev.v0")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{id: x.dev.v0, description: D, metrics: [f1]}", BaseEvalSpec("x.dev.v0", ["f1"], "D")),
        ("{id: x.dev.v0, metrics: f1, higher_is_better: false, metric: x}", BaseEvalSpec("x.dev.v0", ["f1"], higher_is_better=False)),
        ("x.dev.v0", BaseEvalSpec("x.dev.v0")),
        ("{class: own:A}", BaseEvalSpec(None)),
    ],
)
def test_a_base_entry_runs_as_an_alias_and_describes_as_a_base(registry, entry, expected):
    found = registry({"a.yaml": f"x: {entry}\nx.dev.v0: {SPEC}"}).get_base_eval("x")
    expected.key, expected.group, expected.place = found.key, found.group, found.place
    assert found == expected


def test_an_unknown_base_is_none(registry):
    assert registry({"a.yaml": ""}).get_base_eval("x") is None


NAMES = f"b: {{id: b.dev.v0}}\nb.dev.v0: {SPEC}a+b.dev.v0: {SPEC}aab.dev.v0: {SPEC}a(b.dev.v0: {SPEC}alias: b\n"


@pytest.mark.parametrize(
    ("patterns", "keys"),
    [
        (["*"], ["b.dev.v0", "a+b.dev.v0", "aab.dev.v0", "a(b.dev.v0"]),
        (["a+b*"], ["a+b.dev.v0"]),  # a regular expression in openai/evals, which finds "aab" instead
        (["a(b*"], ["a(b.dev.v0"]),  # and is an error there
        (["a?b*", "b"], None),
        (["*.dev.v?"], None),
        (["a+b.dev.v0", "b", "alias", "b.dev.v0"], ["b.dev.v0", "a+b.dev.v0"]),
        (["bxdev*"], None),
    ],
)
def test_only_a_star_is_special_in_a_pattern(registry, patterns, keys):
    found = registry({"a.yaml": NAMES})
    if keys is None:
        with pytest.raises(UnknownName, match="matches the pattern"):
            found.get_evals(patterns)
    else:
        assert [spec.key for spec in found.get_evals(patterns)] == keys


SET = {"R/evals/a.yaml": f"test-match: {{id: test-match.dev.v0}}\ntest-match.dev.v0: {SPEC}"}


def test_an_unknown_name_in_a_set_is_told_with_the_sets_file_and_line(registry):
    found = registry(SET | {"R/eval_sets/smoke.yaml": "smoke:\n  evals:\n    - test-match\n    - test-mach\n    - nothing*\n"})
    with pytest.raises(Faults) as caught:
        found.evals_of_set("smoke")
    first, second = map(str, caught.value.errors)
    assert 'no eval "test-mach", asked for by eval set "smoke" in ' in first
    assert "smoke.yaml:4:" in first
    assert "Closest: test-match" in first
    assert 'the pattern "nothing*"' in second
    assert "smoke.yaml:5:" in second


@pytest.mark.parametrize("entry", ["{evals: []}", "{evals: ~}", "{evals: [1]}", "{evals: {a: b}}", "[test-match]", "{}"])
def test_an_eval_set_that_lists_no_names_is_told(registry, entry):
    with pytest.raises(BadEntry, match=r"s\.yaml:1:"):
        registry(SET | {"R/eval_sets/s.yaml": f"s: {entry}\n"}).evals_of_set("s")


def test_an_alias_of_an_eval_set_is_followed(registry):
    found = registry(SET | {"R/eval_sets/s.yaml": "s: t\nt: {evals: [test-match]}\n"})
    assert found.get_eval_set("s").evals == ["test-match"]
    assert [spec.key for spec in found.evals_of_set("s")] == ["test-match.dev.v0"]


def test_a_modelgraded_spec_is_a_copy(registry):
    found = registry({"m.yaml": "fact: {prompt: p, choice_strings: [A, B]}\nsame: fact\n"}, kind="modelgraded")
    found.get_modelgraded_spec("fact")["choice_strings"].append("C")
    assert found.get_modelgraded_spec("same") == {"prompt": "p", "choice_strings": ["A", "B"]}


def test_an_unknown_kind_is_told(registry):
    with pytest.raises(UnknownName, match=r"Kinds: evals, eval_sets"):
        registry({"a.yaml": ""}).names("eval")
