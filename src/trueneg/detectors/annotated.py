"""Credit from annotations, position by position: precomputed, so that training only looks it up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import override
from trueneg.config.mixtures import without_places
from trueneg.config.options import PretrainConfig
from trueneg.corpus.annotations import FULL, AnnotationsInfo
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals
from trueneg.detectors.scorers.base import acceptance
from trueneg.detectors.specification import Leaf, Resources, leaves, parse
from trueneg.errors import ConfigError, ModelError
from trueneg.tokenizer import fingerprint


class AnnotatedDetector(Detector):
    """Credit that ``trueneg corpus annotate`` stored for each position.

    The lists come with the rows, so the corpus must be read with its annotations
    (``RowIndex(..., annotations=...)``); a run does that if its detector names any.

    Args:
        info: The annotations' metadata; None if unknown.
        threshold: The stored credit that counts as 1/2 (``scorers.base.acceptance``); less counts as 0. Above 1/2 it is
            stricter than the annotator was. Credit is stored in steps of 1/255.
    """

    def __init__(self, info: AnnotationsInfo | None = None, threshold: float = 0.5) -> None:
        super().__init__()
        self.provenance: dict[str, str] = {"threshold": str(threshold)}
        if info is not None:
            self.provenance |= {"annotations": info.fingerprint, "annotator": info.detector, **info.provenance}
        credit = acceptance(np.arange(FULL + 1) / FULL, threshold)
        credit[credit < 0.5] = 0  # not accepted
        credit[0] = 0  # nothing listed
        self._credit: Tensor
        self.register_buffer("_credit", torch.from_numpy(credit.astype(np.float32)), persistent=False)

    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Look up each token in the list of its position: 0 if it is not listed."""
        listed, stored = _listed(batch)
        chosen = tokens.reshape(*gold.shape[:2], -1)
        is_it = listed.unsqueeze(-2) == chosen.unsqueeze(-1)
        return self._credit[(stored.unsqueeze(-2) * is_it).amax(-1).to(torch.int64)].reshape(tokens.shape)

    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List all stored substitutes."""
        listed, stored = _listed(batch)
        tokens = torch.where(stored > 0, listed.to(torch.int64), gold.unsqueeze(-1))
        return Proposals(self.credit(gold, predicted, batch), tokens, self._credit[stored.to(torch.int64)])


def _listed(batch: MaskedRows) -> tuple[Tensor, Tensor]:
    """Substitutes and stored credit at the masked positions, int32 and uint8 ``[batch, slots, width]``."""
    listed = batch.rows.substitutes
    if listed is None:
        raise ConfigError(
            "the detector 'annotated' needs rows of an annotated corpus, and these carry no annotations: "
            "it serves pre-training on the corpus that was annotated; elsewhere name another detector"
        )
    row = torch.arange(len(batch.positions), device=batch.positions.device).unsqueeze(1)
    return listed.tokens[row, batch.positions], listed.credit[row, batch.positions]


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> AnnotatedDetector:
    """Look up the substitutes that `trueneg corpus annotate` stored: annotated:FOLDER or annotated:FOLDER@THRESHOLD.

    Raises:
        ConfigError: without a folder.
        CorpusError: if the folder contains no finished annotations.
        ModelError: if they were made with another tokenizer.
    """
    leaf.check(argument=True, what="FOLDER")
    info = AnnotationsInfo.read(leaf.argument)
    if (given := fingerprint(tokenizer)) != info.tokenizer_fingerprint:
        raise ModelError(
            f"the annotations '{leaf.argument}' are of tokenizer {info.tokenizer_fingerprint}, not {given}: "
            f"annotate a corpus of this tokenizer"
        )
    return AnnotatedDetector(info, leaf.threshold_or(0.5))


def annotations_of(config: PretrainConfig) -> list[Path]:
    """Return the folders of annotations that a run's detector reads: one, or one per corpus of a mixture.

    A row has the lists of its own corpus, so ``annotated:A | annotated:B`` looks up every row in the right one.

    Raises:
        ConfigError: if several have different thresholds.

    Example:
        >>> from trueneg.config.codec import override
        >>> [folder.name for folder in annotations_of(override(PretrainConfig(), ["detector=annotated:a|annotated:b"]))]
        ['a', 'b']
    """
    detector = config.objective.correction.detector
    folders = _folders(detector)
    if len(folders) > 1 and len({leaf.threshold_or(0.5) for leaf in _annotated(detector)}) > 1:
        raise ConfigError(
            f"objective.correction.detector={detector}: each row has the lists of its own corpus, which all these "
            f"thresholds would apply to: give every annotated:FOLDER the same"
        )
    return [Path(folder) for folder in sorted(folders)]


def without_folders(detector: str) -> str:
    """Return a detector's specification without the folders of its annotations.

    Example:
        >>> without_folders("annotated:some/notes@0.6 & !antonym"), without_folders('annotated:"R & D/notes"')
        ('annotated:@0.6 & !antonym', 'annotated:')
    """
    for folder in sorted(_folders(detector), key=len, reverse=True):  # one may be the beginning of another
        for written in (f'"{folder}"', folder):
            detector = re.sub(rf"annotated:\s*{re.escape(written)}", "annotated:", detector)
    return detector


def movable(config: PretrainConfig) -> PretrainConfig:
    """Return the configuration without the locations of annotations and corpora, whose fingerprints are compared."""
    if config.corpus.mixture:
        config = replace(config, corpus=replace(config.corpus, mixture=without_places(config.corpus.mixture)))
    return override(config, [f"objective.correction.detector={without_folders(config.objective.correction.detector)}"])


def _folders(detector: str) -> set[str]:
    return {leaf.argument for leaf in _annotated(detector)}


def _annotated(detector: str) -> list[Leaf]:
    named = [leaf for leaf in leaves(parse(detector)) if leaf.name == "annotated"] if detector else []
    for leaf in named:
        leaf.check(argument=True, what="FOLDER")
    return named
