"""A masked language model as scorer: it reads the unmasked sentence and predicts what else could be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.arithmetic import reading_autocast
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.models.backbone import MaskedLanguageModel, max_length
from trueneg.models.loading import load_trained_masked_lm, resolve_checkpoint
from trueneg.models.reading import Span, SpanReader, weights_digest
from trueneg.tokenizer import load_tokenizer, special_ids

OPTIONS = ("window",)


class TeacherScorer(SubstitutionScorer):
    """Probability of the substitute relative to that of both: p(substitute) / (p(substitute) + p(word)).

    The teacher reads the unmasked text, so that it knows the meaning, and its distribution at the word is over what
    could be said instead. The score is the likelihood ratio p(substitute) / p(word) on a scale from 0 to 1, so a ratio
    of at least r is a score of at least r / (1 + r).

    If either has several pieces, both are scored by the mean log probability of their pieces with as many mask tokens
    in the word's place: one distribution cannot score a word of another length. The score is 0 if a piece of either
    word is unknown to the teacher's tokenizer.

    Args:
        model: A masked language model.
        reader: Reads texts with its tokenizer.
        threshold: The acceptance threshold.
    """

    def __init__(self, model: MaskedLanguageModel, reader: SpanReader, name: str, threshold: float = 0.5) -> None:
        self.model = model.eval()
        self.reader = reader
        self.threshold = threshold
        self.provenance = {"teacher": name, "window": str(reader.window)}
        mask_id = special_ids(reader.tokenizer)["mask"]
        assert mask_id is not None, "load_tokenizer lets no tokenizer without a mask token pass"
        self._mask_token = str(reader.tokenizer.convert_ids_to_tokens(mask_id))

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """Score each substitution."""
        return np.asarray(np.exp(-np.logaddexp(0, -self.log_ratios(substitutions))))

    def log_ratios(self, substitutions: Sequence[Substitution]) -> NDArray[np.float64]:
        """Log p(substitute) - log p(word), float64 ``[n]``, in nats; -inf where either is unknown to the teacher."""
        ratios = np.full(len(substitutions), -np.inf)
        seen: dict[Span, list[tuple[int, list[int], list[int]]]] = {}
        masked: dict[Span, list[tuple[int, list[int], float]]] = {}
        pieces = cache(self._pieces)
        for n, s in enumerate(substitutions):
            has_space = s.text[: s.start][-1:].isspace()
            word, other = pieces(s.target, has_space), pieces(s.substitute, has_space)
            if not word or not other:
                continue
            if len(word) == len(other) == 1:
                seen.setdefault((s.text, s.start, s.end), []).append((n, word, other))
                continue
            ratios[n] = 0.0
            for ids, sign in ((other, 1.0), (word, -1.0)):
                masks = self._mask_token * len(ids)
                text = s.text[: s.start] + masks + s.text[s.end :]
                masked.setdefault((text, s.start, s.start + len(masks)), []).append((n, ids, sign))
        for span, found in self._log_probabilities(list(seen)):
            for n, word, other in seen[span]:
                ratios[n] = float(found[0, other[0]] - found[0, word[0]])
        for span, found in self._log_probabilities(list(masked)):
            for n, ids, sign in masked[span]:
                # A word longer than the window is scored by its beginning.
                num = min(len(ids), len(found))
                ratios[n] += sign * float(found[np.arange(num), ids[:num]].mean())
        return ratios

    def _log_probabilities(self, spans: Sequence[Span]) -> Iterator[tuple[Span, NDArray[np.float32]]]:
        """Yield log probabilities at the pieces of each span's word, float32 ``[pieces, vocab]``, if it has any."""
        device = next(self.model.parameters()).device
        for chosen, read in self.reader.batches(spans, device):
            given = {"input_ids": read.input_ids.to(device), "attention_mask": read.attention_mask.to(device)}
            with torch.no_grad():
                with reading_autocast(device):
                    hidden = self.model.model.base_model(**given, return_dict=True).last_hidden_state
                # In bfloat16, a logit of 16 has a resolution of 1/8: a tenth of a likelihood ratio.
                logits = self.model.logits(hidden[read.is_word.to(device)].float())
                found = logits.log_softmax(-1).cpu()
            counts: list[int] = read.is_word.sum(1).tolist()
            for number, part in zip(chosen.tolist(), found.split(counts), strict=True):
                if len(part):
                    yield spans[number], part.numpy()

    def _pieces(self, word: str, has_space: bool) -> list[int]:
        """Token ids of a word in a text, after a space or not; empty if one of them is unknown."""
        tokenizer = self.reader.tokenizer
        ids = [int(i) for i in tokenizer(f" {word}" if has_space else word, add_special_tokens=False)["input_ids"]]
        return [] if tokenizer.unk_token_id in ids else ids

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of texts and words cut to the window, and of words without tokens."""
        return dict(self.reader.counts)

    def reads(self) -> tuple[object, ...]:
        """The teacher's digest and window."""
        return weights_digest(self.model, self.reader.tokenizer), self.reader.window

    def to(self, device: torch.device) -> None:
        """Move the teacher."""
        self.model.to(device)


def make_scorer(leaf: Leaf, resources: Resources) -> TeacherScorer:
    """Accept what a masked model that sees the sentence finds likely: teacher:MASKED_LM[window=128]."""
    leaf.check(argument=True, options=OPTIONS, what="MASKED_LM, a checkpoint or a hub name")
    tokenizer = load_tokenizer(resolve_checkpoint(leaf.argument))
    model = load_trained_masked_lm(leaf.argument, tokenizer).to(resources.device)
    model.requires_grad_(False)
    window = min(leaf.count("window", 128, min=8), max_length(model.model))
    threshold = leaf.threshold_or(0.5)
    return TeacherScorer(model, SpanReader(tokenizer, window), leaf.argument, threshold)
