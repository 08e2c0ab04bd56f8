"""
Everything about a run that can be known before a model is asked: names, arguments, settings, data, keys, the place of the log.

All faults are found in one go, so that they can be mended in one go.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadSetting, EvalFailed, EvalframeError, Faults, LogUnavailable, described
from evalframe.core.secrets import Secrets
from evalframe.core.specs import CompletionFnSpec, EvalSpec, RunSpec
from evalframe.eval import Eval
from evalframe.logs.find import log_dir, log_name
from evalframe.registry.env import read_env
from evalframe.registry.registry import Registry
from evalframe.runs.config import RunConfig, texts
from evalframe.runs.provenance import data_facts, provenance


@dataclass
class Prepared:
    """A run of which everything is known but the answers."""

    config: RunConfig
    spec: EvalSpec
    eval: Eval
    run_spec: RunSpec
    secrets: Secrets
    log_path: Path | None


def prepare(
    completion_fn: str | CompletionFn | Sequence[str | CompletionFn],
    eval: str | EvalSpec,
    *,
    registry: Registry | None,
    settings: Mapping[str, Any],
) -> Prepared:
    """
    Check everything that needs no model.

    Raises:
        EvalframeError: One fault, or `Faults` with all of them.
    """
    faults = Collector()
    early = faults.of(lambda: RunConfig.resolve(settings, os.environ))
    registry = registry if registry is not None else Registry()
    faults.of(lambda: registry.add_registry_paths(texts(settings.get("registry_path") or ())))
    spec = eval if isinstance(eval, EvalSpec) else faults.of(lambda: registry.get_eval(eval))
    config = faults.of(lambda: RunConfig.resolve(settings, os.environ, spec.run if spec else None)) if early else None
    secrets = Secrets.from_environment(os.environ)
    names, functions, who = ask_whom(completion_fn, registry, config, secrets, faults)
    if spec is None or config is None:
        raise faults.all()
    secrets.add_arguments([dict(config.extra_eval_params), read_env(spec.args, missing_ok=True)])
    name = full_name(spec.key)
    built = faults.of(lambda: registry.make_eval(spec, functions, seed=config.seed, name=name, extra=config.extra_eval_params))
    if built is not None:
        faults.of(partial(checked, built))
    if not config.dry_run:
        faults.of(partial(check_log_place, Path(config.record_path or log_dir(config.log_dir, {}) / "log").expanduser().absolute()))
    if config.http_run and not config.http_run_url:
        faults.add(BadSetting("--http-run needs to know where to.", do="Say --http-run-url URL."))
    if config.http_run and config.dry_run:
        faults.add(
            BadSetting("--dry-run keeps no log, and --http-run needs one for what cannot be delivered.", do="Leave one of them out.")
        )
    if faults or built is None:
        raise faults.all()
    run_spec = make_run_spec(config, spec, name, names, who, built, secrets)
    path = None if config.dry_run else log_path(config, run_spec)
    return Prepared(config, spec, built, run_spec, secrets, path)


def checked(built: Eval) -> None:
    """
    Let an eval look at what it can before a model is asked.

    Raises:
        EvalframeError: What it found, or that it cannot even look.
    """
    try:
        built.check()
    except EvalframeError:
        raise
    except Exception as error:
        raise EvalFailed(
            f"{type(built).__name__} cannot be checked: {described(error)}.",
            do="If it has a constructor of its own, let that call super().__init__(completion_fns, *args, **kwargs).",
        ) from error


class Collector:
    """Gathers faults, so that all of them can be told at once."""

    def __init__(self) -> None:
        self._found: list[EvalframeError] = []

    def of(self, step: Callable[[], Any]) -> Any:
        """What `step` returns; None, and the fault kept, if it raises one."""
        try:
            return step()
        except EvalframeError as error:
            self.add(error)
            return None

    def add(self, error: EvalframeError) -> None:
        """Keep a fault, once."""
        if str(error) not in [str(other) for other in self._found]:
            self._found.append(error)

    def __bool__(self) -> bool:
        return bool(self._found)

    def all(self) -> EvalframeError:
        """The fault, or all of them as one error."""
        return self._found[0] if len(self._found) == 1 else Faults(self._found)


def ask_whom(
    asked: str | CompletionFn | Sequence[str | CompletionFn],
    registry: Registry,
    config: RunConfig | None,
    secrets: Secrets,
    faults: Collector,
) -> tuple[list[str], list[CompletionFn], list[dict[str, Any]]]:
    """The names, the completion functions, and what the log says of them."""
    wanted = [asked] if isinstance(asked, str) or callable(asked) else list(asked)
    wanted = [part for item in wanted for part in (map(str.strip, item.split(",")) if isinstance(item, str) else [item])]
    if "" in wanted:
        faults.add(BadSetting("the name of a completion function is empty.", do="What there is: evalframe list completion_fns"))
        wanted = [item for item in wanted if item != ""]
    defaults = run_wide(config) if config else {}
    extra = dict(config.completion_args) if config else {}
    names, functions, told = [], [], []
    for item in wanted:
        if not isinstance(item, str):
            names.append(getattr(item, "__name__", type(item).__name__))
            functions.append(item)
            told.append({"class": f"{type(item).__module__}:{type(item).__qualname__}", "args": {}})
            continue
        names.append(item)
        found: CompletionFnSpec | None = faults.of(partial(registry.resolve_completion_fn, item, **extra))
        if found is None:
            continue
        told.append({"name": item, "class": found.cls, "args": found.args})
        secrets.add_arguments(read_env(found.args, missing_ok=True))
        made = faults.of(partial(registry.make_completion_fn, item, defaults=defaults, **extra))
        if made is not None:
            functions.append(made)
    return names, functions, told


def run_wide(config: RunConfig) -> dict[str, Any]:
    """What the run says to every completion function that wants to know, unless its entry or the command line says otherwise."""
    return {
        "timeout_s": config.timeout_s,
        "max_retries": config.max_retries,
        "max_total_retry_s": config.max_total_retry_s,
        "max_connections": config.threads,
    }


def full_name(key: str) -> str:
    """The name of an eval with a split: its own, or "<name>.default" for one that has none."""
    return key if "." in key else f"{key}.default"


def make_run_spec(
    config: RunConfig,
    spec: EvalSpec,
    name: str,
    names: list[str],
    who: list[dict[str, Any]],
    built: Eval,
    secrets: Secrets,
) -> RunSpec:
    """The log's first line."""
    base, split = name.split(".")[:2]
    run_config = {
        **config.to_dict(),
        "completion_args": secrets.mask_arguments(config.completion_args),
        "extra_eval_params": secrets.mask_arguments(config.extra_eval_params),
        "completion_fns": [{**one, "args": secrets.mask_arguments(one["args"])} for one in who],
        "eval_spec": {
            "class": spec.cls,
            "args": secrets.mask_arguments({**spec.args, **config.extra_eval_params}),
            "key": spec.key,
            "group": spec.group,
            "registry_path": str(spec.registry_path) if spec.registry_path else None,
        },
        "plan": secrets.mask_arguments(built.plan()),
        "data": built.data_facts(data_facts),
        "command": " ".join(map(shlex.quote, sys.argv)),
        "initial_settings": {"visible": config.visible if config.visible is not None else config.max_samples is None},
    }
    return RunSpec(
        completion_fns=[secrets.mask(name) for name in names],
        eval_name=name,
        base_eval=base,
        split=split,
        run_config=secrets.mask_values(run_config),
        created_by=config.user,
        evalframe=provenance(),
    )


def log_path(config: RunConfig, run_spec: RunSpec) -> Path:
    """Where the log goes."""
    if config.record_path:
        return Path(config.record_path).expanduser().absolute()
    return log_dir(config.log_dir, {}) / log_name(run_spec.run_id, ",".join(run_spec.completion_fns), run_spec.eval_name)


def check_log_place(path: Path) -> None:
    """
    Say whether a log could be made here, without making anything.

    Raises:
        LogUnavailable: If it could not.
    """
    try:
        if path.exists():
            return  # what lies there is looked at when it is opened
        folder = next(place for place in path.parents if place.exists())
    except OSError as error:
        raise LogUnavailable(
            f"cannot make the log {path}: {error.strerror or error}.", do="Choose another name with --record_path."
        ) from error
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise LogUnavailable(
            f"cannot make the log {path}: {folder} is no folder that can be written to.", do="Choose another with --log_dir."
        )
