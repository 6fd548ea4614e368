"""Objectives: sums of named terms over a batch, with denominators that are known before the forward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError
from trueneg.registry import Registry

if TYPE_CHECKING:
    from trueneg.objectives.kinds import ObjectiveKind

ABOUT = {
    "mlm": "predict masked words, as BERT does; with hard correction and soft regularization",
    "electra": "a generator predicts masked words, the discriminator finds which tokens it replaced",
    "cline": "predict masked words, find replaced ones, and contrast a text with views of it",
}
"""Name to description."""

OBJECTIVES = Registry(
    "objective",
    "objectives",
    {
        "mlm": "trueneg.objectives.mlm:MaskedLMKind",
        "electra": "trueneg.objectives.rtd:ElectraKind",
        "cline": "trueneg.objectives.cline:ClineKind",
    },
    about=ABOUT,
)
"""Name to a subclass of :class:`trueneg.objectives.kinds.ObjectiveKind`."""


def objective_kind(name: str) -> ObjectiveKind:
    """Load the registry entry of an objective.

    Raises:
        ConfigError: for an unknown objective, naming the closest one; for a plugin's that is not an ``ObjectiveKind``.
    """
    kind = OBJECTIVES.load(name)
    if not (isinstance(kind, type) and callable(getattr(kind, "make_objective", None))):
        raise ConfigError(f"objective '{name}' of {OBJECTIVES.origin(name)} is no subclass of ObjectiveKind")
    made: ObjectiveKind = kind()
    return made


def with_objective(config: PretrainConfig, name: str) -> PretrainConfig:
    """Change the objective; another one sets its own masking shares and kind of prediction.

    Raises:
        ConfigError: for an unknown objective.
    """
    defaults, given = objective_kind(name).defaults, config.objective
    if name == given.name:
        return config
    shares = defaults.masking
    masking = replace(given.masking, mask_share=shares.mask_share, random_share=shares.random_share)
    return replace(config, objective=replace(given, name=name, prediction=defaults.prediction, masking=masking))
