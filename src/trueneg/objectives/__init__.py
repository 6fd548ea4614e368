"""Objectives: sums of named terms over a batch, with denominators that are known before the forward pass."""

OBJECTIVES = {
    "mlm": "trueneg.objectives.mlm:from_config",
    "electra": "trueneg.objectives.rtd:from_config",
    "cline": "trueneg.objectives.cline:from_config",
}
"""Name to a function of (objective's configuration, tokenizer, vocabulary size) that makes the objective."""
