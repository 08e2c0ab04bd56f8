"""
YAML as data: parsed by the safe C loader into nodes, checked there, and turned into values when an entry is asked for.

Covers: UTF-8 with or without BOM; keys that stand twice in one mapping; tags that would run code; the one tag of our own, `!env NAME` or
`!env [NAME, default]`. Only `load.py` imports this file, and only when there is something to read: importing yaml takes 20 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from evalframe.core.errors import BadYaml, DuplicateKey, ForbiddenTag, YamlError
from evalframe.core.specs import Place
from evalframe.registry.env import UNSET, EnvValue, read_env

STANDARD = "tag:yaml.org,2002:"
MERGE = f"{STANDARD}merge"
STANDARD_TYPES = ("null", "bool", "int", "float", "binary", "timestamp", "omap", "pairs", "set", "str", "seq", "map", "merge", "value")
ENV = "!env"
TAGS = frozenset({ENV, *(STANDARD + name for name in STANDARD_TYPES)})

MOST_VALUES = 1_000_000
"""Values that an entry may hold once its references are written out: with a few lines that refer to one another nobody could hold them."""

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml


class Constructor(yaml.constructor.SafeConstructor):
    """Turns checked nodes of one file into values."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError) as error:
            raise BadYaml(f"{place_of(node, self.path)} cannot be read: {error}.", do="Put quotes around what is meant as text.") from error

    def construct_env(self, node: yaml.Node) -> EnvValue:
        """The value of `!env NAME` or `!env [NAME, default]`."""
        parts = self.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else [node.value]
        if not 1 <= len(parts) <= 2 or not isinstance(parts[0], str) or not parts[0]:
            raise BadYaml(f"{place_of(node, self.path)} has a wrong !env.", do="Write !env NAME, or !env [NAME, default].")
        return EnvValue(parts[0], parts[1] if len(parts) == 2 else UNSET, place_of(node, self.path))


constructors: Any = Constructor
constructors.add_constructor(ENV, Constructor.construct_env)
constructors.add_constructor(f"{STANDARD}value", Constructor.construct_yaml_str)  # a lone "=", which SafeConstructor forgets


def place_of(node: yaml.Node, path: Path) -> Place:
    """Where a node begins."""
    return Place(path, node.start_mark.line + 1, node.start_mark.column + 1)


def compose(data: bytes, path: Path) -> yaml.MappingNode | None:
    """
    The mapping that a file holds, or None if the file holds nothing.

    Raises:
        BadYaml: If it cannot be parsed, or holds something else.
    """
    try:
        loader = SafeLoader(data.removeprefix(b"\xef\xbb\xbf"))
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else Place(path)
        told = ", ".join(part for part in (error.problem, error.context) if part)
        raise BadYaml(f"{place} is not valid YAML: {told}.") from error
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise BadYaml(f"{Place(path, line)} is not plain UTF-8 text: {error.reason}.", do="Save the file as UTF-8.") from error
    except RecursionError as error:
        raise BadYaml(f"{path} is nested too deeply to be read.") from error
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == f"{STANDARD}null"):
        return None
    if not isinstance(root, yaml.MappingNode):
        raise BadYaml(f"{place_of(root, path)} holds no entries.", do='Write entries as "name: {class: module:Class, args: {...}}".')
    return root


def top_level(root: yaml.MappingNode, path: Path) -> list[tuple[yaml.Node, yaml.Node]]:
    """The names and entries of a file; those of a merge key (`<<`) among them."""
    if any(key.tag == MERGE for key, _ in root.value):
        refuse_too_many(root, path)
        Constructor(path).flatten_mapping(root)
    pairs: list[tuple[yaml.Node, yaml.Node]] = root.value
    return pairs


