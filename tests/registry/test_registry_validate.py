from evalframe.registry.validate import validate

GOOD = {
    "R/evals/good.yaml": "good: {id: good.dev.v0, metrics: [accuracy]}\ngood.dev.v0: {class: own_checked:Eval, args: {samples_jsonl: x}}\n",
    "R/own_checked.py": """
class Eval:
    def __init__(self, completion_fns, eval_registry_path, seed, name, registry, samples_jsonl=None, judge=None): ...

class Model:
    def __init__(self, model, timeout_s=1): ...
    def __call__(self, prompt, **kwargs): ...

class Judge:
    def __init__(self, prompt): ...
""",
    "R/eval_sets/s.yaml": "s: {evals: ['good*']}\n",
    "R/completion_fns/m.yaml": "own/: {class: own_checked:Model}\none: {class: own_checked:Model, args: {model: x}}\n",
    "R/modelgraded/j.yaml": "fact: {prompt: p}\n",
}


def test_a_sound_registry_has_no_faults(registry):
    found = registry(GOOD)
    assert (validate(found), found.warnings) == ([], [])


def test_every_fault_of_every_entry_is_told(registry):
    found = registry(
        GOOD
        | {
            "R/evals/broken.yaml": "x: [\n",
            "R/evals/many.yaml": """
                loop: loop
                dangling: {id: nowhere}
                odd: ~
                twice.dev.v0: {class: own_checked:Eval, class: own_checked:Eval}
                good.dev.v0: {class: own_checked:Eval}
                noclass.dev.v0: {class: own_checked:Evil}
                args.dev.v0: {class: own_checked:Eval, args: {sample_jsonl: x}}
                nested.dev.v0: {class: own_checked:Eval, args: {judge: {class: own_checked:Judge, args: {promt: x}}}}
            """,
            "R/eval_sets/t.yaml": "t: {evals: ['none*', unknown]}\n",
            "R/completion_fns/n.yaml": "missing: {class: own_checked:Model}\n",
            "R/modelgraded/k.yaml": "odd: [1]\n",
        }
    )
    told = [f"{type(error).__name__}: {error}" for error in validate(found)]
    expected = [
        ("BadYaml", "broken.yaml"),
        ("AliasLoop", "loop"),
        ("DanglingAlias", "nowhere"),
        ("BadEntry", '"odd"'),
        ("DuplicateKey", '"class"'),
        ("DuplicateName", "good.dev.v0"),
        ("BadClass", "Evil"),
        ("BadArguments", 'takes no argument "sample_jsonl"'),
        ("BadArguments", 'takes no argument "promt"'),
        ("UnknownName", "none*"),
        ("UnknownName", '"unknown"'),
        ("BadArguments", 'needs the argument "model"'),
        ("BadEntry", "k.yaml:1:"),
    ]
    for name, words in expected:
        assert any(line.startswith(name) and words in line for line in told), (name, words, told)


def test_only_the_kinds_that_are_asked_for_are_looked_at(registry):
    found = registry(GOOD | {"R/evals/broken.yaml": "x: [\n"})
    assert validate(found, ["completion_fns"]) == []
    assert len(validate(found, ["evals"])) == 1


def test_keys_that_nobody_reads_are_warnings(registry):
    found = registry(
        GOOD | {"R/solvers/x.yaml": "x: {class: own_checked:Judge, arg: {}, args: {prompt: p}}\ny: {id: x, class: own_checked:Judge}\n"}
    )
    assert validate(found) == []
    told = sorted(str(warning) for warning in found.warnings)
    assert ["keys that nobody reads: arg" in told[0], "both an id and a class" in told[1], len(told)] == [True, True, 2]
