"""
Everything about a run that can be known before a model is asked: names, arguments, settings, data, keys, the place of the log.

All faults are found in one go, so that they can be mended in one go.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalframe.core.completion import CompletionFn
from evalframe.core.errors import BadSetting, Collector, EvalFailed, EvalframeError, LogUnavailable, MissingExtra, described
from evalframe.core.price import Prices
from evalframe.core.secrets import Secrets
from evalframe.core.specs import EvalSpec, RunSpec
from evalframe.eval import Eval
from evalframe.logs.find import log_dir, log_name
from evalframe.logs.run_log import RunLog
from evalframe.loop import COROUTINES, Crew, Loop
from evalframe.registry.env import read_env
from evalframe.registry.registry import Registry
from evalframe.runs.config import RunConfig, texts
from evalframe.runs.functions import Functions, ask_whom, name_of, wanted
from evalframe.runs.provenance import data_facts, provenance
from evalframe.runs.resume import check_agreement, resume_line, resumed_log, secrets_missing
from evalframe.runs.source import Regrading, source_of


@dataclass
class Prepared:
    """A run of which everything is known but the answers."""

    config: RunConfig
    spec: EvalSpec
    eval: Eval
    run_spec: RunSpec
    secrets: Secrets
    log_path: Path | None
    loop: Loop
    who: Functions
    prices: Prices
    source: Regrading | None = None
    resume: Mapping[str, Any] | None = None
    """What the log is told of this process, where it takes up a run."""

    @property
    def warnings(self) -> list[str]:
        """What is asked for and will not be heeded."""
        if self.config.epochs == 1 or hasattr(self.eval, "report"):
            return []
        own = type(self.eval).__name__
        return [f"{own} makes its own report, which heeds no epochs_reducer and may take each epoch for a sample; see docs/epochs.md"]


def prepare(
    completion_fn: str | CompletionFn | Sequence[str | CompletionFn],
    eval: str | EvalSpec,
    *,
    registry: Registry | None,
    settings: Mapping[str, Any],
    crew: Crew | None = None,
    source: Regrading | None = None,
) -> Prepared:
    """
    Check everything that needs no model.

    Args:
        completion_fn: As for `run_eval`.
        eval: Likewise.
        registry: Likewise.
        settings: Likewise.
        crew: What this run shares with others.
        source: The log whose answers this run stands on.

    Raises:
        EvalframeError: One fault, or `Faults` with all of them.
    """
    faults = Collector()
    early = faults.of(lambda: RunConfig.resolve(settings, os.environ))
    registry = registry if registry is not None else Registry()
    faults.of(lambda: registry.add_registry_paths(texts(settings.get("registry_path") or ())))
    spec = eval if isinstance(eval, EvalSpec) else faults.of(lambda: registry.get_eval(eval))
    secrets = Secrets.from_environment(os.environ)
    log = faults.of(lambda: log_to_resume(early, completion_fn, full_name(spec.key))) if early and spec else None
    if log is not None:
        for fault in secrets_missing(log, settings):
            faults.add(fault)
        source = source or faults.of(partial(source_of, log))
    config = faults.of(lambda: RunConfig.resolve(settings, os.environ, spec.run if spec else None, log and log.settings)) if early else None
    who = ask_whom(completion_fn, registry, config, secrets, faults)
    if spec is None or config is None:
        raise faults.all()
    secrets.add_arguments([dict(config.extra_eval_params), read_env(spec.args, missing_ok=True)])
    name = full_name(spec.key)
    built = faults.of(lambda: registry.make_eval(spec, who.functions, seed=config.seed, name=name, extra=config.extra_eval_params))
    if built is not None:
        faults.of(partial(checked, built))
    loop = faults.of(lambda: Loop.compose(config.to_dict(), prices=registry.price_of, crew=crew, mask=secrets.mask))
    check_settings(config, who, registry.price_of, faults)
    if faults or built is None or loop is None:
        raise faults.all()
    run_spec = make_run_spec(config, spec, name, who, built, secrets)
    prepared = Prepared(config, spec, built, run_spec, secrets, None, loop, who, registry.price_of, source)
    if source is not None:
        run_spec.run_config = {**run_spec.run_config, "source": source.told()}
        loop.holds = source.holds
    if log is not None:
        changed = check_agreement(log, config, run_spec)
        prepared.run_spec, prepared.log_path, prepared.resume = (
            RunSpec.from_line(log.spec),
            log.path,
            resume_line(changed, run_spec, secrets),
        )
    elif not config.dry_run:
        prepared.log_path = log_path(config, run_spec)
    return prepared


def log_to_resume(config: RunConfig, completion_fn: str | CompletionFn | Sequence[str | CompletionFn], eval_name: str) -> RunLog | None:
    """
    The log of the run that is taken up, if one is; there is none in a file that a kill left empty, nor in one that `record_path` names and
    that is not there yet. So a command with both flags can be given again and again.

    Raises:
        EvalframeError: If it cannot be found, or be taken up.
    """
    if not config.resume:
        return None
    if config.dry_run:
        raise BadSetting("--dry-run keeps no log, so there is none to --resume.", do="Leave one of them out.")
    named = Path(config.resume if isinstance(config.resume, str) else config.record_path or "").expanduser()
    with suppress(OSError):  # what is wrong with the path is told when the log is looked for
        if (named.is_file() and named.stat().st_size == 0) or (config.record_path and not named.exists()):
            return None
    names = [item if isinstance(item, str) else name_of(item) for item in wanted(completion_fn)]
    return resumed_log(config.resume, record_path=config.record_path, folder=log_dir(config.log_dir, {}), names=names, eval_name=eval_name)


def check_settings(config: RunConfig, who: Functions, prices: Prices, faults: Collector) -> None:
    """Collect what does not go together, and what is missing for it."""
    if not config.dry_run and not config.resume:
        faults.of(partial(check_log_place, Path(config.record_path or log_dir(config.log_dir, {}) / "log").expanduser().absolute()))
    if config.http_run and not config.http_run_url:
        faults.add(BadSetting("--http-run needs to know where to.", do="Say --http-run-url URL."))
    if config.http_run and config.dry_run:
        faults.add(
            BadSetting("--dry-run keeps no log, and --http-run needs one for what cannot be delivered.", do="Leave one of them out.")
        )
    if config.executor == COROUTINES and find_spec("aiohttp") is None and any(hasattr(one, "base_url") for one in who.functions):
        faults.add(MissingExtra.named("--executor coroutines", library="aiohttp", extra="async"))
    if config.cost_limit is None and config.max_cost is None:
        return
    for function, name in zip(who.functions, who.names, strict=False):
        model = getattr(function, "model", None)
        if not isinstance(model, str) or faults.of(partial(prices, model)) is None:
            faults.add(
                BadSetting(
                    f"a limit on cost is set, but {name if model is None else f'the model {model}'} has no price.",
                    do=(
                        "Give it one: models/NAME.yaml in a registry of your own, see docs/limits.md.",
                        "Or limit tokens: --token_limit, --max_total_tokens.",
                    ),
                )
            )


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


def full_name(key: str) -> str:
    """The name of an eval with a split: its own, or "<name>.default" for one that has none."""
    return key if "." in key else f"{key}.default"


def make_run_spec(
    config: RunConfig,
    spec: EvalSpec,
    name: str,
    who: Functions,
    built: Eval,
    secrets: Secrets,
) -> RunSpec:
    """The log's first line."""
    base, split = name.split(".")[:2]
    run_config = {
        **config.to_dict(),
        "registry_path": [str(Path(path).expanduser().absolute()) for path in config.registry_path],
        "completion_args": secrets.mask_arguments(config.completion_args),
        "extra_eval_params": secrets.mask_arguments(config.extra_eval_params),
        "completion_fns": [{**one, "args": secrets.mask_arguments(one["args"])} for one in who.told],
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
        completion_fns=[secrets.mask(name) for name in who.names],
        eval_name=name,
        base_eval=base,
        split=split,
        run_config=secrets.mask_values(run_config),
        created_by=config.user,
        evalframe=provenance(),
    )


def log_path(config: RunConfig, run_spec: RunSpec) -> Path:
    """Where the log goes."""
    named = config.record_path or (config.resume if isinstance(config.resume, str) else None)
    if named:
        return Path(named).expanduser().absolute()
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
