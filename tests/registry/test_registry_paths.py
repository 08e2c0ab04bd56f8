import os
from pathlib import Path

import pytest

from evalframe.core.errors import BadSetting, MissingData
from evalframe.core.specs import Place
from evalframe.registry.paths import bundled_registry, default_sources, find_data
from evalframe.registry.registry import Registry


def test_the_bundled_registry_lies_inside_an_installed_package(write):
    folder = write({"site/evalframe/_bundled/registry/evals/a.yaml": "", "site/registry/x": ""})
    assert bundled_registry(folder / "site/evalframe") == folder / "site/evalframe/_bundled/registry"


def test_the_bundled_registry_lies_beside_the_package_in_a_source_tree(write):
    folder = write({"src/evalframe/x": "", "src/registry/evals/a.yaml": "", "src/pyproject.toml": ""})
    assert bundled_registry(folder / "src/evalframe") == folder / "src/registry"


def test_a_stranger_called_registry_beside_an_installed_package_is_not_ours(write):
    folder = write({"site/evalframe/x": "", "site/registry/evals/a.yaml": ""})
    assert bundled_registry(folder / "site/evalframe") is None


def test_sources_come_in_the_order_bundled_home_environment(write):
    folder = write({"home/.evals/x": "", "home/.evalframe/x": "", "one/x": "", "two/x": ""})
    environ = {"EVALFRAME_REGISTRY_PATH": os.pathsep.join([str(folder / "one"), "", str(folder / "two")])}
    found = [source.path for source in default_sources(environ, folder / "home")]
    bundled = [bundled_registry()] if bundled_registry() else []
    assert found == [*bundled, folder / "home/.evals", folder / "home/.evalframe", folder / "one", folder / "two"]


def test_folders_missing_in_the_home_folder_are_no_fault(tmp_path):
    assert [source.path for source in default_sources({}, tmp_path) if source.path.is_relative_to(tmp_path)] == []


def test_a_missing_path_in_the_environment_is_told_with_the_variable(tmp_path):
    with pytest.raises(BadSetting, match=r"no registry at .*gone.*EVALFRAME_REGISTRY_PATH"):
        default_sources({"EVALFRAME_REGISTRY_PATH": str(tmp_path / "gone")}, tmp_path)


def test_a_missing_path_that_was_given_is_told(tmp_path):
    with pytest.raises(BadSetting, match=r"no registry at .*gone.*--registry_path"):
        Registry([]).add_registry_paths([tmp_path / "gone"])


def test_a_registry_given_twice_counts_once(write, monkeypatch):
    folder = write({"R/evals/a.yaml": "a.dev.v0: {class: own:A}\n"})
    (folder / "link").symlink_to(folder / "R")
    monkeypatch.chdir(folder)
    registry = Registry(["R", folder / "R", "R/../R", "link"])
    assert registry.registry_paths == [folder / "R"]
    assert registry.get_eval("a.dev.v0").cls == "own:A"
    assert registry.warnings == []


ORDER = ["R/data/x.jsonl", "data/x.jsonl", "R/evals/team/x.jsonl", "R2/data/x.jsonl"]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_data_is_looked_for_in_one_order(write, first):
    folder = write(dict.fromkeys(ORDER[first:], "{}"))
    (folder / "R").mkdir(exist_ok=True)
    place = Place(folder / "R/evals/team/a.yaml", 1)
    found = find_data("x.jsonl", folder / "R", place=place, registries=[folder / "R2", folder / "R"])
    assert found == folder / ORDER[first]


def test_data_beside_another_registry_is_found_last(write):
    folder = write({"other/data/x.jsonl": "{}", "other/registry/x": "", "R/x": ""})
    assert find_data("x.jsonl", folder / "R", registries=[folder / "other/registry"]) == folder / "other/data/x.jsonl"


def test_an_existing_path_wins_and_comes_back_absolute(write, monkeypatch):
    folder = write({"here/x.jsonl": "{}", "R/data/x.jsonl": "{}"})
    monkeypatch.chdir(folder / "here")
    assert find_data("x.jsonl", folder / "R") == folder / "here/x.jsonl"


def test_a_folder_of_the_same_name_is_not_taken_for_the_file(write, monkeypatch):
    folder = write({"here/x/y": "", "R/data/x": "{}"})
    monkeypatch.chdir(folder / "here")
    assert find_data("x", folder / "R") == folder / "R/data/x"


@pytest.mark.parametrize("url", ["hf://openai/gsm8k", "https://example.org/a.jsonl", "s3://bucket/a.jsonl"])
def test_a_url_comes_back_as_it_is(url):
    assert find_data(url, None) == url


def test_missing_data_tells_all_that_was_tried(write):
    folder = write({"R/x": "", "R2/x": ""})
    with pytest.raises(MissingData) as caught:
        find_data("a/x.jsonl", folder / "R", place=Place(folder / "R/evals/a.yaml", 3), registries=[folder / "R2"])
    message = str(caught.value)
    for tried in (Path.cwd(), folder / "R/data", folder / "data", folder / "R/evals", folder / "R2/data"):
        assert str(tried / "a/x.jsonl") in message
    assert "a.yaml:3" in message


@pytest.mark.parametrize("path", ["", "/nowhere/x.jsonl"])
def test_a_path_that_leads_nowhere_is_missing_data(tmp_path, path):
    with pytest.raises(MissingData):
        find_data(path, tmp_path)


def test_a_relative_path_means_the_registry_that_names_it_whatever_the_order(registry):  # REG-03
    found = registry(
        {
            "R/evals/mine.yaml": "mine.dev.v0: {class: own:A, args: {samples_jsonl: mine/samples.jsonl}}\n",
            "R/data/mine/samples.jsonl": "{}",
            "R2/data/mine/samples.jsonl": "{}",
        }
    )
    spec = found.get_eval("mine.dev.v0")
    other = Registry(list(reversed(found.registry_paths)))
    for each in (found, other):
        path = each.find_data(spec.args["samples_jsonl"], spec.registry_path, spec.place)
        assert path == spec.registry_path / "data/mine/samples.jsonl"
