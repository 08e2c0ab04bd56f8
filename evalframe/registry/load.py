"""
Read the YAML files of one kind from all registries.

A file is parsed and checked when its kind is first asked for; its entries become values one by one, when each is asked for. What is wrong
with one file, or one entry, stops only the names that need it; it is kept as a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalframe.core.errors import BadYaml, DuplicateName, EvalframeError
from evalframe.core.specs import Place
from evalframe.registry.paths import Source

KINDS = {
    "evals": "eval",
    "eval_sets": "eval set",
    "modelgraded": "model-graded spec",
    "completion_fns": "completion function",
    "solvers": "solver",
    "models": "model",
}
"""The kinds, by folder, and what one entry of each is called."""

ENDINGS = (".yaml", ".yml")
NOT_READ: Any = object()


@dataclass(eq=False)
class Entry:
    """
    One name of a registry file.

    Args:
        name: As written.
        kind: A key of `KINDS`.
        registry_path: The registry's folder.
        path: The file.
        line: Where the name stands, from 1.
        column: The same.
        node: What the name stands for, parsed.
        faults: Why it cannot be used; the first is raised when it is asked for.
    """

    name: str
    kind: str
    registry_path: Path
    path: Path
    line: int
    column: int
    node: Any = field(repr=False)
    faults: list[EvalframeError] = field(default_factory=list, repr=False)
    read: Any = field(default=NOT_READ, repr=False)

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.path, self.line, self.column)

    @property
    def group(self) -> str:
        """The file's name without the ending."""
        return self.path.stem

    @property
    def value(self) -> Any:
        """
        What the YAML says; shared, so never to be changed.

        Raises:
            EvalframeError: What is wrong with it.
        """
        if self.faults:
            raise self.faults[0].with_traceback(None)
        if self.read is NOT_READ:
            from evalframe.registry.yaml_nodes import construct

            self.read = construct(self.node, self.path)
        return self.read

    def place_at(self, *steps: str | int) -> Place:
        """Where the part stands that the keys and indices `steps` lead to."""
        from evalframe.registry.yaml_nodes import place_at

        return place_at(self.node, self.path, *steps)

    def overrides(self) -> bool:
        """Whether it says that it stands for an entry of the same name in an earlier registry."""
        try:
            return isinstance(self.value, dict) and self.value.get("override") is True
        except EvalframeError:
            return False


@dataclass(frozen=True)
class BrokenFile:
    """A file that cannot be read: what it holds, as far as it is text, and why."""

    text: str = field(repr=False)
    error: BadYaml

    def seems_to_define(self, name: str) -> bool:
        """Whether `name` looks like one of its names."""
        return re.search(rf"^([\"']?){re.escape(name)}\1\s*:", self.text, re.MULTILINE) is not None


@dataclass(eq=False)
class Shelf:
    """
    All entries of one kind.

    Args:
        kind: A key of `KINDS`.
        entries: By name, in the order of the registries, of the sorted files, of the lines.
        broken: The files that cannot be read.
    """

    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)
    broken: list[BrokenFile] = field(default_factory=list)

    @property
    def warnings(self) -> list[EvalframeError]:
        """What is wrong with files and entries, as far as reading tells."""
        return [file.error for file in self.broken] + [fault for entry in self.entries.values() for fault in entry.faults]

    def add(self, entry: Entry) -> None:
        """Put an entry on the shelf; where the name is taken, the entry that stands there becomes a faulty one, or gives way."""
        earlier = self.entries.get(entry.name)
        if earlier is None or (entry.registry_path != earlier.registry_path and entry.overrides()):
            self.entries[entry.name] = entry
        else:
            what = KINDS[self.kind]
            earlier.faults.append(
                DuplicateName(
                    f'Two entries call themselves {what} "{entry.name}": {earlier.place} and {entry.place}.',
                    do='Rename one, or let the one of the outer registry say "override: true".',
                )
            )


def load_kind(kind: str, sources: Iterable[Source]) -> Shelf:
    """Read all files of a kind."""
    shelf = Shelf(kind)
    seen: set[Path] = set()
    for source in sources:
        try:
            files = list(kind_files(source, kind))
        except OSError as error:
            shelf.broken.append(BrokenFile("", BadYaml(f"{error.filename} cannot be read: {error.strerror}.")))
            continue
        for path in files:
            if path not in seen:  # one registry may lie inside another
                seen.add(path)
                load_file(path, source.folder, shelf)
    return shelf


def load_file(path: Path, registry_path: Path, shelf: Shelf) -> None:
    """Put the entries of one file on the shelf, or the file among the broken ones."""
    from evalframe.registry.yaml_nodes import compose, duplicate_key, faults, place_of, top_level

    data = b""
    try:
        data = path.read_bytes()
        root = compose(data, path)
        pairs = top_level(root, path) if root else []
    except OSError as error:
        shelf.broken.append(BrokenFile("", BadYaml(f"{path} cannot be read: {error.strerror or error}.")))
        return
    except BadYaml as error:
        shelf.broken.append(BrokenFile(data.decode("utf-8-sig", "replace"), error))
        return
    keys: dict[str, Any] = {}
    for key, node in pairs:
        name = key.value  # as written: `on` and `1.0` are names here
        if not isinstance(name, str):
            shelf.broken.append(BrokenFile("", BadYaml(f"{place_of(key, path)} is no name.", do="Let each entry begin with its name.")))
            continue
        if name in keys:
            shelf.entries[name].faults.append(duplicate_key(key, keys[name], path))
            continue
        keys[name] = key
        found: list[EvalframeError] = [*faults(key, path), *faults(node, path)]
        mark = key.start_mark
        shelf.add(Entry(name, shelf.kind, registry_path, path, mark.line + 1, mark.column + 1, node, found))


def kind_files(source: Source, kind: str) -> Iterator[Path]:
    """The YAML files of a kind in one registry, sorted."""
    path = source.path.resolve()
    if path.is_file():
        yield from [path] if kind == "evals" else []
        return
    if kind == "evals":
        yield from sorted(scan(path)[0])
    folder = path / kind
    if folder.is_dir():
        yield from sorted(yaml_files(folder, ()), key=lambda file: file.parts)
    elif folder.is_file():
        yield folder


def yaml_files(folder: Path, above: Sequence[Path]) -> Iterator[Path]:
    """The YAML files in a folder and below, hidden ones left out; links that lead back to a folder above are not followed."""
    files, folders = scan(folder)
    yield from files
    for inner in folders:
        if not inner.is_symlink() or inner.resolve() not in (*above, folder.resolve()):
            yield from yaml_files(inner, (*above, folder.resolve()))


def scan(folder: Path) -> tuple[list[Path], list[Path]]:
    """The YAML files and the folders that lie directly in a folder."""
    with os.scandir(folder) as items:
        shown = [item for item in items if not item.name.startswith(".")]
    files = [Path(item.path) for item in shown if item.name.endswith(ENDINGS) and not item.is_dir()]
    return files, [Path(item.path) for item in shown if item.is_dir()]
