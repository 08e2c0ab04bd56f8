"""
The registry: every name that can be run, and how to build what it stands for.

Names are read kind by kind when they are first asked for; classes are imported when they are first built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadArguments, BadClass, BadEntry, EvalframeError, MissingKey, UnknownName, closest
from evalframe.core.price import Price
from evalframe.core.specs import BaseEvalSpec, CompletionFnSpec, EvalSetSpec, EvalSpec, Place, SolverSpec, Spec
from evalframe.registry import paths as places
from evalframe.registry import resolve
from evalframe.registry.build import Origin, construct, import_class, make_importable, takes
from evalframe.registry.env import read_env
from evalframe.registry.load import KINDS, Entry, Shelf, load_kind

BARE_NAMES = "openai/"
"""The provider that answers to names which are no entry and have no provider: any OpenAI-compatible endpoint."""

EVAL_KEYWORDS = ("completion_fns", "eval_registry_path", "seed", "name", "registry")
"""What every eval's constructor gets from us, as in openai/evals."""

DOLLAR = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class Registry:
    """
    Entries of all kinds, from several folders.

    Args:
        paths: Folders to read, in this order. None: the bundled registry, those in the home folder, those of `EVALFRAME_REGISTRY_PATH`.

    Raises:
        BadSetting: If a path does not exist.
    """

    def __init__(self, paths: Sequence[str | Path] | None = None) -> None:
        self._sources = places.default_sources() if paths is None else places.unique(places.given_sources(paths, by="the registry's paths"))
        self._shelves: dict[str, Shelf] = {}
        self._prices: dict[str, Price | None] = {}
        self._notes: dict[str, EvalframeError] = {}
        self._eval_places: dict[str, Place] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Registry:
        return self  # parts that are copied for each sample share it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shelves": {}, "_prices": {}}  # parsed YAML stays behind; it is read again where it is needed

    def add_registry_paths(self, paths: Sequence[str | Path]) -> None:
        """
        Read these folders too, after those known so far.

        Raises:
            BadSetting: If one does not exist.
        """
        sources = places.unique([*self._sources, *places.given_sources(paths)])
        if sources != self._sources:  # else what was read stays read, also where several runs share this registry
            self._sources, self._shelves, self._prices = sources, {}, {}

    # ------------------------------------------------------------------ what there is

    @property
    def registry_paths(self) -> list[Path]:
        """The folders that are read, in their order."""
        return [source.folder for source in self._sources]

    @property
    def warnings(self) -> list[EvalframeError]:
        """What is wrong with the kinds read so far, but stopped nothing that was asked for."""
        found = [warning for shelf in self._shelves.values() for warning in shelf.warnings]
        return list({str(warning): warning for warning in (*found, *self._notes.values())}.values())

    def warn(self, warning: EvalframeError) -> None:
        """Keep a warning, once."""
        self._notes.setdefault(str(warning), warning)

    def shelf(self, kind: str) -> Shelf:
        """
        All entries of a kind and the files that cannot be read.

        Raises:
            UnknownName: If there is no such kind.
        """
        if kind not in KINDS:
            raise UnknownName(f'no kind "{kind}". Kinds: {", ".join(KINDS)}.')
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = load_kind(kind, self._sources)
        return shelf

    def names(self, kind: str) -> list[str]:
        """All names of a kind, in the registry's order."""
        return list(self.shelf(kind).entries)

    def entries(self, kind: str) -> list[Entry]:
        """All entries of a kind, in the registry's order; aliases are entries too."""
        return list(self.shelf(kind).entries.values())

    # ------------------------------------------------------------------ names to specs

    def get_eval(self, name: str) -> EvalSpec:
        """
        The eval that a name or alias leads to.

        Raises:
            RegistryError: If it leads to none; the error says where the chain breaks.
            YamlError: If it stands in a file that cannot be read.
        """
        return resolve.eval_spec(resolve.follow(self.shelf("evals"), name))

    def get_base_eval(self, name: str) -> BaseEvalSpec | None:
        """What people are told about an eval, by its base name; None if there is no entry of that name."""
        entry = self.shelf("evals").entries.get(name)
        return resolve.base_eval_spec(entry) if entry else None

    def get_evals(self, patterns: Sequence[str]) -> list[EvalSpec]:
        """
        The evals that names and patterns (with `*`) lead to, in the registry's order, each once.

        Raises:
            UnknownName: If a name is not there or a pattern matches nothing.
            Faults: If several things are wrong.
        """
        return self._specs(resolve.expand(self.shelf("evals"), patterns))

    def get_eval_set(self, name: str) -> EvalSetSpec:
        """
        The eval set that a name or alias leads to, its patterns as written.

        Raises:
            RegistryError: If it leads to none.
        """
        return resolve.eval_set_spec(resolve.follow(self.shelf("eval_sets"), name))

    def evals_of_set(self, name: str) -> list[EvalSpec]:
        """
        The evals of a set, in the registry's order, each once.

        Raises:
            RegistryError: If there is no such set.
            UnknownName: If it lists a name that is not there or a pattern that matches nothing; told with the set's file and line.
            Faults: If several things are wrong.
        """
        entry = resolve.follow(self.shelf("eval_sets"), name)
        patterns = resolve.eval_set_spec(entry).evals
        listed = isinstance(entry.value.get("evals"), list)
        asked_by = {
            index: f'eval set "{entry.name}" in {entry.place_at("evals", *([index] if listed else []))}' for index in range(len(patterns))
        }
        return self._specs(resolve.expand(self.shelf("evals"), patterns, asked_by=asked_by))

    def _specs(self, entries: Sequence[Entry]) -> list[EvalSpec]:
        specs: list[EvalSpec] = []
        errors: list[EvalframeError] = []
        for entry in entries:
            try:
                specs.append(resolve.eval_spec(entry))
            except EvalframeError as error:
                errors.append(error)
        resolve.raise_all(errors)
        return specs

    def find_completion_fn(self, name: str) -> CompletionFnSpec | None:
        """The entry of that name among completion functions, then among solvers; None if there is none."""
        for kind in ("completion_fns", "solvers"):
            shelf = self.shelf(kind)
            if name in shelf.entries or any(file.seems_to_define(name) for file in shelf.broken):
                entry = resolve.follow(shelf, name)
                self._warn_of_dollars(entry)
                return resolve.spec_of(entry, CompletionFnSpec)
        return None

    def get_completion_fn(self, name: str) -> CompletionFnSpec:
        """
        The entry of that name among completion functions, then among solvers.

        Raises:
            UnknownName: If there is none.
        """
        return self.find_completion_fn(name) or resolve.spec_of(resolve.follow(self.shelf("completion_fns"), name), CompletionFnSpec)

    def get_solver(self, name: str) -> SolverSpec:
        """
        The solver that a name or alias leads to.

        Raises:
            RegistryError: If it leads to none.
        """
        return resolve.spec_of(resolve.follow(self.shelf("solvers"), name), SolverSpec)

    def get_modelgraded_spec(self, name: str) -> dict[str, Any]:
        """
        A copy of what a model-graded spec says, `!env` read.

        Raises:
            RegistryError: If the name leads to none.
        """
        entry = resolve.follow(self.shelf("modelgraded"), name)
        spec = read_env(resolve.mapping_of(entry), entry=resolve.named(entry))
        return {str(key): value for key, value in spec.items() if key != "override"}

    def price_of(self, model: str) -> Price | None:
        """
        What a model costs.

        Looked for under its exact name, without its provider, without the date of its snapshot; then among names with `*`, of which the
        longest that fits counts.

        Args:
            model: As its completion function or its endpoint calls it: "gpt-4o", "openai/gpt-4o", "gpt-4o-2024-08-06".

        Returns:
            None where nobody knows.

        Raises:
            RegistryError: If there is an entry for it that cannot be used.
            YamlError: If that stands in a file that cannot be read.
        """
        if model not in self._prices:
            self._prices[model] = self._look_up_price(model)
        return self._prices[model]

    def _look_up_price(self, model: str) -> Price | None:
        shelf = self.shelf("models")
        names = resolve.spellings(model)
        for name in names:
            if name in shelf.entries or any(file.seems_to_define(name) for file in shelf.broken):
                return resolve.price_at(shelf, name)
        patterns = sorted(filter(resolve.is_pattern, shelf.entries), key=len, reverse=True)
        for pattern in patterns:
            if any(map(resolve.matcher(pattern), names)):
                return resolve.price_at(shelf, pattern)
        return None

    # ------------------------------------------------------------------ specs to parts

    def get_class(self, spec: Spec | str) -> Callable[..., Any]:
        """
        The class of a spec, imported now.

        Raises:
            BadClass: If it cannot be imported.
        """
        return self.import_class(origin_of(spec) if isinstance(spec, Spec) else Origin(spec))

    def import_class(self, origin: Origin) -> Callable[..., Any]:
        """As `get_class`, with the words for the message; code beside the YAML of a registry that was named can be imported from now on."""
        make_importable(str(folder) for source in self._sources if source.given for folder in (source.folder, source.folder.parent))
        return import_class(origin)

    def build(self, part: Any, **extra: Any) -> Any:
        """
        Build a part.

        Args:
            part: A spec; "module:Class"; a mapping {class: module:Class, args: {...}}; the name of a solver; a class. Anything else is a
                part that is built already, and is handed back.
            extra: Further arguments; they win over those of the spec. A constructor that names `registry` gets this registry.

        Raises:
            BadClass: If the class cannot be imported.
            BadArguments: If the arguments do not fit.
        """
        if isinstance(part, type):
            cls: Callable[..., Any] = part
            spec = Spec(f"{part.__module__}:{part.__qualname__}")
        elif isinstance(part, Spec | str | Mapping):
            spec = self._spec_of_part(part)
            cls = self.get_class(spec)
        else:
            return part
        return self._construct(cls, spec, {**spec.args, **extra})

    def _spec_of_part(self, part: Spec | str | Mapping[str, Any]) -> Spec:
        if isinstance(part, Spec):
            return part
        if isinstance(part, str):
            if ":" not in part and part in self.shelf("solvers").entries:
                return self.get_solver(part)
            return Spec(part)
        reference, args = part.get("class"), part.get("args") or {}
        if not isinstance(reference, str) or not isinstance(args, Mapping) or not part.keys() <= {"class", "args"}:
            raise BadArguments(f"A part is described by {dict(part)!r}.", do="Write {class: module:Class, args: {...}}.")
        return Spec(reference, dict(args))

    def _construct(self, cls: Callable[..., Any], spec: Spec, arguments: Mapping[str, Any]) -> Any:
        supplied = {"registry": self} if takes(cls, "registry") and "registry" not in arguments else {}
        return construct(cls, arguments, origin_of(spec), supplied=supplied)

    def resolve_completion_fn(self, name: str, /, *, defaults: Mapping[str, Any] | None = None, **kwargs: Any) -> CompletionFnSpec:
        """
        What a name of a completion function stands for, before it is built; `!env` is not read.

        An entry of that name comes first; then "provider/model", where the entry "provider/" gets the rest as `model`; any other name is a
        model of the entry "openai/".

        Args:
            name: As on the command line.
            defaults: Arguments of the whole run; each is added only if the constructor names it and neither entry nor `kwargs` sets it.
            kwargs: Arguments that win over those of the entry.

        Raises:
            RegistryError: If the name leads to nothing.
        """
        spec = self.find_completion_fn(name) or self._model_of_provider(name)
        spec.args = {**spec.args, **kwargs}
        if defaults:
            cls = self.get_class(spec)
            spec.args = {**{key: value for key, value in defaults.items() if takes(cls, key)}, **spec.args}
        return spec

    def _model_of_provider(self, name: str) -> CompletionFnSpec:
        shelf = self.shelf("completion_fns")
        providers = [entry for entry in shelf.entries if entry.endswith("/") and name.startswith(entry) and name != entry]
        provider = max(providers, key=len, default=BARE_NAMES)
        if provider not in shelf.entries:
            resolve.find(shelf, name)  # raises, with what may have been meant
        spec = self.get_completion_fn(provider)
        spec.key = name
        spec.args["model"] = name.removeprefix(provider) if providers else name
        return spec

    def make_completion_fn(self, name: str, /, *, defaults: Mapping[str, Any] | None = None, **kwargs: Any) -> CompletionFn:
        """
        Build a completion function by name; see `resolve_completion_fn` for names and arguments.

        Raises:
            RegistryError: If the name leads to nothing, or its class or arguments do not fit.
        """
        spec = self.resolve_completion_fn(name, defaults=defaults, **kwargs)
        try:
            built = self._construct(self.get_class(spec), spec, spec.args)
        except MissingKey as error:
            raise self._taken_for_a_model(name, error) from error
        if not isinstance(built, CompletionFn):
            raise BadClass(
                f"{origin_of(spec)} builds a {type(built).__name__}, which cannot be called with a prompt.", do="Give it __call__."
            )
        return built

    def _taken_for_a_model(self, name: str, error: MissingKey) -> MissingKey:
        """The error, with the word that nothing has this name where it may have been meant as another."""
        shelf = self.shelf("completion_fns")
        if name in shelf.entries or any(entry.endswith("/") and name.startswith(entry) for entry in shelf.entries):
            return error
        near = closest(name, shelf.entries)
        told = f" (closest: {', '.join(near)})" if near else ""
        return MissingKey(
            f'no completion function is called "{name}"{told}, so it is taken for a model\'s name. {error.message}', do=error.do
        )

    def make_eval(
        self, spec: EvalSpec, completion_fns: Sequence[Any], /, *, seed: int, name: str, extra: Mapping[str, Any] | None = None
    ) -> Any:
        """
        Build an eval with the keywords that every eval takes, the arguments of its spec, and `extra`, which wins over the spec.

        Raises:
            BadClass: If its class cannot be imported.
            BadArguments: If the arguments do not fit.
        """
        cls, origin = self.get_class(spec), origin_of(spec)
        ours = {
            "completion_fns": list(completion_fns),
            "eval_registry_path": spec.registry_path,
            "seed": seed,
            "name": name,
            "registry": self,
        }
        extra = extra or {}
        taken = sorted(extra.keys() & ours.keys())
        if taken:
            raise BadArguments(f"{origin}: {', '.join(taken)} cannot be given as an argument; evalframe sets it.")
        arguments = {key: value for key, value in {**spec.args, **extra}.items() if key not in ours}
        if spec.place:
            self._eval_places[name] = spec.place
        return construct(cls, arguments, origin, supplied=ours)

    # ------------------------------------------------------------------ data

    def find_data(self, path: str | Path, registry_path: Path | None, place: Place | None = None, *, eval_name: str = "") -> Path | str:
        """
        The data file that an entry means by `path`; see `paths.find_data`.

        Args:
            path: As written.
            registry_path: The registry that the entry stands in.
            place: Where the entry stands.
            eval_name: The name of an eval that this registry built, which knows the place then.

        Raises:
            MissingData: With all that was tried.
        """
        place = place or self._eval_places.get(eval_name)
        return places.find_data(path, registry_path, place=place, registries=self.registry_paths)

    def _warn_of_dollars(self, entry: Entry) -> None:
        value = entry.value
        text = str(value.get("args")) if isinstance(value, dict) else ""
        for literal in sorted(set(DOLLAR.findall(text))):
            self.warn(
                BadEntry(
                    f"{resolve.about(entry)} holds {literal}, which is passed on as it stands.",
                    do=f"Write !env {literal[2:-1]} to read the variable.",
                )
            )


def origin_of(spec: Spec) -> Origin:
    """Whose class and arguments these are."""
    what = next((KINDS[kind] for cls, kind in SPEC_KINDS.items() if isinstance(spec, cls)), "entry")
    return Origin(spec.cls, f'{what} "{spec.key}"' if spec.key else "", spec.place)


SPEC_KINDS: dict[type[Spec], str] = {EvalSpec: "evals", CompletionFnSpec: "completion_fns", SolverSpec: "solvers"}
