"""Stages of a run: consecutive parts in which some options differ, each resolved into a configuration.

A run without stages is a run of one stage: training code always uses ``stages_of`` and needs no special case.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trueneg.config.batch_sizes import check_rows, rows_before, rows_of_step, steps_for
from trueneg.config.codec import flatten, full_name, override
from trueneg.config.options import CorpusConfig, PretrainConfig, StageConfig
from trueneg.config.validation import check_options_apply, steps_to_keep, validate
from trueneg.errors import ConfigError, TruenegError, unknown_name

MAY_DIFFER = (
    "corpus.*",
    "objective.*",
    "optimizer.*",
    "model.rope_theta*",
    "train.batch_size",
    "train.batch_warmup_*",
    "train.accumulation",
)
"""Options that stages may set."""

OF_THE_RUN = (
    "objective.name",
    "objective.options",
    *(f"objective.cline.{name}" for name in ("variant", "rtd", "contrast", "weights", "pooling")),
    "optimizer.name",
)
"""Exceptions that belong to the run: they determine which weights there are, and the optimizer's state."""

OF_THE_START = ("optimizer.warmup_steps=0", "train.batch_warmup_steps=0")
"""Settings of later stages unless they set these themselves: a run warms up once."""

FORM = 'write  [[stage]]  with  name = "decay"  and  steps = 1000  for each (docs/stages.md)'


@dataclass(frozen=True)
class Stage:
    """A stage with its resolved configuration."""

    name: str
    """Empty for the only stage of a run without stages."""
    config: PretrainConfig
    """The run's, with this stage's settings; ``train.steps`` is the whole run's."""
    steps: range
    """Optimizer steps, counted over the whole run."""
    row: int = 0
    """Number of rows read before this stage."""
    place: int = 0
    """Of these, rows of the same corpus with the same options: this stage continues after them."""

    @property
    def num_rows(self) -> int:
        """Number of rows that it reads."""
        return rows_before(self.config.train, len(self.steps))

    @property
    def num_tokens(self) -> int:
        """Number of tokens that it reads, including padding."""
        return self.num_rows * self.config.corpus.length


def stages_of(config: PretrainConfig) -> list[Stage]:
    """Resolve a run's stages, in order.

    Options that a stage does not set are the run's; but only the first stage inherits the warm-ups of learning rate and
    batch size.

    Example:
        >>> decay = StageConfig("decay", 10, ("optimizer.schedule=1-sqrt",))
        >>> config = with_stages(PretrainConfig(), [StageConfig("stable", 90), decay])
        >>> [(stage.steps, stage.config.optimizer.schedule) for stage in stages_of(config)]
        [(range(0, 90), 'linear'), (range(90, 100), '1-sqrt')]
    """
    whole = StageConfig("", config.train.steps)
    resolved: list[Stage] = []
    first = row = 0
    read: Counter[Any] = Counter()
    for one in config.stages or (whole,):
        own = override(config, [*(OF_THE_START if resolved else ()), *one.settings])
        rows = _rows_read(own.corpus)
        stage = Stage(one.name, own, range(first, first + one.steps), row, read[rows])
        resolved.append(stage)
        first, row = stage.steps.stop, row + stage.num_rows
        read[rows] += stage.num_rows
    return resolved


def _rows_read(corpus: CorpusConfig) -> Any:
    """Key of the rows that are read, independent of how folders and shares are spelled."""
    weights = [source.weight for source in corpus.sources]
    total = sum(weight for weight in weights if weight is not None)
    shares = tuple(None if weight is None else weight / total for weight in weights)
    paths = tuple(os.path.normpath(source.path) for source in corpus.sources)
    return paths, shares, replace(corpus, path="", mixture="", eval_rows=0, held_out="", max_epochs=0.0)


def stage_at(stages: Sequence[Stage], step: int) -> int:
    """Index of the stage to which a step (from 0) belongs; the last one for a finished run.

    Example:
        >>> stages = stages_of(with_stages(PretrainConfig(), [StageConfig("a", 2), StageConfig("b", 2)]))
        >>> [stage_at(stages, step) for step in range(5)]
        [0, 0, 1, 1, 1]
    """
    return next((number for number, stage in enumerate(stages) if step < stage.steps.stop), len(stages) - 1)


def with_stages(config: PretrainConfig, stages: Sequence[StageConfig]) -> PretrainConfig:
    """Replace the stages of a run; its number of steps becomes their total."""
    steps = sum(stage.steps for stage in stages)
    return replace(config, stages=tuple(stages), train=replace(config.train, steps=steps)) if stages else config


