"""What numbers options may have."""

from __future__ import annotations

import math

from trueneg.config import FinetuneConfig, PretrainConfig
from trueneg.decoding import encode, flatten
from trueneg.errors import ConfigError

_AT_LEAST = {
    0: (
        "corpus.eval_rows",
        "objective.generator_weight",
        "objective.discriminator_weight",
        "objective.regularization.weight",
        "optimizer.learning_rate",
        "optimizer.warmup_steps",
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
