"""Objectives: sums of named terms over a batch, with denominators that are known before the forward pass."""

from trueneg.registry import Registry

ABOUT = {
    "mlm": "predict masked words, as BERT does; with hard correction and soft regularization",
    "electra": "a generator predicts masked words, the discriminator finds which tokens it replaced",
    "cline": "predict masked words, find replaced ones, and contrast a text with views of it",
}
"""Name to what it is."""

OBJECTIVES = Registry(
    "objective",
    "objectives",
    {
        "mlm": "trueneg.objectives.mlm:from_config",
        "electra": "trueneg.objectives.rtd:from_config",
        "cline": "trueneg.objectives.cline:from_config",
    },
    about=ABOUT,
)
"""Name to a function of (objective's configuration, tokenizer, vocabulary size) that makes the objective."""
