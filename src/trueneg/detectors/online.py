"""Judgement while training: mispredictions put to a judge of words, as text, in one batch a step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.rowtext import TokenText, are_alike, substitution_kinds
from trueneg.detectors.scorers.base import Substitution, SubstitutionScorer


class OnlineDetector(Detector):
    """Credit is a judge's acceptance of each misprediction in its sentence, where it accepts it; else 0.

    Only what can be right is put to the judge: a whole word for a whole word, both alphabetic, of three letters or
    more, no stop words, and of one prefix and casing. It reads the row's own text around the word, without masks,
    within its document; the judge's tokenizer may be any.

    The judge runs on the host's time: each step waits for the mispredictions to be copied and read, which costs what
    ``trueneg bench overhead`` says. A corpus that is annotated beforehand (``trueneg corpus annotate``) costs a
    gather. Of substitutes it lists the prediction only.

    Args:
        scorer: Of words. It is no part of the model: it has no place in checkpoints.
        tokenizer: The corpus's.
        context: Most tokens of the row on either side that the judge is given.
    """

    def __init__(self, scorer: SubstitutionScorer, tokenizer: PreTrainedTokenizerFast, context: int = 48) -> None:
        super().__init__()
        self.scorer = scorer
        self.provenance = dict(scorer.provenance)
        self._context = context
        self._text = TokenText(tokenizer)
        self._kinds: Tensor
        self.register_buffer("_kinds", substitution_kinds(self._text.surfaces), persistent=False)
        self._last: tuple[Tensor, MaskedRows, Tensor] | None = None
        self.num_asked = 0
        """Mispredictions put to the judge so far."""

    def digest(self) -> str:
        """The judge's."""
        return self.scorer.digest()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        """Ask the judge about each misprediction that could be right; about the same predictions only once."""
        # ``substitutes`` asks again for what a step has just been told.
        if self._last is None or self._last[0] is not predicted or self._last[1] is not batch:
            self._last = predicted, batch, self._ask(gold, predicted, batch)
        return self._last[2]

    def worth_asking(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        """Which mispredictions could be right at all: bool ``[batch, slots]``."""
        return are_alike(self._kinds, gold, predicted) & (gold != predicted) & batch.is_masked & batch.is_whole_word

    def questions(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> tuple[Tensor, list[Substitution]]:
        """What the judge is asked: where, as rows and slots int64 ``[n, 2]``, and in which words.

        Copying waits for the device.
        """
        asked = self.worth_asking(gold, predicted, batch).nonzero().cpu()
        if not len(asked):
            return asked, []
        rows = batch.rows
        ids, segments, is_start, at, tokens = (
            tensor.cpu().numpy()
            for tensor in (rows.input_ids, rows.segments, rows.is_word_start, batch.positions, predicted)
        )
        return asked, [
            self._substitution(ids[row], segments[row], is_start[row], int(at[row, slot]), int(tokens[row, slot]))
            for row, slot in asked.tolist()
        ]

    def _ask(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        credit = torch.zeros(gold.shape, dtype=torch.float32)
        asked, substitutions = self.questions(gold, predicted, batch)
        self.num_asked += len(asked)
        if substitutions:
            self.scorer.to(gold.device)
            # A judge has a precision of its own, whatever the step around it is computed in.
            with torch.autocast(gold.device.type, enabled=False):
                acceptance = self.scorer.acceptance(substitutions)
            accepted = np.where(acceptance >= 0.5, acceptance, 0.0)
            credit[asked[:, 0], asked[:, 1]] = torch.from_numpy(accepted).to(torch.float32)
        return credit.to(gold.device)

    def _substitution(
        self, ids: np.ndarray, segments: np.ndarray, is_start: np.ndarray, at: int, predicted: int
    ) -> Substitution:
        """A predicted token in the place of the one in column ``at`` of a row."""
        document = np.flatnonzero(segments == segments[at])
        first, end = int(document[0]), int(document[-1]) + 1
        low, high = max(first, at - self._context), min(end, at + self._context + 1)
        # A window that begins or ends within a word would show a piece of it as a word.
        while low < at and not is_start[low]:
            low += 1
        while high < end and high > at + 1 and not is_start[high]:
            high -= 1
        shown = self._text(ids[low:high].tolist())
        return Substitution(
            shown.text, shown.starts[at - low], shown.ends[at - low], self._text.surfaces[predicted].word
        )
