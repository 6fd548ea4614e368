"""Detectors: how acceptable a prediction is where it stands, as credit in [0, 1]."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from trueneg.config import CorrectionConfig
from trueneg.detectors.base import Detector
from trueneg.registry import load

DETECTORS = {"lexical": "trueneg.detectors.lexical:from_config"}
"""Name to a function of (correction's configuration, tokenizer) that makes the detector."""


def make_detector(config: CorrectionConfig, tokenizer: PreTrainedTokenizerFast) -> Detector:
    """Make the detector that a configuration names.

    Raises:
        ConfigError: for an unknown name.
        LexiconError: if it needs a lexicon that is not there.
    """
    detector: Detector = load("detector", config.detector, DETECTORS)(config, tokenizer)
    return detector
