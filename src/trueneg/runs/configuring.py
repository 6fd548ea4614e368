"""A pre-training run's configuration, assembled from a preset or a saved run, a checkpoint and settings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trueneg.config.batch_sizes import steps_for
from trueneg.config.codec import full_name, load_config, override
from trueneg.config.mixtures import write_mixture
from trueneg.config.options import CorpusConfig, PretrainConfig, StageConfig
from trueneg.config.presets import CONTINUE, PRESETS
from trueneg.config.presets import preset as find_preset
from trueneg.config.validation import check_options_apply, validate
from trueneg.corpus.mixture import open_corpora
from trueneg.detectors.specification import check_forms_apply
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.models.loading import objective_of
from trueneg.objectives import objective_kind, with_objective
from trueneg.registry import load_plugins, loaded_plugins
from trueneg.runs.automatic import resolve_packing
from trueneg.runs.stages import apart, staged
from trueneg.training.batches import rows_of
from trueneg.training.distributed import choose_device
from trueneg.training.folder import (
    CONFIG,
)


def configure(
    preset: str | None = None,
    *,
    start_from: str | None = None,
    objective: str | None = None,
    config: str | Path | None = None,
    epochs: float | None = None,
    stages: str | Path | Sequence[StageConfig] | None = None,
    settings: Sequence[str] = (),
) -> PretrainConfig:
    """Assemble a run's configuration.

    Args:
        preset: A named configuration. Without one, a run that continues a checkpoint starts from ``CONTINUE``.
        start_from: A checkpoint to continue, instead of the preset's if that names one. Without an objective or a
            preset, the objective is ``mlm``, or ``electra`` if the checkpoint is an ELECTRA discriminator.
        objective: Name of the objective.
        config: A ``config.json`` or a run's folder to start from, instead of a preset.
        epochs: Passes over the corpus, which determine ``train.steps``.
        stages: A TOML file of stages, or the stages themselves, instead of those of the preset or configuration.
        settings: ``key=value``, applied last. ``stages.NAME.key=value`` changes a stage; ``train.steps`` of a run with
            stages scales them proportionally.

    Raises:
        ConfigError: if none of preset, checkpoint and configuration is given, or both preset and configuration are; for
            a setting that has no effect in this configuration; for epochs in addition to steps, or not above 0.
        CorpusError: for epochs of a corpus that cannot be opened.

    Example:
        >>> configure("electra-mini", settings=["train.steps=10"]).train.steps
        10
    """
    settings, of_stages = apart(settings)
    if config is not None and preset is not None:
        raise ConfigError("a preset and --config exclude each other: both say everything")
    if config is not None:
        base = _with_paths_found(load_run_config(config), Path(config))
    elif preset is not None:
        base = find_preset(preset)
    elif start_from:
        base = CONTINUE
        objective = objective or objective_of(start_from)
    else:
        raise ConfigError(f"nothing to train: name a preset ({', '.join(PRESETS)}) or continue a checkpoint (--from)")
    if objective:
        base = with_objective(base, objective)
    if start_from:
        # A preset's generator belongs to the preset's own checkpoint.
        base = replace(base, model=replace(base.model, start_from=start_from, generator_from=""))
    named = override(base, settings)
    load_plugins(named.plugins)
    chosen = override(with_objective(base, named.objective.name), settings)
    chosen = replace(chosen, plugins=loaded_plugins())
    check_options_apply(chosen, settings)
    check_forms_apply(chosen, settings)
    chosen = staged(chosen, stages, settings, of_stages)
    return chosen if epochs is None else _with_epochs(chosen, epochs, settings)


def _with_paths_found(config: PretrainConfig, saved: Path) -> PretrainConfig:
    """Look for missing paths of a saved configuration in the folders above its run, as it may have been moved."""
    model = replace(
        config.model,
        start_from=_found_above(saved, config.model.start_from),
        generator_from=_found_above(saved, config.model.generator_from),
    )
    return replace(
        config,
        corpus=_with_corpora_found(config.corpus, saved),
        model=model,
        stages=tuple(replace(one, settings=tuple(_setting_found(one.settings, saved))) for one in config.stages),
    )


def _with_corpora_found(corpus: CorpusConfig, saved: Path) -> CorpusConfig:
    found = [replace(source, path=_found_above(saved, source.path)) for source in corpus.sources]
    is_mixture = bool(corpus.mixture)
    return replace(corpus, mixture=write_mixture(found)) if is_mixture else replace(corpus, path=found[0].path)


def _setting_found(settings: Sequence[str], saved: Path) -> Iterator[str]:
    for setting in settings:
        key, _, value = setting.partition("=")
        if key in ("corpus.path", "corpus.mixture"):
            name = key.removeprefix("corpus.")
            value = getattr(_with_corpora_found(override(CorpusConfig(), [f"{name}={value}"]), saved), name)
        yield f"{key}={value}"


def _found_above(saved: Path, name: str) -> str:
    if not name or Path(name).exists():
        return name
    above = (folder / name for folder in saved.resolve().parents)
    if not (found := next((path for path in above if path.exists()), None)):
        return name
    warnings.warn(f"'{name}' of '{saved}' is not here: taking '{found}'", TruenegWarning, stacklevel=2)
    return str(found)


def _with_epochs(config: PretrainConfig, epochs: float, settings: Sequence[str]) -> PretrainConfig:
    """Set the steps to as many as make this many passes over the corpus."""
    if not (0 < epochs < math.inf):
        raise ConfigError(f"--epochs {epochs}: must be above 0")
    if config.stages:
        raise ConfigError("--epochs: stages say themselves how long they are: leave it out")
    if any(full_name(config, setting.partition("=")[0].strip()) == "train.steps" for setting in settings):
        raise ConfigError("--epochs and --steps (train.steps) both say how long: leave one out")
    validate(config)
    check_has_corpus(config)
    corpora = open_corpora(config.corpus)
    plain = replace(config, objective=PretrainConfig().objective)  # which reads no tags or annotations
    rows = rows_of(plain, corpora)
    device, encoders = choose_device(config.train.device), []
    if config.corpus.pack == "auto" and device.type == "cuda":  # where it depends on the model
        kind = objective_kind(config.objective.name)
        encoders = kind.encoders(kind.make_model(config, corpora[0].load_tokenizer()))
    settled, _ = resolve_packing(config, rows, device, encoders)
    if settled.corpus.is_packed and not rows.is_packed:
        rows = rows_of(replace(plain, corpus=settled.corpus), corpora)
    steps = steps_for(config.train, math.ceil(epochs * len(rows)))
    return replace(config, train=replace(config.train, steps=steps))


def load_run_config(path: str | Path) -> PretrainConfig:
    """Read the configuration of a run, given its folder or its ``config.json``.

    Raises:
        ConfigError: if it does not exist, or is not a run's configuration.
    """
    path = Path(path)
    return load_config(PretrainConfig, path / CONFIG if path.is_dir() else path)


def check_has_corpus(config: PretrainConfig) -> None:
    """Refuse a configuration without a corpus.

    Raises:
        ConfigError: saying how to name one.
    """
    if not config.corpus.path and not config.corpus.mixture:
        raise ConfigError("no corpus: give --corpus (corpus.path) a folder made by 'trueneg corpus build'")
