import copy
import os
import pickle
import subprocess
import sys

import pytest

from evalframe.core.errors import BadEntry, BadYaml, DuplicateKey, DuplicateName, ForbiddenTag, UnknownName
from evalframe.registry.env import EnvValue, read_env
from evalframe.registry.registry import Registry
from evalframe.storage.json_text import dumps

SPEC = "{class: own:A}\n"


def test_sub_folders_and_both_endings_are_read_in_sorted_order(registry):
    found = registry(
        {
            "b.yml": f"b.dev.v0: {SPEC}",
            "a.yaml": f"a.dev.v0: {SPEC}",
            "team/corner/c.yaml": f"c.dev.v0: {SPEC}",
            "R/loose.yaml": f"loose.dev.v0: {SPEC}",
            "R/evals/team/d.yaml": f"d.dev.v0: {SPEC}",
            "R/evals/.hidden/e.yaml": f"e.dev.v0: {SPEC}",
            "R/evals/notes.txt": "not: yaml: at: all",
        }
        | {"R/evals/team/corner/c.yaml": f"c.dev.v0: {SPEC}"}
    )
    assert found.names("evals") == ["loose.dev.v0", "a.dev.v0", "b.dev.v0", "c.dev.v0", "d.dev.v0"]


def test_a_kind_may_be_one_file_and_so_may_a_registry(write):
    folder = write({"R/completion_fns": f"mine: {SPEC}", "one.yaml": f"one.dev.v0: {SPEC}"})
    found = Registry([folder / "R", folder / "one.yaml"])
    assert found.get_completion_fn("mine").cls == "own:A"
    assert found.get_eval("one.dev.v0").registry_path == folder


def test_a_registry_inside_another_is_read_once(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}"})
    found.add_registry_paths([found.registry_paths[0] / "evals"])
    assert found.get_eval("a.dev.v0").cls == "own:A"


def test_a_link_that_leads_back_to_its_folder_ends(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}"})
    (found.registry_paths[0] / "evals/again").symlink_to(found.registry_paths[0] / "evals")
    assert found.names("evals") == ["a.dev.v0"]


