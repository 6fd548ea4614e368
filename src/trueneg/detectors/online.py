"""Scorers in training: mispredictions are scored as text, in one batch per step."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.rowtext import RowText, TokenText, are_alike, substitution_kinds
from trueneg.detectors.scorers.base import Substitution, SubstitutionScorer


class OnlineDetector(Detector):
    """Credit is a scorer's acceptance of each misprediction in its sentence if it accepts it, else 0.

    Only plausible substitutions are scored: a whole word for a whole word, both alphabetic, of three letters or more,
    no stop words, and of the same prefix and casing. The scorer reads the row's own text around the word, without
    masks, within its document; it may have any tokenizer.

    The scorer blocks training: each step waits until the mispredictions are copied and scored. ``trueneg bench
    overhead`` measures the cost; with an annotated corpus (``trueneg corpus annotate``) it is a gather. Only the
    prediction is proposed.

    Args:
        scorer: Scores words. It is not part of the module and not in checkpoints.
        tokenizer: The corpus's tokenizer.
        context: The maximum number of tokens on either side that the scorer is given; None for the whole document.
    """

    def __init__(
        self, scorer: SubstitutionScorer, tokenizer: PreTrainedTokenizerFast, context: int | None = 48
    ) -> None:
        super().__init__()
        self.scorer = scorer
        self.provenance = dict(scorer.provenance)
        self._context = 1 << 30 if context is None else context
        self._text = TokenText(tokenizer)
        self._kinds: Tensor
        self.register_buffer("_kinds", substitution_kinds(self._text.surfaces), persistent=False)
        self.num_asked = 0
        """Number of substitutions scored so far."""

    def digest(self) -> str:
        """Return the scorer's digest."""
        return self.scorer.digest()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Score all plausible tokens in one call of the scorer."""
        chosen = tokens.reshape(*batch.gold.shape, -1)
        credit = torch.zeros(chosen.shape, dtype=torch.float32)
        at, substitutions = self.questions(gold.reshape(*batch.gold.shape), chosen, batch)
        self.num_asked += len(at)
        if substitutions:
            self.scorer.to(gold.device)
            # The scorer has its own precision, independent of the training step's.
            with torch.autocast(gold.device.type, enabled=False):
                acceptance = self.scorer.acceptance(substitutions)
            credit[at.unbind(1)] = torch.from_numpy(np.where(acceptance >= 0.5, acceptance, 0.0)).to(torch.float32)
        return credit.reshape(tokens.shape).to(gold.device)

    def worth_asking(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Whether each token is plausible and needs a score: bool ``[batch, slots, n]``."""
        gold = gold.unsqueeze(-1)
        is_slot = (batch.is_masked & batch.is_whole_word).unsqueeze(-1)
        return are_alike(self._kinds, gold, tokens) & (gold != tokens) & is_slot

    def questions(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> tuple[Tensor, list[Substitution]]:
        """Places to score, as rows, slots and numbers, int64 ``[n, 3]``, and their substitutions.

        Copying synchronises with the device.
        """
        at = self.worth_asking(gold, tokens, batch).nonzero().cpu()
        if not len(at):
            return at, []
        rows = batch.rows
        ids, segments, is_start, columns, chosen = (
            tensor.cpu().numpy()
            for tensor in (rows.input_ids, rows.segments, rows.is_word_start, batch.positions, tokens)
        )

        @cache  # several words of a document have the same context
        def text(row: int, low: int, high: int) -> RowText:
            return self._text(ids[row, low:high].tolist())

        @cache
        def shown(row: int, column: int) -> tuple[str, int, int]:
            low, high = self._context_of(segments[row], is_start[row], column)
            read = text(row, low, high)
            return read.text, read.starts[column - low], read.ends[column - low]

        return at, [
            Substitution(*shown(row, int(columns[row, slot])), self._text.surfaces[chosen[row, slot, n]].word)
            for row, slot, n in at.tolist()
        ]

    def _context_of(self, segments: np.ndarray, is_start: np.ndarray, at: int) -> tuple[int, int]:
        """The first column of the context of column ``at`` of a row, and the one after the last."""
        document = np.flatnonzero(segments == segments[at])
        first, end = int(document[0]), int(document[-1]) + 1
        low, high = max(first, at - self._context), min(end, at + self._context + 1)
        # A window that begins or ends within a word would show a piece of it as a word.
        while low < at and not is_start[low]:
            low += 1
        while high < end and high > at + 1 and not is_start[high]:
            high -= 1
        return low, high
