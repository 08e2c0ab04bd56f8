import pickle
from datetime import date

import pytest

from evalframe.cli.main import main
from evalframe.core.completion import Usage
from evalframe.core.errors import AliasLoop, BadEntry, BadYaml, DanglingAlias, DuplicateKey, DuplicateName, Faults
from evalframe.core.price import Price
from evalframe.registry.paths import bundled_registry
from evalframe.registry.registry import Registry
from evalframe.registry.validate import validate

MODELS = """
gpt: {input_usd: 2.5, cached_usd: 1.25, output_usd: 10, source: "https://prices.example/gpt", date: 2026-11-01}
gpt-2024-05-13: {input_usd: 5, output_usd: 15, date: "2024-05-13"}
maker/tuned: {input_usd: 1, output_usd: 1}
tuned: {input_usd: 9, output_usd: 9}
latest: {id: gpt}
newest: latest
"ft:gpt*": {input_usd: 3, output_usd: 12}
"ft:*": {input_usd: 4, output_usd: 16}
"*.gguf": {input_usd: 0, output_usd: 0}
"""


@pytest.mark.parametrize(
    ("model", "input_usd"),
    [
        ("gpt", 2.5),
        ("openai/gpt", 2.5),
        ("gpt-2024-08-06", 2.5),
        ("gpt-20241022", 2.5),
        ("gpt@20241022", 2.5),
        ("openai/gpt-2024-08-06", 2.5),
        ("gpt-2024-05-13", 5),  # a snapshot with a price of its own
        ("openai/gpt-2024-05-13", 5),
        ("maker/tuned", 1),  # the exact name first
        ("other/tuned", 9),
        ("latest", 2.5),
        ("newest", 2.5),
        ("azure/newest-2026-01-31", 2.5),
        ("ft:gpt-mini:org::id", 3),  # of several patterns the longest
        ("openai/ft:gpt-mini:org::id", 3),
        ("ft:other", 4),
        ("/home/me/models/mine.gguf", 0),
        ("mine.gguf", 0),
        ("gpt-mini", None),  # no guess from a part of a name
        ("GPT", None),
        ("gpt-2024-13-41", None),  # no date
        ("gpt-12345678", None),
        ("gpt-2024-0806", None),
        ("a/b/gpt", None),  # one provider is taken off, not all that stands before
        ("", None),
        ("/", None),
    ],
)
def test_a_price_is_found_by_name_without_provider_without_date_then_by_pattern(registry, model, input_usd):
    price = registry({"m.yaml": MODELS}, kind="models").price_of(model)
    assert (price and price.input_usd) == input_usd


def test_a_price_says_where_it_was_read_and_when(registry):
    price = registry({"m.yaml": MODELS}, kind="models").price_of("gpt")
    assert price == Price(2.5, 10.0, 1.25, "https://prices.example/gpt", "2026-11-01")


def test_source_date_and_the_price_of_cached_tokens_may_be_left_out(registry):
    found = registry({"m.yaml": "a: {input_usd: 1, cached_usd: ~, output_usd: 2}"}, kind="models")
    assert found.price_of("a") == Price(1.0, 2.0)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{input_usd: -1, output_usd: 1}", ["m.yaml:1:16", "input_usd", "-1"]),
        ("{input_usd: 1, output_usd: '2'}", ["m.yaml:1:31", "output_usd", "'2'"]),
        ("{input_usd: 1, output_usd: $2}", ["output_usd", "$2"]),
        ("{input_usd: 1, output_usd: 1e-1}", ["1e-1", "plain number"]),  # YAML 1.1 reads this as text
        ("{input_usd: true, output_usd: 1}", ["input_usd", "True"]),
        ("{input_usd: .nan, output_usd: 1}", ["input_usd", "nan"]),
        ("{input_usd: .inf, output_usd: 1}", ["input_usd", "inf"]),
        (f"{{input_usd: 1{'0' * 400}, output_usd: 1}}", ["input_usd"]),  # an integer that no float holds
        ("{input_usd: [1], output_usd: 1}", ["input_usd", "a list"]),
        ("{input_usd: !env PRICE, output_usd: 1}", ["input_usd", "!env PRICE"]),
        ("{input_usd: 1, cached_usd: -0.1, output_usd: 1}", ["cached_usd", "-0.1"]),
        ("{input_usd: 1}", ["has no output_usd", "it has: input_usd"]),
        ("{}", ["has no input_usd and no output_usd"]),
        ("{input_usd: 1, output_usd: 2, cache_usd: 1}", ["m.yaml:1:", '"cache_usd"', "cached_usd"]),
        ("{input_usd: 1, output_usd: 2, currency: EUR}", ['"currency"', "it takes:"]),
        ("{input_usd: 1, output_usd: 2, date: yesterday}", ["date", "yesterday"]),
        ("{input_usd: 1, output_usd: 2, date: 20261101}", ["date", "20261101"]),
        ("{input_usd: 1, output_usd: 2, date: '20261101'}", ["date", "20261101"]),
        ("{id: gpt, input_usd: 1}", ['"input_usd"', "id"]),  # an alias whose price would not count
        ("[1, 2]", ["a list"]),
        ("0.15", ["0.15"]),
    ],
)
def test_an_entry_that_is_no_price_is_refused_with_its_place(registry, entry, told):
    found = registry({"m.yaml": f"a: {entry}\ngpt: {{input_usd: 1, output_usd: 2}}"}, kind="models")
    with pytest.raises(BadEntry) as caught:
        found.price_of("a")
    assert all(part in str(caught.value) for part in (*told, "m.yaml:1:", '"a"')), str(caught.value)
    assert found.price_of("gpt") == Price(1.0, 2.0)


