"""Judgement while training: mispredictions put to a judge of words, as text, in one batch a step."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.masking import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.judge import Judge, Substitution
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import Surface, surfaces

MIN_LETTERS = 3


class OnlineDetector(Detector):
    """Credit is a judge's acceptance of each misprediction in its sentence, where it accepts it; else 0.

    Only what can be right is put to the judge: a whole word for a whole word, both alphabetic, of three letters or
    more, no stop words, and of one prefix and casing. It reads the row's own text around the word, without masks,
    within its document; the judge's tokenizer may be any.

    The judge runs on the host's time: each step waits for the mispredictions to be copied and read, which costs what
    ``trueneg bench overhead`` says. A corpus that is annotated beforehand (``trueneg corpus annotate``) costs a
    gather.

    Args:
        judge: Of words. It is no part of the model: it has no place in checkpoints.
        tokenizer: The corpus's.
        context: Most tokens of the row on either side that the judge is given.
    """

    def __init__(self, judge: Judge, tokenizer: PreTrainedTokenizerFast, context: int = 48) -> None:
        super().__init__()
        self.judge = judge
        self.provenance = dict(judge.provenance)
        self._tokenizer = tokenizer
        self._context = context
        self._surfaces = surfaces(tokenizer)
        self._kinds: Tensor
        self.register_buffer("_kinds", substitution_kinds(self._surfaces), persistent=False)
        self.num_asked = 0
        """Mispredictions put to the judge so far."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Ask the judge about each misprediction that could be right."""
        credit = torch.zeros(gold.shape, dtype=torch.float32)
        asked = self.worth_asking(gold, predicted, place).nonzero().cpu()
        self.num_asked += len(asked)
        if len(asked):
            self.judge.to(gold.device)
            acceptance = torch.from_numpy(self.judge.acceptance(self._substitutions(asked, predicted, place))).float()
            credit[asked[:, 0], asked[:, 1]] = acceptance * (acceptance >= 0.5)
        return credit.to(gold.device)

    def worth_asking(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        """Which mispredictions could be right at all: bool ``[batch, slots]``."""
        known = len(self._kinds)
        kind = self._kinds[gold.clamp(max=known - 1)]
        is_alike = (kind >= 0) & (kind == self._kinds[predicted.clamp(max=known - 1)]) & (predicted < known)
        return is_alike & (gold != predicted) & place.is_masked & place.is_whole_word

    def _substitutions(self, asked: Tensor, predicted: Tensor, place: MaskedRows) -> list[Substitution]:
        ids, segments = place.rows.input_ids.cpu(), place.rows.segments.cpu()
        is_special, is_start = place.rows.is_special.cpu(), place.rows.is_word_start.cpu()
        positions, tokens = place.positions.cpu(), predicted.cpu()
        found = []
        for row, slot in asked.tolist():
            at = int(positions[row, slot])
            low, high = max(0, at - self._context), at + self._context + 1
            inside = (segments[row, low:high] == segments[row, at]) & ~is_special[row, low:high]
            # A window that begins or ends within a word would show a piece of it as a word.
            before = (inside[: at - low].nonzero().flatten() + low).tolist()
            while before and before[0] > 0 and not is_start[row, before[0]]:
                before = before[1:]
            after = (inside[at - low + 1 :].nonzero().flatten() + at + 1).tolist()
            found.append(
                self._substitution(
                    ids[row, before].tolist(), int(ids[row, at]), ids[row, after].tolist(), int(tokens[row, slot])
                )
            )
        return found

    def _substitution(self, before: list[int], gold: int, after: list[int], predicted: int) -> Substitution:
        left, right = self._decode(before), self._decode(after)
        word, other = self._surfaces[gold].word, self._surfaces[predicted].word
        # Decoding drops the space at the edges of a text, and a whole word has one on its left.
        left = f"{left.rstrip()} " if left.strip() else ""
        gap = " " if right[:1].isalnum() else ""
        return Substitution(left + word + gap + right, len(left), len(left) + len(word), other)

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)) if ids else ""


def substitution_kinds(entries: list[Surface]) -> Tensor:
    """The kind of each entry, int64 ``[vocab]``: entries of one kind may stand for one another; -1 for none."""
    names: dict[tuple[str, str], int] = {}
    kinds = torch.full((len(entries),), -1)
    for token, surface in enumerate(entries):
        word = surface.word.lower()
        is_word = len(word) >= MIN_LETTERS and word.isalpha() and word not in STOP_WORDS
        if surface.starts_word and surface.casing != "mixed" and is_word:
            kinds[token] = names.setdefault((surface.prefix, surface.casing), len(names))
    return kinds