def test_a_kind_is_read_only_when_it_is_asked_for(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}", "R/solvers/broken.yaml": "a: [\n"})
    found.get_eval("a.dev.v0")
    assert found.warnings == []


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_files_are_utf_8_with_or_without_bom(registry, bom):
    found = registry({"jp.yaml": bom + "東京: {prompt: 答えは正しいですか}\r\n".encode()}, kind="modelgraded")
    assert found.get_modelgraded_spec("東京") == {"prompt": "答えは正しいですか"}


def test_the_locale_does_not_matter(write):  # REG-01
    folder = write({"R/modelgraded/jp.yaml": "jp_fact: {prompt: 次の答えは正しいですか}\n"})
    code = (
        "import sys; from evalframe.registry.registry import Registry as R; print(ascii(R(sys.argv[1:]).get_modelgraded_spec('jp_fact')))"
    )
    environ = {**os.environ, "LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code, str(folder / "R")]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, encoding="utf-8", check=True)
    assert told.stdout.strip() == ascii({"prompt": "次の答えは正しいですか"})


def test_text_that_is_not_utf_8_is_told_with_its_line(registry):
    found = registry({"latin.yaml": b"# one\n# two\nname: caf\xe9\n"})
    with pytest.raises(BadYaml, match=r"latin\.yaml:3 is not plain UTF-8"):
        found.get_eval("name")


def test_a_key_that_stands_twice_is_told_with_both_lines(registry):  # REG-07
    text = """
    twice:
      id: twice.dev.v0
    twice.dev.v0:
      class: own:A
      args:
        samples_jsonl: a.jsonl
        samples_jsonl: b.jsonl
    """
    found = registry({"twice.yaml": text})
    with pytest.raises(DuplicateKey, match=r'twice\.yaml:8:5 has the key "samples_jsonl" again; it first stands in line 7'):
        found.get_eval("twice")


def test_a_name_that_stands_twice_in_one_file_is_a_duplicate_key_and_stops_only_itself(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}b.dev.v0: {SPEC}a.dev.v0: {SPEC}"})
    assert found.get_eval("b.dev.v0").key == "b.dev.v0"
    with pytest.raises(DuplicateKey, match=r"a\.yaml:3:1.*line 1"):
        found.get_eval("a.dev.v0")


def test_merge_keys_are_no_duplicates(registry):
    text = """
    base.dev.v0: &base {class: own:A, args: &args {x: 1, y: 2}}
    more.dev.v0:
      <<: *base
      args: {<<: *args, y: 3}
    """
    assert registry({"a.yaml": text}).get_eval("more.dev.v0").args == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("tag", "error"),
    [
        ("!!python/object/apply:os.system ['true']", ForbiddenTag),
        ("!!python/name:os.system", ForbiddenTag),
        ("!!python/tuple [1, 2]", ForbiddenTag),
        ("!include other.yaml", BadYaml),
        ("!env []", BadYaml),
        ("!env [A, b, c]", BadYaml),
        ("2024-13-41", BadYaml),  # reads as a date, and is none
    ],
)
def test_yaml_is_data(registry, tag, error):
    found = registry({"a.yaml": f"ok.dev.v0: {SPEC}bad.dev.v0:\n  class: own:A\n  args:\n    x: {tag}\n"})
    assert found.get_eval("ok.dev.v0")
    with pytest.raises(error, match=r"a\.yaml:5:8"):
        found.get_eval("bad.dev.v0")


def test_names_are_text_as_written(registry):
    found = registry({"a.yaml": f"on: {SPEC}1.0: {SPEC}'q': {SPEC}=: {SPEC}"}, kind="solvers")
    assert found.names("solvers") == ["on", "1.0", "q", "="]


BROKEN = "bad:\n  id: bad.dev.v0\n   class: [unclosed\n"


def test_a_broken_file_stops_only_names_that_need_it(registry):  # REG-08
    found = registry({"ok.yaml": f"ok: {{id: ok.dev.v0}}\nok.dev.v0: {SPEC}leads: bad\n", "broken.yaml": BROKEN})
    assert found.get_eval("ok").key == "ok.dev.v0"
    assert [type(warning) for warning in found.warnings] == [BadYaml]
    assert "broken.yaml:3:" in str(found.warnings[0])
    for name in ("bad", "leads"):
        with pytest.raises(BadYaml, match=r"broken\.yaml:3:"):
            found.get_eval(name)
    with pytest.raises(UnknownName, match=r"Not searched: .*broken\.yaml:3:"):
        found.get_eval("elsewhere")


@pytest.mark.parametrize(
    "text", ["- a\n- b\n", "just text\n", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a: 1\n---\nb: 2\n"]
)
def test_a_file_that_holds_no_mapping_is_a_broken_one(registry, text):
    found = registry({"odd.yaml": text, "ok.yaml": f"ok.dev.v0: {SPEC}"})
    assert found.get_eval("ok.dev.v0")
    assert ["odd.yaml" in str(warning) for warning in found.warnings] == [True]


@pytest.mark.parametrize("args", ["&a {x: [*a]}", "{? [1] : 2}", "{? {a: b} : 2}"])
def test_values_that_no_argument_can_be_are_told(registry, args):
    found = registry({"a.yaml": f"a.dev.v0: {{class: own:A, args: {args}}}\n"})
    with pytest.raises(BadYaml, match=r"a\.yaml:1:"):
        found.get_eval("a.dev.v0")


def test_an_entry_without_a_name_is_told(registry):
    found = registry({"a.yaml": f"? [a, b]\n: {SPEC}ok.dev.v0: {SPEC}"})
    assert found.names("evals") == ["ok.dev.v0"]
    assert "a.yaml:1:3 is no name" in str(found.warnings[0])


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "~\n"])
def test_an_empty_file_is_no_fault(registry, text):
    found = registry({"empty.yaml": text})
    assert (found.names("evals"), found.warnings) == ([], [])


def test_a_file_that_leads_nowhere_is_told(registry):
    found = registry({"ok.yaml": f"ok.dev.v0: {SPEC}"})
    (found.registry_paths[0] / "evals/gone.yaml").symlink_to("nowhere.yaml")
    assert found.get_eval("ok.dev.v0")
    assert "gone.yaml cannot be read" in str(found.warnings[0])


