"""Named configurations: the papers' sizes and schedules, and some made for small machines.

``tn-`` are the runs of Zhang et al. 2023, ``cline-`` those of Wang et al. 2021. Their numbers are the paper's; where it
gives none, those of the paper that it follows. What all of them leave open is our choice: bf16 (arithmetic only),
gradients clipped to norm 1, and the intervals of logging and saving.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trueneg.config.codec import override
from trueneg.config.objective_options import ClineConfig, CorrectionConfig, MaskingConfig, ObjectiveConfig, ViewsConfig
from trueneg.config.options import CorpusConfig, ModelConfig, OptimizerConfig, PretrainConfig, StageConfig, TrainConfig
from trueneg.config.stages import with_stages
from trueneg.errors import ConfigError, unknown_name

# Devlin et al. 2019: 80 % mask, 10 % random, 10 % unchanged.
MASKED_LM = ObjectiveConfig(name="mlm", prediction="argmax", masking=MaskingConfig(mask_share=0.8, random_share=0.1))
"""Default objective options of masked language modelling, as in BERT."""

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
        # Less than one epoch cannot overfit, and drawing dropout masks takes a third of a step on a CPU.
        dropout=0.0,
        generator_width=0.5,
    ),
    optimizer=OptimizerConfig(learning_rate=1e-3, warmup_steps=200),
    train=TrainConfig(steps=2000, batch_size=32, precision="auto"),
)
_ELECTRA_SMALL = PretrainConfig(
    preset="electra-small",
    corpus=CorpusConfig(length=128, eval_rows=2048),
    model=ModelConfig(),
    optimizer=OptimizerConfig(learning_rate=5e-4, warmup_steps=10_000),
    train=TrainConfig(
        steps=1_000_000, batch_size=128, precision="auto", log_every=500, eval_every=10_000, save_every=10_000
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
    # Warner et al. 2024: 22 layers, GeGLU of 1152, 30 % masked, warm-up-stable-decay. Their code drops 0.1 of the
    # attention layers' outputs, for which transformers' ModernBERT has no option. Rows, steps and batch are ours:
    # theirs was 1.7 trillion tokens in batches of up to 4,608 rows. Weight decay: see the stages below.
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
    optimizer=OptimizerConfig(
        learning_rate=8e-4, schedule="wsd", warmup_steps=10_000, weight_decay=1e-5 / 8e-4, beta2=0.98
    ),
    train=replace(_ELECTRA_SMALL.train, steps=500_000, batch_size=448),
)
_AT_8192 = ("corpus.length=8192", "model.rope_theta=160000.0")
_EXTENDED = (*_AT_8192, "train.batch_size=576", "optimizer.learning_rate=3e-4", f"optimizer.weight_decay={1e-5 / 3e-4}")
# Warner et al. 2024 (Table 3) and the configurations of its repository (AnswerDotAI/ModernBERT, yamls/modernbert):
# 1.719 trillion tokens at 1,024, the batch rising from 768 to 4,608 rows over 50 billion of them, the learning rate
# over 3 billion; 250 billion at 8,192 with another RoPE base in full attention; 50 billion of decay. They use
# StableAdamW with a weight decay of 1e-5 per step at the peak learning rate: here it is divided by that peak.
_MODERNBERT_STAGED = with_stages(
    replace(
        _MODERNBERT_BASE,
        preset="modernbert-base-staged",
        model=replace(_MODERNBERT_BASE.model, rope_theta=10_000.0, rope_theta_local=10_000.0),
        optimizer=OptimizerConfig(
            name="stableadamw",
            learning_rate=8e-4,
            schedule="constant",
            warmup_steps=2_773,
            weight_decay=1e-5 / 8e-4,
            beta2=0.98,
        ),
        train=replace(
            _MODERNBERT_BASE.train,
            batch_size=4608,
            batch_warmup_steps=18_194,
            batch_warmup_from=768,
            batch_warmup_by=8,
        ),
    ),
    [
        StageConfig("pretrain", 371_901, keep=True),
        StageConfig("extend", 52_982, _EXTENDED, keep=True),
        StageConfig("decay", 10_597, (*_EXTENDED, "optimizer.schedule=1-sqrt", "optimizer.min_lr_ratio=0.001")),
    ],
)
# Marone et al. 2025 and the configurations of its repository (JHU-CLSP/mmBERT, configs): 2 trillion tokens at 1,024
# with 30 % masked (its README; mmBERT-base.yaml says 25 %), 600 billion at 8,192 with 15 %, 100 billion of decay with
# 5 %.
_MMBERT_STAGED = with_stages(
    replace(
        _MODERNBERT_STAGED,
        preset="mmbert-base-staged",
        optimizer=OptimizerConfig(
            name="stableadamw",
            learning_rate=8e-4,
            schedule="constant",
            warmup_steps=3_976,
            weight_decay=8e-5 / 8e-4,
            beta2=0.95,
            epsilon=1e-8,
        ),
        train=replace(_MODERNBERT_STAGED.train, batch_warmup_steps=23_514, batch_warmup_from=384),
    ),
    [
        StageConfig("pretrain", 434_654, keep=True),
        StageConfig(
            "extend", 15_895, (*_AT_8192, "model.rope_theta_local=160000.0", "objective.masking.rate=0.15"), keep=True
        ),
        StageConfig(
            "decay",
            2_650,
            (
                *_AT_8192,
                "model.rope_theta_local=160000.0",
                "objective.masking.rate=0.05",
                "optimizer.schedule=1-sqrt",
                "optimizer.min_lr_ratio=0.02",
            ),
        ),
    ],
)
_RETRIEVED = CorrectionConfig(forms="retrieved")
# In the papers each row holds one document, and attention has dropout, too.
_ONE_DOCUMENT = CorpusConfig(pack=False)
_TN_ELECTRA_SMALL = replace(
    # Section 4.1: the configurations of Clark et al. 2020, at most 128 tokens, 15 % masked, 5e-4, 1000k steps, from
    # scratch. Batch, warm-up, decay and Adam's numbers are theirs (Table 6): it names 128 rows for base models only.
    _ELECTRA_SMALL,
    preset="tn-electra-small",
    corpus=replace(_ONE_DOCUMENT, eval_rows=2048),
    model=replace(_ELECTRA_SMALL.model, attention="sdpa"),
    # Section 3.2: r_k is the prediction; the discriminator reads a sampled token, as in ELECTRA. The lookup table has
    # every synonym that WordNet gives.
    objective=ObjectiveConfig(judged="argmax", correction=_RETRIEVED),
)
_TN_ELECTRA_SMALL_512 = replace(
    _TN_ELECTRA_SMALL,
    preset="tn-electra-small-512",
    # Footnote 8: the variant for reading comprehension, with up to 512 tokens.
    corpus=replace(_ONE_DOCUMENT, length=512, eval_rows=2048),
)
_TN_ELECTRA_BASE = replace(
    _TN_ELECTRA_SMALL,
    preset="tn-electra-base",
    # Section 4.1: 512 tokens, 128 rows, pre-trained weights continued for 200k steps with 5e-5. Warm-up is not given:
    # 10,000 steps, as Clark et al. 2020 (Table 6) and Devlin et al. 2019 (appendix A.2).
    corpus=replace(_ONE_DOCUMENT, length=512, eval_rows=2048),
    model=replace(
        _ELECTRA_BASE.model,
        attention="sdpa",
        start_from="google/electra-base-discriminator",
        generator_from="google/electra-base-generator",
    ),
    optimizer=OptimizerConfig(learning_rate=5e-5, warmup_steps=10_000),
    train=replace(_TN_ELECTRA_SMALL.train, steps=200_000, batch_size=128),
)
_TN_BERT_BASE = replace(
    _TN_ELECTRA_BASE,
    preset="tn-bert-base",
    # Section 4.1: "according to the same implementation for ELECTRA base". Uncased is ours; masked as Devlin et al.
    # 2019. Eq. 1 has no next-sentence prediction, and neither has this.
    model=replace(_BERT_BASE.model, attention="sdpa", start_from="bert-base-uncased"),
    objective=replace(MASKED_LM, correction=_RETRIEVED),
)
_TN_BERT_LARGE = replace(
    _TN_BERT_BASE,
    preset="tn-bert-large",
    # Section 4.1 gives no numbers specific to this model.
    model=replace(_BERT_LARGE.model, attention="sdpa", start_from="bert-large-uncased"),
)
_CLINE_ROBERTA_BASE = PretrainConfig(
    preset="cline-roberta-base",
    # Section 4.1, all of it: 30K steps of 256 rows of at most 512 tokens from RoBERTa-base, 1e-4, betas, epsilon,
    # decay, 500 steps of warm-up, linear decay, dropout 0.1.
    corpus=replace(_ONE_DOCUMENT, length=512, eval_rows=2048),
    model=replace(_BERT_BASE.model, attention="sdpa", architecture="roberta", dropout=0.1, start_from="roberta-base"),
    # Section 3.1: views. Section 3.2: masked as BERT; Eq. 4; Eq. 5 and 6 of unmasked text; Eq. 7, learned weights.
    objective=replace(
        MASKED_LM,
        name="cline",
        cline=ClineConfig(original="clean", views=override(ViewsConfig(), ["preset=paper"])),
    ),
    optimizer=OptimizerConfig(learning_rate=1e-4, warmup_steps=500, epsilon=1e-8),
    train=TrainConfig(
        steps=30_000, batch_size=256, precision="auto", log_every=100, eval_every=1_000, save_every=1_000
    ),
)
_CLINE_BERT_BASE = replace(
    _CLINE_ROBERTA_BASE,
    preset="cline-bert-base",
    # Table 7: CLINE-B "trained from the BERT-base model", without specific numbers. Uncased is ours.
    model=replace(_CLINE_ROBERTA_BASE.model, architecture="bert", start_from="bert-base-uncased"),
)
CONTINUE = PretrainConfig(
    preset="continue",
    # Zhang et al. 2023, section 4.1: base models continue with 5e-5.
    optimizer=OptimizerConfig(learning_rate=5e-5, warmup_steps=100),
    train=TrainConfig(steps=10_000, precision="auto"),
)
"""Default configuration of a run that continues a checkpoint and names no preset."""

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
        _MODERNBERT_STAGED,
        _MMBERT_STAGED,
        _TN_ELECTRA_SMALL,
        _TN_ELECTRA_SMALL_512,
        _TN_ELECTRA_BASE,
        _TN_BERT_BASE,
        _TN_BERT_LARGE,
        _CLINE_BERT_BASE,
        _CLINE_ROBERTA_BASE,
    )
}


@dataclass(frozen=True)
class Published:
    """What a preset's paper reports besides its options."""

    source: str
    text: str = ""
    """Training corpus; empty where that does not matter here."""
    hours: str = ""
    """Time that the paper reports."""


