"""Cost of a pre-training run: tokens, floating-point operations, and an estimate of GPU hours."""

from __future__ import annotations

from dataclasses import dataclass

from trueneg.config.options import ModelConfig, PretrainConfig
from trueneg.config.stages import Stage, stages_of

GPU, PEAK_FLOPS = "NVIDIA A100", 312e12
"""The GPU of the estimate, and its dense bf16 operations per second according to its maker."""

UTILISATION, FULL_WIDTH = 0.4, 768
"""Share of this peak that training is assumed to reach at this model width or above; proportionally less below."""

FORMULA = (
    "an estimate, nothing of it measured: tokens = steps x rows x length, every row full; FLOPs a token = 6 x weights "
    "of the layers + 12 x layers x width x length for attention, each time that it is read, and the head at masked "
    f"positions; hours = FLOPs / {UTILISATION:.0%} of the {PEAK_FLOPS / 1e12:.0f} TFLOP/s of an {GPU}, for models "
    f"narrower than {FULL_WIDTH} in proportion less; correction and regularization not counted"
)
"""How ``cost_of`` counts, in words."""

_VOCABULARY = {"mmbert-base-staged": 256_000, "roberta": 50_265, "modernbert": 50_368}
"""Entries of the published tokenizer, by preset or architecture."""
_USUAL_VOCABULARY = 30_522


@dataclass(frozen=True)
class Cost:
    """What a run costs."""

    tokens: int
    """Steps times rows times ``corpus.length``, summed over stages."""
    flops: float
    """Operations of the matrix products in forward and backward passes."""
    gpu_hours: float
    """On one ``GPU``; an estimate, not a measurement."""


def cost_of(config: PretrainConfig) -> Cost:
    """Estimate what a run costs without correction and regularization (1 to 2 % more in the paper, section 5).

    Every weight of a layer costs 2 operations per token forward and 4 backward; attention 4 times width times length
    forward, 8 backward, per layer. Rows are assumed to be full and embeddings to be free. An objective encodes a row
    once (``mlm``), once by each of two models (``electra``), or with its views (``cline``).

    Example:
        >>> from trueneg.config.presets import preset
        >>> cost = cost_of(preset("bert-base"))
        >>> cost.tokens, f"{cost.flops:.1e}"
        (131072000000, '7.7e+19')
    """
    parts = [_cost_of(stage) for stage in stages_of(config)]
    return Cost(sum(one.tokens for one in parts), sum(one.flops for one in parts), sum(one.gpu_hours for one in parts))


def _cost_of(stage: Stage) -> Cost:
    config, tokens = stage.config, stage.num_tokens
    model, length, objective = config.model, config.corpus.length, config.objective
    if objective.name == "electra":
        passes = _forward(model, 1.0, 1.0, length) + _forward(
            model, model.generator_width, model.generator_depth, length
        )
        head_width = model.hidden_size * model.generator_width
    else:
        passes = _forward(model, 1.0, 1.0, length) * num_readings(config)
        head_width = model.hidden_size
    vocabulary = _VOCABULARY.get(config.preset) or _VOCABULARY.get(model.architecture, _USUAL_VOCABULARY)
    flops = 3 * tokens * (passes + objective.masking.rate * _head(model, head_width, vocabulary))
    rate = PEAK_FLOPS * UTILISATION * min(1.0, model.hidden_size / FULL_WIDTH)
    return Cost(tokens, flops, flops / rate / 3600)


def num_readings(config: PretrainConfig) -> int:
    """How many times the encoder reads a row."""
    cline = config.objective.cline
    if config.objective.name != "cline":
        return 1
    num_views = 2 if cline.negatives == "antonyms" else 1
    return 1 + num_views + (cline.contrast and cline.original == "clean")


def _forward(model: ModelConfig, width: float, depth: float, length: int) -> float:
    """Operations per token of a forward pass through an encoder whose sizes are shares of the model's."""
    hidden, intermediate = model.hidden_size * width, model.intermediate_size * width
    # ModernBERT's feed-forward layers are gated: three matrices.
    weights = 4 * hidden**2 + (3 if model.architecture == "modernbert" else 2) * hidden * intermediate
    embedding = _embedding(model)
    projection = 2 * embedding * hidden if embedding != hidden else 0
    return model.num_layers * depth * (2 * weights + 4 * hidden * length) + projection


def _head(model: ModelConfig, width: float, vocabulary: int) -> float:
    """Operations per masked position of the masked-LM head."""
    embedding = _embedding(model)
    return 2 * width * embedding + 2 * embedding * vocabulary


def _embedding(model: ModelConfig) -> int:
    return model.embedding_size if model.architecture in ("electra", "albert") else model.hidden_size