def test_all_that_is_wrong_with_a_price_is_told_at_once(registry):
    found = registry({"m.yaml": "a: {input_usd: -1, cached: 2, date: soon}"}, kind="models")
    with pytest.raises(Faults) as caught:
        found.price_of("a")
    assert len(caught.value.errors) == 4


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: b\nb: {id: a}", AliasLoop),
        ("a: nowhere", DanglingAlias),
        ("a: {input_usd: 1, input_usd: 2, output_usd: 3}", DuplicateKey),
        ("a: {input_usd: 1, output_usd: [", BadYaml),
        ('"a": {input_usd: 1, output_usd: [', BadYaml),
    ],
)
def test_prices_keep_the_rules_of_all_entries(registry, text, error):
    found = registry({"bad.yaml": text, "good.yaml": "good: {input_usd: 1, output_usd: 2}"}, kind="models")
    with pytest.raises(error):
        found.price_of("a")
    assert found.price_of("good") == Price(1.0, 2.0)


def test_a_price_given_twice_is_an_error_that_shows_both_places(registry):
    found = registry({"R/models/m.yaml": "a: {input_usd: 1, output_usd: 2}", "R2/models/n.yaml": "a: {input_usd: 3, output_usd: 4}"})
    with pytest.raises(DuplicateName) as caught:
        found.price_of("a")
    assert "m.yaml:1:1" in str(caught.value)
    assert "n.yaml:1:1" in str(caught.value)


def test_a_price_of_ones_own_replaces_ours_if_it_says_so(write):
    own = write({"own/models/mine.yaml": "gpt-4o: {input_usd: 2, output_usd: 8, override: true}\nteam-7b: {input_usd: 0, output_usd: 0}"})
    found = Registry([bundled_registry()])
    ours = found.price_of("gpt-4o")
    assert found.price_of("team-7b") is None
    found.add_registry_paths([own / "own"])
    assert ours != found.price_of("gpt-4o") == Price(2.0, 8.0)
    assert found.price_of("team-7b").is_free


def test_validate_covers_prices(registry):
    found = registry(
        {"m.yaml": MODELS + "bad: {input_usd: x, output_usd: 1}\nlost: nowhere\nboth: {id: gpt, output_usd: 1}\n"}, kind="models"
    )
    assert sorted(type(error).__name__ for error in validate(found)) == ["BadEntry", "BadEntry", "DanglingAlias"]
    assert found.warnings == []


def test_a_registry_that_knows_prices_can_be_sent_to_another_process(registry):
    found = registry({"m.yaml": MODELS}, kind="models")
    assert pickle.loads(pickle.dumps(found)).price_of("latest") == found.price_of("gpt")


# ---------------------------------------------------------------------- the bundled prices


@pytest.fixture(scope="module")
def bundled():
    return Registry([bundled_registry()])


def test_the_bundled_prices_are_sound(bundled):
    assert validate(bundled, ["models"]) == []
    assert len(bundled.names("models")) > 60


def test_each_bundled_price_says_where_and_when_it_was_read(bundled):
    for name in bundled.names("models"):
        price = bundled.price_of(name)
        if not price.is_free:
            assert price.source.startswith("https://"), name
            assert date(2023, 1, 1) <= date.fromisoformat(price.date) <= date(2026, 12, 1), name
            assert (price.cached_usd or 0) <= price.input_usd <= price.output_usd, name  # a slip of the pen would show


@pytest.mark.parametrize("model", ["dummy", "echo", "scripted", "smollm2", "local/smollm2", "models/mine.gguf", "local/models/mine.gguf"])
def test_what_runs_in_this_process_costs_nothing(bundled, model):
    assert bundled.price_of(model).cost_usd(Usage(unknown=1)) == 0.0


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-4.1-2025-04-14", "gpt-4.1"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-3-5-haiku-20241022", "claude-3-5-haiku-latest"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("gpt-5.6", "gpt-5.6-sol"),
    ],
)
def test_names_as_endpoints_spell_them_have_a_price(bundled, model, same_as):
    assert bundled.price_of(model) == bundled.price_of(same_as) is not None


def test_the_first_gpt_4o_has_its_own_price(bundled):
    assert bundled.price_of("gpt-4o-2024-05-13").input_usd > bundled.price_of("gpt-4o-2024-08-06").input_usd


# ---------------------------------------------------------------------- on the command line


@pytest.fixture
def _no_other_registries(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("EVALFRAME_REGISTRY_PATH", raising=False)


@pytest.mark.usefixtures("_no_other_registries")
def test_list_tells_prices_and_what_is_wrong_with_one(write, capsys):
    own = write({"own/models/m.yaml": "team: {input_usd: 1, output_usd: 2}\nalso: team\nbroken: {input_usd: x, output_usd: 1}"})
    assert main(["list", "models", "--registry_path", str(own / "own")]) == 0
    lines = {line.split()[0]: " ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    assert lines["team"] == "team $1 in, $2 out per million tokens"
    assert lines["also"] == "also team $1 in, $2 out per million tokens"
    assert "cannot be used" in lines["broken"]


@pytest.mark.usefixtures("_no_other_registries")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gpt-5.6", ["gpt-5.6 -> gpt-5.6-sol", "openai.yaml", "$4 in", "https://", "2026-"]),
        ("openai/gpt-4o", ["model of a provider", "$2.5 in"]),
        ("openai/no-such-model", ["not known"]),
    ],
)
def test_show_tells_what_a_model_costs(capsys, name, told):
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in told), shown
