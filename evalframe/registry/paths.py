"""
Where registries lie, and where the data that they name is looked for.

The bundled registry is `_bundled/registry` in an installed package and `registry/` beside the package in a source tree; its data lies in
`data/` beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalframe.core.errors import BadSetting, MissingData
from evalframe.core.specs import Place

PATH_VARIABLE = "EVALFRAME_REGISTRY_PATH"
HOME_FOLDERS = (".evals", ".evalframe")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class Source:
    """
    One registry.

    Args:
        path: Its folder, or one YAML file of evals; absolute.
        given: Whether a person named it, by a flag, an argument or the environment; code beside it can then be imported.
    """

    path: Path
    given: bool = False

    @property
    def folder(self) -> Path:
        """The folder that holds its kinds and its data."""
        return self.path.parent if self.path.is_file() else self.path


def bundled_registry(package: Path | None = None) -> Path | None:
    """The registry that comes with evalframe, for the package in folder `package`; None where it was left out."""
    package = package or Path(__file__).resolve().parents[1]
    installed, beside = package / "_bundled" / "registry", package.parent / "registry"
    if installed.is_dir():
        return installed
    return beside if beside.is_dir() and (package.parent / "pyproject.toml").is_file() else None


def default_sources(environ: Mapping[str, str] = os.environ, home: Path | None = None) -> list[Source]:
    """
    The registries that are read without being asked for: the bundled one, those in the home folder, those of the environment.

    Raises:
        BadSetting: If the environment names a path that does not exist.
    """
    bundled = bundled_registry()
    sources = [Source(bundled)] if bundled else []
    home = home or Path(os.path.expanduser("~"))  # noqa: PTH111  (Path.home() raises where a container's user has no home)
    sources += [Source(home / name) for name in HOME_FOLDERS if (home / name).is_dir()]
    named = [part for part in environ.get(PATH_VARIABLE, "").split(os.pathsep) if part.strip()]
    return unique([*sources, *given_sources(named, by=PATH_VARIABLE)])


def given_sources(paths: Iterable[str | Path], *, by: str = "--registry_path") -> list[Source]:
    """
    The registries at `paths`, which were named by the setting `by`.

    Raises:
        BadSetting: If one does not exist.
    """
    sources = []
    for path in paths:
        absolute = Path(path).expanduser().absolute()
        if not absolute.exists():
            raise BadSetting(f'There is no registry at "{path}" (from {by}; looked for at {absolute}).', do="Give a folder that exists.")
        sources.append(Source(absolute, given=True))
    return sources


def unique(sources: Sequence[Source]) -> list[Source]:
    """The sources without those that lead to the same place as an earlier one."""
    kept: dict[Path, Source] = {}
    for source in sources:
        where = source.path.resolve()
        earlier = kept.get(where)
        kept[where] = Source(earlier.path, earlier.given or source.given) if earlier else source
    return list(kept.values())


def find_data(path: str | Path, registry_path: Path | None, *, place: Place | None = None, registries: Sequence[Path] = ()) -> Path | str:
    """
    Find a data file that an entry names.

    Looked for in this order: the path as given; in `data/` of the registry that names it; in `data/` beside that registry; in the folder of
    the YAML file; in `data/` of, and beside, the other registries. A file is preferred to a folder of the same name.

    Args:
        path: As the entry spells it: a path, or a URL, which is handed back as it is.
        registry_path: The registry that names it.
        place: Where it is named.
        registries: All registries, in their order.

    Returns:
        The absolute path, or the URL.

    Raises:
        MissingData: With all that was tried.
    """
    if URL.match(str(path)):
        return str(path)
    tried = list(dict.fromkeys(Path(os.path.abspath(each)) for each in candidates(path, registry_path, place, registries)))  # noqa: PTH100
    for candidate in tried if str(path) else ():
        if candidate.is_file():
            return candidate
    for candidate in tried if str(path) else ():
        if candidate.exists():
            return candidate
    named = f", named in {place}" if place else ""
    raise MissingData(
        f'There is no data file "{path}"{named}. Looked for: {", ".join(map(str, tried))}.', do="Put it at one of these places."
    )


def candidates(path: str | Path, registry_path: Path | None, place: Place | None, registries: Sequence[Path]) -> list[Path]:
    """The places where `path` may lie, in the order in which they are tried."""
    given = Path(path).expanduser()
    if given.is_absolute():
        return [given]
    own = [registry_path] if registry_path else []
    yaml_folder = [place.path.parent / given] if place else []
    others = [registry for registry in registries if registry not in own]
    return [given, *in_data_of(own, given), *yaml_folder, *in_data_of(others, given)]


def in_data_of(registries: Iterable[Path], given: Path) -> list[Path]:
    """`given` in `data/` of each registry and in `data/` beside it."""
    return [folder / "data" / given for registry in registries for folder in (registry, registry.parent)]
