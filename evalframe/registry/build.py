"""
From "module:Class" and arguments to a part.

A class is imported when it is first needed. Arguments are held against its constructor before it is called; those of a dataclass are also
read as the types of its fields, so that "3" does for an int.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from evalframe.core.errors import BadArguments, BadClass, EvalframeError, closest
from evalframe.core.specs import Place
from evalframe.registry.env import has_env, read_env

PLAIN_TYPES = (str, int, float, bool)


@dataclass(frozen=True)
class Origin:
    """
    Whose class and arguments these are, for messages.

    Args:
        reference: "module:Class".
        what: 'eval "arithmetic.dev.v1"'; empty where no entry stands behind it.
        place: Where that stands.
    """

    reference: str
    what: str = ""
    place: Place | None = None

    def __str__(self) -> str:
        entry = f" (for {self.what})" if self.what else ""
        where = f" in {self.place}" if self.place else ""
        return f"{self.reference}{entry}{where}"


def import_class(origin: Origin) -> Callable[..., Any]:
    """
    Import what `origin.reference` names: "module:Class", or "module:Outer.Inner".

    Raises:
        BadClass: With what failed: the form, the module, the name inside it, or the module's own code.
    """
    module_name, colon, qualified = origin.reference.partition(":")
    if not (colon and module_name.strip() and qualified.strip()) or module_name.startswith("."):
        raise BadClass(f"{origin} does not name a class.", do="Write module:Class.")
    found = import_module(module_name, origin)
    for name in qualified.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            near = closest(name, (other for other in vars(found) if not other.startswith("_")))
            told = f" Closest: {', '.join(near)}." if near else ""
            raise BadClass(f'{origin}: {module_name} has no "{name}".{told}') from error
    if not callable(found):
        raise BadClass(f"{origin} is {type(found).__name__} data, not a class.")
    return typing.cast("Callable[..., Any]", found)


def import_module(name: str, origin: Origin) -> Any:
    """
    Import a module.

    Raises:
        BadClass: If there is none, or its code fails.
        EvalframeError: What its code raised of our own errors, such as an extra that is not installed.
    """
    try:
        return importlib.import_module(name)
    except EvalframeError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise BadClass(
                f'{origin}: there is no module "{missing}".',
                do="Install its package, or give the folder that holds it by --registry_path.",
            ) from error
        raise BadClass(f'{origin}: {blame(error, name)} needs the module "{missing}".', do=f"Install what provides {missing}.") from error
    except (Exception, SystemExit) as error:
        told = traceback.format_exception_only(error)[-1].strip()
        raise BadClass(f"{origin} cannot be imported: {told} ({blame(error, name)}).") from error


def blame(error: BaseException, module_name: str) -> str:
    """file:line of the innermost frame inside the module, or else of the innermost frame of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = list(frames_of(error.__traceback__))
    own = [where for module, where in frames if module == module_name]
    others = [where for module, where in frames if not module.startswith(("importlib", __name__))]
    return (own or others or [module_name])[-1]


def frames_of(trace: TracebackType | None) -> Iterable[tuple[str, str]]:
    """Module and file:line of each frame, the outermost first."""
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__", "")), f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next


