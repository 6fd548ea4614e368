"""What numbers options may have, and which do nothing where others say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trueneg.config import FinetuneConfig, PretrainConfig
from trueneg.decoding import encode, flatten, full_name
from trueneg.errors import ConfigError

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

_SIZES = ("architecture", "num_layers", "hidden_size", "num_heads", "intermediate_size", "embedding_size")
_NEEDS: tuple[tuple[tuple[str, ...], Callable[[PretrainConfig], bool], str], ...] = (
    (
        (*(f"model.{size}" for size in _SIZES), "model.max_positions"),
        lambda config: not config.model.start_from,
        "with a checkpoint to continue (--from), which has its own sizes: leave it out",
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
        lambda config: bool(config.objective.correction.detector or config.objective.cline.guard),
        "without a detector: name one (--hard-correction), or leave it out",
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
)
"""Options by what their names begin with, when alone they do something, and what a user is told else."""


def check_effects(config: PretrainConfig, settings: Sequence[str]) -> None:
    """Refuse settings that do nothing in the configuration they are part of.

    Defaults, presets and saved configurations are not looked at: they say everything, whether it matters or not.

    Args:
        config: The configuration with its settings.
        settings: ``key=value``, as ``decoding.override`` took them.

    Raises:
        ConfigError: naming the option, and what it goes with.

    Example:
        >>> check_effects(PretrainConfig(), ["correction.use=set"])
        Traceback (most recent call last):
        trueneg.errors.ConfigError: objective.correction.use does nothing without a detector: name one ...
    """
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        for prefixes, is_so, remedy in _NEEDS:
            if name.startswith(prefixes) and not is_so(config):
                raise ConfigError(f"{name} does nothing {remedy}")


def validate(config: PretrainConfig | FinetuneConfig) -> None:
    """Refuse numbers that no run can have, before anything is loaded.

    What depends on the corpus, the model or the number of processes is checked where these are known.

    Raises:
        ConfigError: naming the option, its value and its limits.

    Example:
        >>> from trueneg.decoding import override
        >>> validate(override(PretrainConfig(), ["steps=0"]))
        Traceback (most recent call last):
        trueneg.errors.ConfigError: train.steps: at least 1 is wanted, not 0
    """
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
