"""Named configurations: the papers' sizes and schedules, and some made for small machines."""

from __future__ import annotations

from dataclasses import replace

from trueneg.config.options import (
    CorpusConfig,
    MaskingConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimizerConfig,
    PretrainConfig,
    TrainConfig,
)
from trueneg.errors import ConfigError, unknown_name

# Devlin et al. 2019: 80 % mask, 10 % random, 10 % unchanged.
MASKED_LM = ObjectiveConfig(name="mlm", prediction="argmax", masking=MaskingConfig(mask_share=0.8, random_share=0.1))
"""What masked language modelling starts from, as in BERT."""

_ELECTRA_TINY = PretrainConfig(
    preset="electra-tiny",
    corpus=CorpusConfig(length=32, eval_rows=64),
    model=ModelConfig(
        num_layers=2,
        hidden_size=32,
        num_heads=2,
        intermediate_size=64,
        embedding_size=32,
        max_positions=64,
        dropout=0.0,
        generator_width=0.5,
    ),
    optimizer=OptimizerConfig(learning_rate=2e-3, warmup_steps=10),
    train=TrainConfig(steps=100, batch_size=8, log_every=10, eval_every=50, save_every=50),
)
_ELECTRA_MINI = PretrainConfig(
    preset="electra-mini",
    corpus=CorpusConfig(length=128),
    model=ModelConfig(
        num_layers=4,
        hidden_size=128,
        num_heads=4,
        intermediate_size=512,
        embedding_size=128,
        max_positions=512,
        # Less than one epoch has nothing to overfit, and random masks take a third of a step on a CPU.
        dropout=0.0,
        generator_width=0.5,
    ),
    optimizer=OptimizerConfig(learning_rate=1e-3, warmup_steps=200),
    train=TrainConfig(steps=2000, batch_size=32, precision="bf16"),
)
_ELECTRA_SMALL = PretrainConfig(
    preset="electra-small",
    corpus=CorpusConfig(length=128, eval_rows=2048),
    model=ModelConfig(),
    optimizer=OptimizerConfig(learning_rate=5e-4, warmup_steps=10_000),
    train=TrainConfig(
        steps=1_000_000, batch_size=128, precision="bf16", log_every=500, eval_every=10_000, save_every=10_000
    ),
)
_ELECTRA_BASE = replace(
    _ELECTRA_SMALL,
    preset="electra-base",
    corpus=CorpusConfig(length=512, eval_rows=2048),
    model=ModelConfig(hidden_size=768, num_heads=12, intermediate_size=3072, embedding_size=768, generator_width=1 / 3),
    optimizer=OptimizerConfig(learning_rate=2e-4, warmup_steps=10_000),
    train=replace(_ELECTRA_SMALL.train, steps=766_000, batch_size=256),
)
_ELECTRA_LARGE = replace(
    _ELECTRA_BASE,
    preset="electra-large",
    model=ModelConfig(
        num_layers=24,
        hidden_size=1024,
        num_heads=16,
        intermediate_size=4096,
        embedding_size=1024,
        generator_width=0.25,
    ),
    objective=ObjectiveConfig(masking=MaskingConfig(rate=0.25)),
    train=replace(_ELECTRA_BASE.train, steps=400_000, batch_size=2048),
)
_BERT_BASE = PretrainConfig(
    preset="bert-base",
    corpus=CorpusConfig(length=512, eval_rows=2048),
    model=ModelConfig(architecture="bert", hidden_size=768, num_heads=12, intermediate_size=3072),
    objective=MASKED_LM,
    # Devlin et al. 2019: 256 rows of 512 tokens for a million steps; Adam with bias correction and decay 0.01.
    optimizer=OptimizerConfig(learning_rate=1e-4, warmup_steps=10_000),
    train=replace(_ELECTRA_SMALL.train, batch_size=256),
)
_BERT_LARGE = replace(
    _BERT_BASE,
    preset="bert-large",
    model=ModelConfig(architecture="bert", num_layers=24, hidden_size=1024, num_heads=16, intermediate_size=4096),
)
_MODERNBERT_BASE = PretrainConfig(
    preset="modernbert-base",
    corpus=CorpusConfig(length=1024, pack=True, eval_rows=1024),
    # Warner et al. 2024: 22 layers, GeGLU of 1152, 30 % masked, warm-up-stable-decay, no dropout. Rows, steps and
    # batch are ours: theirs was 1.7 trillion tokens in batches of up to 4,608 rows.
    model=ModelConfig(
        architecture="modernbert",
        num_layers=22,
        hidden_size=768,
        num_heads=12,
        intermediate_size=1152,
        max_positions=8192,
        dropout=0.0,
    ),
    objective=replace(MASKED_LM, masking=MaskingConfig(rate=0.3, mask_share=0.8, random_share=0.1)),
    optimizer=OptimizerConfig(learning_rate=8e-4, schedule="wsd", warmup_steps=10_000, weight_decay=1e-5, beta2=0.98),
    train=replace(_ELECTRA_SMALL.train, steps=500_000, batch_size=448),
)
CONTINUE = PretrainConfig(
    preset="continue",
    # Zhang et al. 2023, section 4.1: base models continue with 5e-5.
    optimizer=OptimizerConfig(learning_rate=5e-5, warmup_steps=100),
    train=TrainConfig(steps=10_000, precision="bf16"),
)
"""What a run starts from that continues a checkpoint and names no preset."""

PRESETS = {
    config.preset: config
    for config in (
        _ELECTRA_TINY,
        _ELECTRA_MINI,
        _ELECTRA_SMALL,
        _ELECTRA_BASE,
        _ELECTRA_LARGE,
        _BERT_BASE,
        _BERT_LARGE,
        _MODERNBERT_BASE,
    )
}


def preset(name: str) -> PretrainConfig:
    """Look a preset up.

    Raises:
        ConfigError: for an unknown name, with the closest one.

    Example:
        >>> preset("electra-small").model.hidden_size
        256
    """
    if name not in PRESETS:
        raise ConfigError(unknown_name("preset", name, PRESETS))
    return PRESETS[name]