def with_settings(config: PretrainConfig, settings: Sequence[str]) -> PretrainConfig:
    """Change stages with ``stages.NAME.KEY=VALUE``; ``steps`` and ``keep`` are the stage's own fields.

    Raises:
        ConfigError: for a stage that the run does not have.
    """
    changed = {stage.name: stage for stage in config.stages}
    for setting in settings:
        name, _, rest = setting.removeprefix("stages.").partition(".")
        if name not in changed:
            known = f"--set {setting}: this run has no stages" if not changed else unknown_name("stage", name, changed)
            raise ConfigError(known)
        key, equals, value = rest.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write it as stages.NAME.KEY=VALUE")
        stage = changed[name]
        if key.strip() in ("steps", "keep"):
            changed[name] = override(stage, [rest])
        else:
            key = _named(config, key.strip(), f"stage '{name}': ")
            others = [one for one in stage.settings if one.partition("=")[0] != key]
            changed[name] = replace(stage, settings=(*others, f"{key}={value.strip()}"))
    return with_stages(config, list(changed.values()))


def with_total(config: PretrainConfig, steps: int) -> PretrainConfig:
    """Scale all stages proportionally to a total number of steps.

    Raises:
        ConfigError: if a stage would have no steps.

    Example:
        >>> config = with_stages(PretrainConfig(), [StageConfig("a", 90), StageConfig("b", 10)])
        >>> [stage.steps for stage in with_total(config, 25).stages]
        [23, 2]
    """
    before = sum(stage.steps for stage in config.stages)
    ends, done = [], 0
    for stage in config.stages:
        done += stage.steps
        ends.append(-(-done * steps // max(before, 1)))
    lengths = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    if short := next((stage.name for stage, length in zip(config.stages, lengths, strict=True) if length < 1), ""):
        raise ConfigError(
            f"--steps {steps}: stage '{short}' would have none: give more, or --set stages.{short}.steps=1"
        )
    scaled = [replace(stage, steps=length) for stage, length in zip(config.stages, lengths, strict=True)]
    return with_stages(config, scaled)


def read_stages(path: Path, config: PretrainConfig) -> tuple[StageConfig, ...]:
    """Read a file of stages.

    Args:
        path: A TOML file of tables ``[[stage]]``, each with a ``name``, its length (``steps``, or ``tokens``), ``keep``
            to keep the model at its end, and options by their dotted names or as nested tables.
        config: The run's configuration, which the stages override.

    Raises:
        ConfigError: for a file that is missing or not TOML, and for invalid stages.
    """
    try:
        content = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise ConfigError(f"cannot read '{path}' ({error.strerror}): give --stages a TOML file; {FORM}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"'{path}' is no TOML ({error}): {FORM}") from error
    if others := sorted(content.keys() - {"stage"}):
        raise ConfigError(f"'{path}': {unknown_name('table', others[0], ['stage'])}: {FORM}")
    tables = content.get("stage")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"'{path}' has no stages: {FORM}")
    return tuple(_stage(table, number, path, config) for number, table in enumerate(tables, start=1))


def check_stages(config: PretrainConfig) -> None:
    """Refuse invalid stages, and validate each stage's configuration.

    What depends on corpora, the model or the number of processes is checked where these are known.

    Raises:
        ConfigError: naming the stage and the option.
    """
    check_names(config)
    validate(config)
    for stage, given in zip(stages_of(config), config.stages or (None,), strict=True):
        with naming(stage):
            if given is not None:
                _check_settings(stage.config, given)
                validate(stage.config)
            check_rows(stage.config.train, len(stage.steps))
    total = sum(stage.steps for stage in config.stages)
    if config.stages and total != config.train.steps:
        raise ConfigError(f"train.steps={config.train.steps:,}, but the stages have {total:,} steps together")
    if config.model.start_from:
        _check_rope(config)
    steps_kept(config)


def steps_kept(config: PretrainConfig) -> dict[int, float]:
    """Steps at which the model is kept permanently, each with its share of the run: the run's, and ends of stages."""
    kept, total = steps_to_keep(config.train), config.train.steps
    done = 0
    for stage in config.stages:
        done += stage.steps
        if stage.keep:
            kept[done] = done / total
    return dict(sorted(kept.items()))


@contextmanager
def naming(stage: Stage) -> Iterator[None]:
    """Add the stage's name to errors raised within."""
    try:
        yield
    except TruenegError as error:
        if not stage.name or str(error).startswith("stage '"):
            raise
        error.args = (f"stage '{stage.name}': {error}",)
        raise


def describe_stages(config: PretrainConfig) -> Iterator[dict[str, Any]]:
    """Describe each stage: its steps, rows and tokens, and the options that usually change between stages."""
    for stage in stages_of(config):
        train, optimizer, corpus = stage.config.train, stage.config.optimizer, stage.config.corpus
        first, last = rows_of_step(train, 0), rows_of_step(train, len(stage.steps) - 1)
        yield {
            "stage": stage.name,
            "steps": len(stage.steps),
            "first_step": stage.steps.start,
            "tokens": stage.num_tokens,
            "rows": str(last) if first == last else f"{first} to {last}",
            "length": corpus.length,
            "masked": stage.config.objective.masking.rate,
            "learning_rate": optimizer.learning_rate,
            "schedule": optimizer.schedule,
            "warmup_steps": optimizer.warmup_steps,
            "corpus": corpus.mixture or corpus.path,
        }


def _stage(table: Mapping[str, Any], number: int, path: Path, config: PretrainConfig) -> StageConfig:
    name, where = table.get("name", f"stage-{number}"), f"'{path}', stage {number}"
    if not isinstance(name, str):
        raise ConfigError(f"{where}: name must be text, got {name!r}")
    where = f"'{path}', stage '{name}'"
    own = {key: table[key] for key in ("steps", "tokens", "keep") if key in table}
    for key, value in own.items():
        kind, said = (bool, "true or false") if key == "keep" else (int, "a whole number")
        if type(value) is not kind:
            raise ConfigError(f"{where}: {key} must be {said}, got {value!r}")
    if ("steps" in own) == ("tokens" in own):
        raise ConfigError(f"{where}: say how long it is, with one of  steps = 1000  and  tokens = 1_000_000")
    options = flatten({key: value for key, value in table.items() if key not in ("name", *own)})
    settings = tuple(f"{_named(config, key, f'{where}: ')}={_text(key, options[key], where)}" for key in options)
    steps = own.get("steps", 0)
    if "tokens" in own:
        try:
            resolved = override(config, [*(OF_THE_START if number > 1 else ()), *settings])
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        steps = steps_for(resolved.train, max(0, -(-own["tokens"] // resolved.corpus.length)))
    return StageConfig(name, steps, settings, own.get("keep", False))


def _text(key: str, value: Any, where: str) -> str:
    """A value as ``--set`` accepts it."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ConfigError(f"{where}: {key} must be text, a number, true or false, got {value!r}")
    return str(value)


def _named(config: PretrainConfig, key: str, where: str) -> str:
    try:
        return full_name(config, key)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error


def check_names(config: PretrainConfig) -> None:
    """Refuse stages without unique names, without steps, or with settings that a stage may not have.

    Raises:
        ConfigError: naming the stage.
    """
    names = [stage.name for stage in config.stages]
    for number, stage in enumerate(config.stages, start=1):
        if not re.fullmatch(r"[\w-]+", stage.name):
            raise ConfigError(f"stage {number}: its name must be letters, digits, - and _, got '{stage.name}'")
        if names.count(stage.name) > 1:
            raise ConfigError(f"stage '{stage.name}' is there twice: give each a name of its own")
        if stage.steps < 1:
            raise ConfigError(f"stage '{stage.name}': steps must be at least 1, got {stage.steps}: or leave it out")
        for setting in stage.settings:
            _check_may_differ(config, stage.name, setting)


def _check_may_differ(config: PretrainConfig, name: str, setting: str) -> None:
    key = _named(config, setting.partition("=")[0], f"stage '{name}': ")
    if key == "train.steps":
        raise ConfigError(f"stage '{name}': train.steps is the whole run's: say  steps = 1000  of the stage itself")
    if setting == "corpus.pack=auto":
        raise ConfigError(f"stage '{name}': corpus.pack=auto is settled once a run: say true or false")
    may_differ = any(fnmatchcase(key, one) for one in MAY_DIFFER) and key not in OF_THE_RUN
    if not may_differ:
        raise ConfigError(
            f"stage '{name}': {key} belongs to the whole run and cannot change between stages: set it for all of them "
            f"(--set {setting}); stages may change {', '.join(MAY_DIFFER)}"
        )


def _check_settings(config: PretrainConfig, stage: StageConfig) -> None:
    names = [setting.partition("=")[0] for setting in stage.settings]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ConfigError(f"{twice} is set twice: leave one out")
    check_options_apply(config, stage.settings)


def _check_rope(config: PretrainConfig) -> None:
    """Refuse a RoPE base left to the checkpoint if another stage sets it: a resumed run's checkpoint has its own."""
    stages = stages_of(config)
    for key in ("rope_theta", "rope_theta_local"):
        values = {stage.name: getattr(stage.config.model, key) for stage in stages}
        if any(values.values()) and not all(values.values()):
            bare = next(name for name, value in values.items() if not value)
            raise ConfigError(
                f"stage '{bare}': model.{key} is left to the checkpoint, and another stage sets it: set it for the "
                f"whole run, too (--set model.{key}=10000)"
            )