def parameters(cls: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters of a constructor by name, or None where they cannot be told."""
    try:
        return dict(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        return None


def takes(cls: Callable[..., Any], name: str) -> bool:
    """Whether a constructor names this parameter, or passes it on to one that does."""
    return name in named_parameters(cls)


def named_parameters(cls: Callable[..., Any]) -> list[str]:
    """All keywords that a constructor names, and those of the classes that it passes `**kwargs` on to."""
    names: list[str] = []
    for base in inspect.getmro(cls) if inspect.isclass(cls) else (cls,):
        own = vars(base).get("__init__") if inspect.isclass(base) else base
        known = parameters(own) if own is not None else None
        names += [name for name, each in (known or {}).items() if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        if known is not None and not any(each.kind is each.VAR_KEYWORD for each in known.values()):
            break
    return [name for name in dict.fromkeys(names) if name != "self"]


def check_arguments(cls: Callable[..., Any], arguments: Iterable[str], origin: Origin, *, supplied: Iterable[str] = ()) -> None:
    """
    Hold the names of arguments against a constructor.

    Args:
        cls: What is to be called.
        arguments: Names from the entry and the command line.
        origin: For the message.
        supplied: Names that the caller adds, and that are not the user's matter.

    Raises:
        BadArguments: With all that are unknown and all that are missing.
    """
    known = parameters(cls)
    if known is None:
        return
    given = set(arguments)
    keywords = {name for name, each in known.items() if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    needed = [name for name, each in known.items() if name in keywords and each.default is each.empty]
    missing = [name for name in needed if name not in given and name not in set(supplied)]
    is_open = any(each.kind is each.VAR_KEYWORD for each in known.values())
    unknown = [] if is_open else sorted(given - keywords)
    told = [unknown_argument(name, sorted(keywords - set(supplied))) for name in unknown]
    told += [f'needs the argument "{name}"' for name in missing]
    if told:
        raise BadArguments(f"{origin} {'; '.join(told)}.")


def unknown_argument(name: str, known: list[str]) -> str:
    """The part of a sentence that says that an argument is unknown."""
    near = closest(name, known)
    if near:
        return f'takes no argument "{name}" (closest: {", ".join(near)})'
    return f'takes no argument "{name}" (it takes: {", ".join(known) or "none"})'


def coerce(cls: Callable[..., Any], arguments: dict[str, Any], origin: Origin, *, spelt: Mapping[str, Any]) -> dict[str, Any]:
    """
    The arguments read as the types of a dataclass's fields; those of any other class as they are.

    Args:
        cls: The class.
        arguments: With `!env` read.
        origin: For the message.
        spelt: The arguments as written, for the message, which must not show what an environment variable holds.

    Raises:
        BadArguments: With all values that do not fit.
    """
    if not (inspect.isclass(cls) and dataclasses.is_dataclass(cls)) or not arguments:
        return arguments
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):  # a hint names what is only imported for type checkers
        return arguments
    read, told = dict(arguments), []
    for name, value in arguments.items():
        hint = hints.get(name, Any)
        if hint is Any or has_env(value) or (hint in PLAIN_TYPES and type(value) is hint):
            continue
        try:
            read[name] = read_as(hint, value)
        except ValueError as error:  # pydantic's ValidationError is one
            told.append(f'the argument "{name}" cannot be {spelt[name]!r}: {first_line(error)}')
    if told:
        raise BadArguments(f"{origin}: {'; '.join(told)}.")
    return read


def read_as(hint: Any, value: Any) -> Any:
    """The value as the type `hint`; as it is where the type is none that pydantic can read."""
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    lenient = ConfigDict(arbitrary_types_allowed=True, coerce_numbers_to_str=True)
    try:
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(hint, config=lenient)
        except PydanticUserError:  # models and dataclasses bring their own configuration
            adapter = TypeAdapter(hint)
        return adapter.validate_python(value)
    except (PydanticUserError, TypeError):
        return value


def first_line(error: ValueError) -> str:
    """What a validation error says, in one line."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return str(error)
    first = listed(include_url=False)[0]
    inner = ".".join(str(step) for step in first["loc"])
    message = str(first["msg"])
    message = message[:1].lower() + message[1:]
    return f"{inner}: {message}" if inner else message


def construct(cls: Callable[..., Any], arguments: Mapping[str, Any], origin: Origin, *, supplied: Mapping[str, Any] | None = None) -> Any:
    """
    Check the arguments, read `!env`, and call the constructor with copies.

    Args:
        cls: What to call.
        arguments: From the entry and the command line.
        origin: For messages.
        supplied: What the caller adds: completion functions, the registry. Handed over as it is.

    Raises:
        BadArguments: If they do not fit, or the constructor raises something of its own.
        EvalframeError: What the constructor raises of our own errors.
    """
    supplied = supplied or {}
    check_arguments(cls, arguments, origin, supplied=supplied)
    entry = origin.what or origin.reference
    ready = {name: read_env(value, entry=entry) for name, value in arguments.items()}
    ready = coerce(cls, ready, origin, spelt=arguments)
    try:
        return cls(**{**ready, **supplied})
    except EvalframeError:
        raise
    except TypeError as error:
        raise BadArguments(f"{origin} {refusal(cls, error, [*ready, *supplied])}.") from error
    except Exception as error:
        where = blame(error, getattr(cls, "__module__", ""))
        raise BadArguments(f"{origin} could not be built: {type(error).__name__}: {error} ({where}).") from error


def refusal(cls: Callable[..., Any], error: TypeError, given: list[str]) -> str:
    """What a TypeError of a constructor says; an unknown argument that a class passed on to its bases is told by name."""
    message = str(error)
    known = named_parameters(cls)
    if "unexpected keyword argument" in message:
        for name in given:
            if f"'{name}'" in message and name not in known:
                return unknown_argument(name, known)
    return f"could not be built: TypeError: {message} ({blame(error, getattr(cls, '__module__', ''))})"


def make_importable(folders: Iterable[str]) -> None:
    """Let code in these folders be imported, after all that can be imported already."""
    new = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    if new:
        sys.path += new
        importlib.invalidate_caches()


def nested_parts(value: Any) -> Iterable[Mapping[str, Any]]:
    """The mappings `{class: ..., args: ...}` inside arguments."""
    if isinstance(value, Mapping):
        if isinstance(value.get("class"), str) and value.keys() <= {"class", "args"}:
            yield value
        for inner in value.values():
            yield from nested_parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nested_parts(inner)