def faults(node: yaml.Node, path: Path) -> list[YamlError]:
    """What is wrong below `node`, in the order of the file. Called before anything is constructed, which would merge mappings in place."""
    found: list[tuple[int, YamlError]] = []
    for inner in walk(node):
        if inner.tag not in TAGS:
            found.append((inner.start_mark.line, bad_tag(inner, path)))
        if type(inner) is yaml.MappingNode:
            keys = {(key.tag, key.value) for key, _ in inner.value if type(key) is yaml.ScalarNode}
            if len(keys) < len(inner.value):
                found += [(error_line, error) for error_line, error in repeated_keys(inner, path)]
    return [error for _, error in sorted(found, key=lambda pair: pair[0])]


def walk(node: yaml.Node) -> Iterator[yaml.Node]:
    """The node and all nodes below it, each once, however often it is referred to."""
    stack, seen = [node], set()
    while stack:
        inner = stack.pop()
        yield inner
        if type(inner) is yaml.ScalarNode or id(inner) in seen:
            continue
        seen.add(id(inner))
        for item in inner.value:
            if type(item) is tuple:
                stack += item
            else:
                stack.append(item)


def repeated_keys(node: yaml.MappingNode, path: Path) -> Iterator[tuple[int, DuplicateKey]]:
    """An error for each key of a mapping that stands there a second time."""
    first: dict[tuple[str, str], yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
            continue
        earlier = first.setdefault((key.tag, key.value), key)
        if earlier is not key:
            yield key.start_mark.line, duplicate_key(key, earlier, path)


def duplicate_key(key: yaml.Node, earlier: yaml.Node, path: Path) -> DuplicateKey:
    """The error for a key that stands twice."""
    first = earlier.start_mark.line + 1
    return DuplicateKey(f'{place_of(key, path)} has the key "{key.value}" again; it first stands in line {first}.', do="Keep one of them.")


def bad_tag(node: yaml.Node, path: Path) -> YamlError:
    """The error for a tag that we do not read."""
    tag = node.tag.replace(STANDARD, "!!")
    if "python" in tag:
        return ForbiddenTag(
            f"{place_of(node, path)} has the tag {tag}, which would run code.", do="Write plain data; !env reads a variable."
        )
    return BadYaml(f"{place_of(node, path)} has the unknown tag {tag}.", do="Leave it out; the only tag of our own is !env.")


def refuse_too_many(node: yaml.Node, path: Path) -> None:
    """
    Count the values below a node with its references written out, without writing them out.

    Raises:
        BadYaml: If there are too many.
        RecursionError: If the node refers to itself, or is nested too deeply.
    """
    sizes: dict[int, int] = {}

    def size(inner: yaml.Node) -> int:
        if isinstance(inner, yaml.ScalarNode):
            return 1
        if id(inner) not in sizes:
            children = (item for pair in inner.value for item in pair) if isinstance(inner, yaml.MappingNode) else inner.value
            sizes[id(inner)] = 1 + sum(map(size, children))
        return sizes[id(inner)]

    if size(node) > MOST_VALUES:
        raise BadYaml(f"{place_of(node, path)} refers to itself and others so often that it would hold more than {MOST_VALUES:,} values.")


def construct(node: yaml.Node, path: Path) -> Any:
    """
    The value of a checked node.

    Raises:
        BadYaml: If a scalar is not what its form promises, as the date 2024-13-41; or if a value holds itself.
    """
    try:
        refuse_too_many(node, path)
        value = Constructor(path).construct_document(node)  # type: ignore[no-untyped-call, unused-ignore]
        read_env(value, {}, missing_ok=True)  # walks all the way down
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else place_of(node, path)
        raise BadYaml(f"{place} cannot be read: {error.problem}.") from error
    except RecursionError as error:
        raise BadYaml(f"{place_of(node, path)} refers to itself, or is nested too deeply.") from error
    return value


def place_at(node: yaml.Node, path: Path, *steps: str | int) -> Place:
    """Where the part of an entry stands that the keys and indices `steps` lead to; as near as they lead."""
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            found = [value for key, value in node.value if key.value == step]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            found = node.value[step : step + 1]
        else:
            found = []
        if not found:
            break
        node = found[-1]
    return place_of(node, path)
