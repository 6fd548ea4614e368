"""Annotate a corpus with the substitutes that a detector proposes for every word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from trueneg.corpus.annotate import Accepted
from trueneg.corpus.rows import RowBatch
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors import make_detector
from trueneg.detectors.base import Detector
from trueneg.detectors.specification import Resources, leaves, parse
from trueneg.errors import ConfigError


class DetectorAnnotator:
    """Lists the substitutes with a credit of at least 1/2 that a detector proposes for the whole words of rows.

    Args:
        detector: A detector that lists substitutes.
        name: Its specification, which annotations record.
        device: Device that it runs on.
    """

    def __init__(self, detector: Detector, name: str, device: str = "cpu") -> None:
        self.detector = name
        self.provenance = dict(detector.provenance)
        self._device = torch.device(device)
        self._detector = detector.to(self._device).eval()

    @torch.no_grad()
    def __call__(self, batch: RowBatch) -> Accepted:
        """List the accepted substitutes."""
        words = _every_word(batch, self._device)
        _, tokens, acceptance = self._detector.propose(words.gold, words.gold, words)
        is_accepted = (acceptance >= 0.5) & words.is_masked.unsqueeze(-1) & (tokens != words.gold.unsqueeze(-1))
        row, slot, _ = is_accepted.nonzero(as_tuple=True)
        found = (row, words.positions[row, slot], tokens[is_accepted], acceptance[is_accepted])
        return Accepted(*(values.cpu().numpy() for values in found))


def _every_word(batch: RowBatch, device: torch.device) -> MaskedRows:
    """Unmasked rows with a slot for each whole word."""
    rows = Rows(
        input_ids=torch.from_numpy(batch.input_ids),
        segments=torch.from_numpy(batch.segments.astype(np.int64)),
        is_special=torch.from_numpy(batch.is_special),
        is_word_start=torch.from_numpy(batch.is_word_start),
        is_whole_word=torch.from_numpy(batch.is_whole_word),
        keys=torch.zeros(len(batch.input_ids), dtype=torch.int64),
    ).to(device)
    num_slots = max(1, int(rows.is_whole_word.sum(1).max()))
    positions = rows.is_whole_word.int().argsort(dim=1, descending=True, stable=True)[:, :num_slots]
    is_word = rows.is_whole_word.gather(1, positions)
    gold = rows.input_ids.gather(1, positions)
    return MaskedRows(rows, rows.input_ids, positions, gold, is_word, is_word, torch.zeros(gold.shape, device=device))


def make_annotator(specification: str, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> DetectorAnnotator:
    """Make the annotator of a detector that lists substitutes, such as ``prototypes:FILE@0.5 & fits``.

    For ``a & b & …`` the first part that can list does so, and the others credit its list. For ``a | b`` both list.

    Raises:
        ConfigError: for a detector that lists nothing, such as ``contextual`` by itself, which only scores given pairs;
            or one that needs more than text.
        LexiconError, ModelError: if a file or model that it needs is missing.
    """
    for leaf in leaves(parse(specification)):
        if leaf.name in ("annotated", "ema"):
            raise ConfigError(f"--detector {specification}: '{leaf.name}' cannot annotate a corpus: name another")
    detector = make_detector(specification, tokenizer, replace(resources, annotates=True))
    if not detector.lists:
        raise ConfigError(
            f"--detector {specification} only scores given pairs: say what lists them, as 'prototypes:FILE@0.5 & "
            f"{specification}' or 'lexical & {specification}'"
        )
    return DetectorAnnotator(detector, specification, resources.device)