def test_one_name_twice_shows_both_places_and_stops_only_that_name(registry):
    found = registry({"R/evals/a.yaml": f"a.dev.v0: {SPEC}ok.dev.v0: {SPEC}", "R2/evals/b.yaml": f"# outer\na.dev.v0: {SPEC}"})
    assert found.get_eval("ok.dev.v0")
    with pytest.raises(DuplicateName) as caught:
        found.get_eval("a.dev.v0")
    assert "R/evals/a.yaml:1:1" in str(caught.value)
    assert "R2/evals/b.yaml:2:1" in str(caught.value)
    assert [type(warning) for warning in found.warnings] == [DuplicateName]


def test_an_outer_entry_may_override(registry):
    found = registry({"R/evals/a.yaml": f"a.dev.v0: {SPEC}", "R2/evals/a.yaml": "a.dev.v0: {class: own:B, override: true}\n"})
    assert found.get_eval("a.dev.v0").cls == "own:B"
    assert found.warnings == []


def test_an_entry_cannot_override_another_of_its_own_registry(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}", "b.yaml": "a.dev.v0: {class: own:B, override: true}\n"})
    with pytest.raises(DuplicateName):
        found.get_eval("a.dev.v0")


def test_one_name_may_stand_for_an_eval_and_a_set(registry):
    found = registry({"R/evals/a.yaml": f"a: a.dev.v0\na.dev.v0: {SPEC}", "R/eval_sets/a.yaml": "a: {evals: [a]}\n"})
    assert [spec.key for spec in found.evals_of_set("a")] == ["a.dev.v0"]


def test_an_environment_value_is_read_late(registry, monkeypatch):
    monkeypatch.delenv("EVALFRAME_TEST_A", raising=False)
    text = "m: {class: builtins:dict, args: {a: !env EVALFRAME_TEST_A, b: [!env [EVALFRAME_TEST_A, 3]]}}\n"
    found = registry({"m.yaml": text}, kind="completion_fns")
    args = found.get_completion_fn("m").args
    assert args == {"a": EnvValue("EVALFRAME_TEST_A"), "b": [EnvValue("EVALFRAME_TEST_A")]}
    with pytest.raises(BadEntry, match=r'EVALFRAME_TEST_A is not set; it is needed by completion function "m" in .*m\.yaml:1:'):
        found.build(found.get_completion_fn("m"))
    assert read_env(args["b"]) == [3]
    assert read_env(args, missing_ok=True)["a"] == EnvValue("EVALFRAME_TEST_A")
    monkeypatch.setenv("EVALFRAME_TEST_A", "sk-1")
    assert found.build(found.get_completion_fn("m")) == {"a": "sk-1", "b": ["sk-1"]}


def test_an_environment_value_is_logged_by_its_name_only(monkeypatch):
    monkeypatch.setenv("EVALFRAME_TEST_A", "sk-1")
    assert dumps({"a": EnvValue("EVALFRAME_TEST_A", "secret")}) == b'{"a":"!env EVALFRAME_TEST_A"}'


def test_a_registry_can_be_copied_and_sent_to_another_process(registry):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}"})
    assert found.get_eval("a.dev.v0")
    assert copy.deepcopy({"registry": found})["registry"] is found
    assert pickle.loads(pickle.dumps(found)).get_eval("a.dev.v0").cls == "own:A"


def test_an_added_path_is_read_even_after_a_kind_was(registry, write):
    found = registry({"a.yaml": f"a.dev.v0: {SPEC}"})
    assert found.names("evals") == ["a.dev.v0"]
    found.add_registry_paths([write({"later/evals/b.yaml": f"b.dev.v0: {SPEC}"}) / "later"])
    assert found.names("evals") == ["a.dev.v0", "b.dev.v0"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 9)}]}}\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, MERGES, MERGES + "<<: *i\n"], ids=["references", "merges", "merges at the top"])
def test_references_that_multiply_are_refused_and_stop_nothing_else(tmp_path, text):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "bomb.yaml").write_text(text + "small: {class: 'm:C', args: {z: *i}}\n", encoding="utf-8")
    (tmp_path / "evals" / "fine.yaml").write_text("fine: {class: 'm:C'}\n", encoding="utf-8")
    registry = Registry([tmp_path])
    assert registry.get_eval("fine").cls == "m:C"
    with pytest.raises(BadYaml, match="more than 1,000,000 values"):
        registry.get_eval("small")