_ZHANG, _WANG = "Zhang et al. 2023, section 4.1", "Wang et al. 2021, section 4.1"
_BOOKS = "Wikipedia and BooksCorpus"
PUBLISHED = {
    "electra-tiny": Published("ours, for tests"),
    "electra-mini": Published("ours, for small machines"),
    "electra-small": Published("Clark et al. 2020, Table 6", _BOOKS, "4 days on one GPU (abstract)"),
    "electra-base": Published("Clark et al. 2020, Table 6", _BOOKS),
    "electra-large": Published("Clark et al. 2020, Table 6", "that of XLNet"),
    "bert-base": Published("Devlin et al. 2019, appendix A.2", _BOOKS),
    "bert-large": Published("Devlin et al. 2019, appendix A.2", _BOOKS),
    "modernbert-base": Published("Warner et al. 2024, with rows, steps and batch of ours"),
    "modernbert-base-staged": Published("Warner et al. 2024, Table 3, and the configurations of its repository"),
    "mmbert-base-staged": Published("Marone et al. 2025 and the configurations of its repository"),
    "tn-electra-small": Published(_ZHANG, "OpenWebText"),
    "tn-electra-small-512": Published(f"{_ZHANG}, footnote 8", "OpenWebText"),
    "tn-electra-base": Published(_ZHANG, _BOOKS),
    "tn-bert-base": Published(
        _ZHANG,
        _BOOKS,
        "100 h, with hard correction 102 h, with soft regularization 101 h, on one machine with V100s (section 5)",
    ),
    "tn-bert-large": Published(_ZHANG, _BOOKS),
    "cline-bert-base": Published(f"{_WANG} and Table 7", "BookCorpus and English Wikipedia"),
    "cline-roberta-base": Published(_WANG, "BookCorpus and English Wikipedia"),
}
"""Source of each preset's numbers, by its name."""


def preset(name: str) -> PretrainConfig:
    """Look up a preset.

    Raises:
        ConfigError: for an unknown name, suggesting the closest one.

    Example:
        >>> preset("electra-small").model.hidden_size
        256
    """
    if name not in PRESETS:
        raise ConfigError(unknown_name("preset", name, PRESETS))
    return PRESETS[name]
