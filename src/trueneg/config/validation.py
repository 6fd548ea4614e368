"""What numbers options may have, and which do nothing where others say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.codec import encode, flatten, full_name
from trueneg.config.options import PROJECTED, FinetuneConfig, PretrainConfig
from trueneg.errors import ConfigError
from trueneg.registry import load_plugins

_AT_LEAST = {
    0: (
        "corpus.eval_rows",
        "objective.generator_weight",
        "objective.discriminator_weight",
        "objective.regularization.weight",
        "optimizer.learning_rate",
        "optimizer.warmup_steps",
        "model.frozen_steps",
        "optimizer.weight_decay",
        "optimizer.max_norm",
        "train.eval_every",
        "train.save_every",
        "train.max_minutes",
        "task.max_train_examples",
        "task.max_dev_examples",
        "objective.cline.mlm_weight",
        "objective.cline.rtd_weight",
        "objective.cline.contrast_weight",
        "freelb.step_size",
        "freelb.magnitude",
        "freelb.bound",
        "smart.weight",
        "smart.step_size",
        "smart.noise",
        "smart.bound",
    ),
    1: (
        "length_window",
        "task.doc_stride",
        "task.max_query",
        "task.max_answer",
        "task.num_best",
        "freelb.steps",
        "smart.steps",
        "model.num_layers",
        "model.hidden_size",
        "model.num_heads",
        "model.intermediate_size",
        "model.embedding_size",
        "model.max_positions",
        "train.steps",
        "train.batch_size",
        "train.accumulation",
        "train.log_every",
    ),
    2: ("train.keep",),  # a torn checkpoint needs a predecessor
}
_SHARES = (
    "optimizer.decay_share",
    "optimizer.final_share",
    "warmup_share",
    "objective.cline.views.synonym_share",
    "objective.cline.views.antonym_share",
    "objective.cline.guard_floor",
)  # 0 and 1 among them
_BELOW_ONE = ("optimizer.beta1", "optimizer.beta2", "valid_fraction")  # from 0
_DROPOUTS = ("model.dropout", "dropout")
_ABOVE_ZERO = (
    "objective.temperature",
    "objective.cline.temperature",
    "optimizer.epsilon",
    "epochs",
    "evals_per_epoch",
    "valid_fraction",
)
_UP_TO_ONE = (  # above 0
    "model.generator_width",
    "model.generator_depth",
    "optimizer.layer_decay",
    "task.train_fraction",
)

Needs = tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...]
"""Options by what their names begin with, when alone they do something, and what a user is told else."""

_SIZES = ("architecture", "num_layers", "hidden_size", "num_heads", "intermediate_size", "embedding_size")
_OF_CONTRAST = ("similarity", "temperature", "in_batch_negatives", "pooling", "contrast_weight", "guard_floor")
_OF_ANTONYM_VIEWS = ("antonym_share", "random", "indirect")


def _reads_wordnet(config: PretrainConfig) -> bool:
    objective = config.objective
    return bool(objective.correction.detector) or objective.name == "cline"


def _has_lexical_table(config: PretrainConfig) -> bool:
    objective = config.objective
    guard = objective.cline.guard if objective.name == "cline" else ""
    # A file of 'detect calibrate' may hold any detector.
    return any(name in f"{objective.correction.detector} {guard}" for name in ("lexical", ".json"))


def _makes_generator(config: PretrainConfig) -> bool:
    """Whether the generator is a new one: not named, and none beside the checkpoint to continue."""
    model = config.model
    source = Path(model.start_from)
    beside = model.start_from and any((source / place / "generator").is_dir() for place in ("", "hf"))
    return not (model.generator_from or beside)


def _has_projection(config: PretrainConfig) -> bool:
    return bool(config.model.start_from) or config.model.architecture in PROJECTED


_OF_SCHEDULE: Needs = (
    (
        ("optimizer.decay_share",),
        lambda config: config.optimizer.schedule == "wsd",
        "but for warm-up, stable, decay: choose optimizer.schedule=wsd, or leave it out",
    ),
    (
        ("optimizer.final_share",),
        lambda config: config.optimizer.schedule != "constant",
        "with a constant learning rate: choose another optimizer.schedule, or leave it out",
    ),
)
_NAME: Needs = (
    (("preset",), lambda config: False, "by itself: name the preset where the command takes one, or leave it out"),
)
_NEEDS: Needs = (
    (
        (*(f"model.{size}" for size in _SIZES), "model.max_positions"),
        lambda config: not config.model.start_from,
        "with a checkpoint to continue (--from), which has its own sizes: leave it out",
    ),
    (
        ("model.embedding_size", "model.generator_width"),
        _has_projection,
        f"but for {' and '.join(PROJECTED)}, whose embeddings have a width of their own: leave it out",
    ),
    (
        ("model.generator_from", "model.extend_vocabulary", "model.frozen_steps"),
        lambda config: bool(config.model.start_from),
        "without a checkpoint to continue: name one (--from), or leave it out",
    ),
    (
        (
            "model.generator_",
            "objective.generator_weight",
            "objective.discriminator_weight",
            "objective.correction.discriminator",
        ),
        lambda config: config.objective.name == "electra",
        "but for ELECTRA: choose --objective electra, or leave it out",
    ),
    (
        ("model.generator_width", "model.generator_depth"),
        _makes_generator,
        "with a generator of its own sizes (model.generator_from, or the one beside the checkpoint): leave it out",
    ),
    (
        ("objective.temperature",),
        lambda config: config.objective.prediction == "sampled",
        "with a predicted token that is not drawn: choose objective.prediction=sampled, or leave it out",
    ),
    (
        ("objective.masking.mean_span", "objective.masking.max_span"),
        lambda config: config.objective.masking.unit == "span",
        "but for spans: choose objective.masking.unit=span, or leave it out",
    ),
    (
        ("objective.cline.",),
        lambda config: config.objective.name == "cline",
        "but for CLINE: choose --objective cline, or leave it out",
    ),
    (
        ("objective.cline.guard_floor",),
        lambda config: bool(config.objective.cline.guard),
        "without a guard: name one (objective.cline.guard), or leave it out",
    ),
    (
        tuple(f"objective.cline.{name}" for name in _OF_CONTRAST),
        lambda config: config.objective.cline.contrast,
        "without the contrast: leave out objective.cline.contrast=false, or it",
    ),
    (
        ("objective.cline.guard",),
        lambda config: (
            config.objective.cline.contrast
            or (config.objective.cline.rtd and config.objective.cline.variant == "released")
        ),
        "without the contrast, which it weighs: leave out objective.cline.contrast=false, or it",
    ),
    (
        ("objective.cline.rtd_weight",),
        lambda config: config.objective.cline.rtd,
        "without replaced-token detection: leave out objective.cline.rtd=false, or it",
    ),
    (
        ("objective.cline.temperature",),
        lambda config: config.objective.cline.variant == "paper",
        "but for objective.cline.variant=paper: leave it out",
    ),
    (
        ("objective.cline.views.", "objective.cline.negatives"),
        lambda config: config.objective.cline.rtd or config.objective.cline.contrast,
        "without replaced-token detection and contrast, which read the views: leave it out",
    ),
    (
        tuple(f"objective.cline.views.{name}" for name in _OF_ANTONYM_VIEWS),
        lambda config: config.objective.cline.negatives == "antonyms",
        "with objective.cline.negatives=random, which reads no antonym view: leave it out",
    ),
    (
        (
            "objective.correction.use",
            "objective.correction.denominator",
            "objective.correction.discriminator",
        ),
        lambda config: bool(config.objective.correction.detector),
        "without a detector: name one (--hard-correction), or leave it out",
    ),
    (
        ("objective.correction.forms",),
        _has_lexical_table,
        "without WordNet's table: choose a detector with lexical in it (--hard-correction), or leave it out",
    ),
    (
        ("objective.correction.wordnet",),
        _reads_wordnet,
        "without anything that reads WordNet: name a detector (--hard-correction), or leave it out",
    ),
    (
        ("objective.regularization.weight",),
        lambda config: bool(config.objective.regularization.level),
        "without a level: name one (--soft-regularization), or leave it out",
    ),
    (
        tuple(f"objective.regularization.{name}" for name in ("variant", "stop_gradient", "collapse_threshold")),
        lambda config: "token" in config.objective.regularization.level,
        "but for tokens: choose --soft-regularization token, or leave it out",
    ),
    (
        ("objective.regularization.direction", "objective.regularization.sentence_stop_gradient"),
        lambda config: "sentence" in config.objective.regularization.level,
        "but for sentences: choose --soft-regularization sentence, or leave it out",
    ),
    *_OF_SCHEDULE,
    *_NAME,
)
_FINETUNE_NEEDS: Needs = (
    (
        ("freelb.",),
        lambda config: config.adversarial == "freelb",
        "without FreeLB: choose --adversarial freelb, or leave it out",
    ),
    (
        ("smart.",),
        lambda config: config.adversarial == "smart",
        "without SMART: choose --adversarial smart, or leave it out",
    ),
    (
        ("valid_fraction", "evals_per_epoch", "train.eval_every"),
        lambda config: config.select == "best",
        "where the last weights are taken: choose --select best, or leave it out",
    ),
    (
        ("evals_per_epoch",),
        lambda config: not config.train.eval_every,
        "where train.eval_every says after how many steps: leave one of them out",
    ),
    (
        ("epochs",),
        lambda config: not config.train.steps,
        "where train.steps says how many steps: leave one of them out",
    ),
    (
        ("warmup_share",),
        lambda config: not config.optimizer.warmup_steps,
        "where optimizer.warmup_steps says how many steps: leave one of them out",
    ),
    (
        tuple(f"task.{name}" for name in ("doc_stride", "max_query", "max_answer", "num_best")),
        lambda config: config.task.name.startswith("squad"),
        "but for reading comprehension (--task squad): leave it out",
    ),
    (
        ("task.null_threshold",),
        lambda config: config.task.name == "squad/v2.0",
        "but for --task squad/v2.0, where a question may have no answer: leave it out",
    ),
    (
        ("task.text_column", "task.second_column", "task.label_column"),
        lambda config: config.task.name in ("classification", "regression"),
        "but for --task classification and regression, over tables of one's own: leave it out",
    ),
    *_OF_SCHEDULE,
    *_NAME,
)


def check_options_apply(config: PretrainConfig | FinetuneConfig, settings: Sequence[str]) -> None:
    """Refuse settings that do nothing in the configuration they are part of.

    Defaults, presets and saved configurations are not looked at: they say everything, whether it matters or not.

    Args:
        config: The configuration with its settings.
        settings: ``key=value``, as ``decoding.override`` took them.

    Raises:
        ConfigError: naming the option, and what it goes with.

    Example:
        >>> check_options_apply(PretrainConfig(), ["correction.use=set"])
        Traceback (most recent call last):
        trueneg.errors.ConfigError: objective.correction.use does nothing without a detector: name one ...
    """
    refuse_idle(config, settings, _NEEDS if isinstance(config, PretrainConfig) else _FINETUNE_NEEDS)


def refuse_idle(config: Any, settings: Sequence[str], needs: Needs) -> None:
    """Refuse settings of any configuration that do nothing in it.

    Raises:
        ConfigError: naming the option, and what it goes with.
    """
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        for prefixes, is_so, remedy in needs:
            if name.startswith(prefixes) and not is_so(config):
                raise ConfigError(f"{name} does nothing {remedy}")


def validate(config: PretrainConfig | FinetuneConfig) -> None:
    """Load the plugins that a configuration names, and refuse numbers that no run can have.

    What depends on the corpus, the model or the number of processes is checked where these are known.

    Raises:
        ConfigError: naming the option, its value and its limits.

    Example:
        >>> from trueneg.config.codec import override
        >>> validate(override(PretrainConfig(), ["steps=0"]))
        Traceback (most recent call last):
        trueneg.errors.ConfigError: train.steps: at least 1 is wanted, not 0
    """
    load_plugins(config.plugins)
    values = flatten(encode(config))
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}: a finite number is wanted, not {value}")
    limits: list[tuple[str, bool, str]] = [
        *(
            (n, values[n] >= least, f"at least {least}")
            for least, names in _AT_LEAST.items()
            for n in names
            if n in values
        ),
        *((name, 0 <= values[name] <= 1, "a share from 0 to 1") for name in _SHARES if name in values),
        *((name, 0 <= values[name] < 1, "0 or more, below 1") for name in _BELOW_ONE if name in values),
        *((n, values[n] < 1, "below 1 (negative for the model's own)") for n in _DROPOUTS if n in values),
        *((name, values[name] > 0, "more than 0") for name in _ABOVE_ZERO if name in values),
        *((name, 0 < values[name] <= 1, "more than 0, at most 1") for name in _UP_TO_ONE if name in values),
    ]
    for name, is_within, wanted in limits:
        if not is_within:
            raise ConfigError(f"{name}: {wanted} is wanted, not {values[name]}")
