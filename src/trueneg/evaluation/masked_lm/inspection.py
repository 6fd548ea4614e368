"""A model's predictions for the words of a text, and the scores that detectors give them (the papers' Figure 3)."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import Rows
from trueneg.detectors import make_scorer
from trueneg.detectors.rowtext import substitution_kinds
from trueneg.detectors.scorers.base import Substitution
from trueneg.detectors.specification import Resources, leaves, parse
from trueneg.errors import ConfigError, LexiconError, TruenegWarning
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import Surface, casing, surfaces
from trueneg.lexicon.table import FORMS, Forms, LookupTable, cached_table
from trueneg.models.backbone import MaskedLanguageModel, max_length
from trueneg.models.loading import load_trained_masked_lm, resolve_checkpoint
from trueneg.tokenizer import load_tokenizer, special_ids
from trueneg.training.distributed import choose_device
from trueneg.version import __version__

BATCH_SIZE = 32


@dataclass(frozen=True)
class Verdict:
    """A detector's score for a prediction."""

    score: float | None
    """In [0, 1]; None where the prediction is not a word."""
    is_accepted: bool
    """Whether the score reaches the acceptance threshold."""


@dataclass(frozen=True)
class Predicted:
    """One prediction for a masked word."""

    text: str
    pieces: tuple[str, ...]
    probability: float
    """For several word pieces, the product over their masks."""
    is_gold: bool
    is_correctable: bool
    """Whether training would pass it to a detector: a whole word for a whole word, with equal casing, no stop word."""
    verdicts: tuple[Verdict, ...]
    """One per detector; empty for gold."""


@dataclass(frozen=True)
class InspectedWord:
    """A masked word."""

    start: int
    end: int
    gold: str
    pieces: tuple[str, ...]
    """Its tokens, all of which were masked."""
    gold_probability: float
    gold_rank: int | None
    """1 if gold was the most probable; None for several word pieces."""
    predictions: tuple[Predicted, ...]
    """The most probable first."""
    synonyms: tuple[str, ...] | None
    """Synonyms of gold in the lookup table, within the vocabulary; None without WordNet."""
    note: str
    """Why training never corrects this word; empty where it does."""


@dataclass(frozen=True)
class Inspection:
    """A text whose words were masked one at a time."""

    checkpoint: str
    text: str
    detectors: tuple[str, ...]
    thresholds: tuple[float, ...]
    words: tuple[InspectedWord, ...]

    def summary(self) -> dict[str, Any]:
        """Return the inspection as plain data."""
        return {"version": __version__, **dataclasses.asdict(self)}


def inspect_text(
    checkpoint: str,
    text: str,
    *,
    detectors: Sequence[str] = ("lexical",),
    masks: Sequence[str] = (),
    top: int = 5,
    wordnet: str = "",
    device: str = "",
) -> Inspection:
    """Mask the words of a text one at a time, predict them, and score each prediction with detectors.

    All tokens of a word are masked together. A word of several word pieces is predicted as that many, each from its
    own mask: probabilities, also of gold, are products, and the predictions are the most probable combinations.

    Args:
        checkpoint: A run folder (of an ELECTRA run, the generator is used), a Hugging Face folder or a hub name.
        text: The text.
        detectors: Specifications of scorers.
        masks: Words to mask, wherever they occur; by default every word in turn.
        top: Predictions per word.
        wordnet: WordNet's folder; empty to search the usual places.
        device: Device to compute on; by default a GPU if there is one.

    Raises:
        ConfigError: for a text without words, a text too long for the model, a word that is not in it, or a detector
            that scores no words.
        ModelError: for a checkpoint without a masked-LM head.
        LexiconError: if a detector needs WordNet and it is not found.
    """
    where = choose_device(device)
    resources = Resources(wordnet=wordnet, device=str(where))
    scorers = [make_scorer(detector, resources) for detector in detectors]
    tokenizer = load_tokenizer(resolve_checkpoint(checkpoint))
    forms = _forms(detectors)
    read = _MaskableText.of(text, tokenizer, every_word="retrieved" in forms)
    spans = list(dict.fromkeys(span for word in masks for span in read.find(word))) or read.words
    model = load_trained_masked_lm(checkpoint, tokenizer).to(where).eval()
    longest = max_length(model.model)
    if len(read.ids) > longest:
        raise ConfigError(
            f"the text has {len(read.ids):,} tokens, and '{checkpoint}' reads at most {longest:,}: give a shorter one"
        )
    guesses = [guess for part in _batches(sorted(spans)) for guess in _predict(model, read, part, top, where)]
    candidates = [
        Substitution(text, *read.characters(guess.span), word)
        for guess in guesses
        for ids, _ in guess.candidates
        if (word := read.word(ids, guess.span)) is not None and ids != read.gold(guess.span)
    ]
    scores = [scorer.scores(candidates) for scorer in scorers]
    number = {substitution: at for at, substitution in enumerate(candidates)}
    table = _table(tokenizer, wordnet, forms[0])

    def verdicts(substitution: Substitution | None) -> tuple[Verdict, ...]:
        at = None if substitution is None else number[substitution]
        if at is None:
            return tuple(Verdict(None, False) for _ in scorers)
        found = [float(of_scorer[at]) for of_scorer in scores]
        return tuple(Verdict(score, score >= scorer.threshold) for score, scorer in zip(found, scorers, strict=True))

    def described(guess: _Guess) -> InspectedWord:
        (start, end), gold = read.characters(guess.span), read.gold(guess.span)
        predictions = []
        for ids, probability in guess.candidates:
            word = read.word(ids, guess.span)
            pair = None if word is None or ids == gold else Substitution(text, start, end, word)
            predictions.append(
                Predicted(
                    text=word or read.shown(ids),
                    pieces=read.pieces(ids),
                    probability=probability,
                    is_gold=ids == gold,
                    is_correctable=pair is not None and read.is_correctable(gold, ids),
                    verdicts=() if ids == gold else verdicts(pair),
                )
            )
        synonyms = None
        if table is not None:
            listed = table.substitutes(gold[0]) if len(gold) == 1 else []
            synonyms = tuple(sorted(read.surfaces[token].word for token in listed))
        return InspectedWord(
            start=start,
            end=end,
            gold=text[start:end],
            pieces=read.pieces(gold),
            gold_probability=guess.gold_probability,
            gold_rank=guess.gold_rank,
            predictions=tuple(predictions),
            synonyms=synonyms,
            note=read.why_never_corrected(gold),
        )

    thresholds = tuple(float(scorer.threshold) for scorer in scorers)
    return Inspection(checkpoint, text, tuple(detectors), thresholds, tuple(map(described, guesses)))


Span = tuple[int, int]
"""The first token of a word in the text with special tokens, and the one after its last."""

Ids = tuple[int, ...]


@dataclass(frozen=True)
class _Guess:
    """A model's predictions for one masked word."""

    span: Span
    gold_probability: float
    gold_rank: int | None
    candidates: tuple[tuple[Ids, float], ...]


@dataclass(frozen=True)
class _MaskableText:
    """A text as a model reads it: tokens with special ones, and the spans of its words."""

    text: str
    tokenizer: PreTrainedTokenizerFast
    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[Span]
    surfaces: list[Surface]
    kinds: list[int]

    @classmethod
    def of(cls, text: str, tokenizer: PreTrainedTokenizerFast, *, every_word: bool = False) -> _MaskableText:
        roles = special_ids(tokenizer)
        mask = str(tokenizer.mask_token)
        if mask in text:
            raise ConfigError(f"the text holds {mask}: write the word that belongs there, and name it with --mask")
        encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        entries = surfaces(tokenizer)
        ids = [int(token) for token in encoding["input_ids"]]
        offsets = [(-1, -1), *((int(a), int(b)) for a, b in encoding["offset_mapping"]), (-1, -1)]
        words: list[Span] = []
        numbers = encoding.word_ids()
        for at, token in enumerate(ids, start=1):
            # Without a pre-tokenizer, as in some SentencePiece models, the library treats the whole text as one word.
            begins = at == 1 or numbers[at - 1] != numbers[at - 2] or _begins(tokenizer, token)
            first = at if begins else words.pop()[0]
            words.append((first, at + 1))
        framed = [int(roles["start"] or 0), *ids, int(roles["end"] or 0)]
        kinds = substitution_kinds(entries, every_word=every_word).tolist()
        reading = cls(text, tokenizer, framed, offsets, [], entries, kinds)
        reading.words.extend(span for span in words if re.search(r"\w", reading.covered(span)))
        if not reading.words:
            raise ConfigError("the text has no words: give a sentence to mask words of")
        return reading

    def characters(self, span: Span) -> Span:
        """Return the character span of a word, without the spaces that some tokenizers include."""
        start, end = self.offsets[span[0]][0], self.offsets[span[1] - 1][1]
        covered = self.text[start:end]
        return start + len(covered) - len(covered.lstrip()), end - len(covered) + len(covered.rstrip())

    def covered(self, span: Span) -> str:
        """Return the text of a word."""
        start, end = self.characters(span)
        return self.text[start:end]

    def find(self, word: str) -> list[Span]:
        """Find every occurrence of a word or phrase: the tokens that cover it.

        Raises:
            ConfigError: if the text does not contain it.
        """
        if not word.strip():
            raise ConfigError("--mask is empty: name a word of the text")
        spans = []
        for match in re.finditer(rf"(?<!\w){re.escape(word.strip())}(?!\w)", self.text):
            inside = [at for at, (begin, end) in enumerate(self.offsets) if begin < match.end() and end > match.start()]
            spans.append((inside[0], inside[-1] + 1))
        if not spans:
            known = ", ".join(dict.fromkeys(self.covered(span) for span in self.words))
            raise ConfigError(f"--mask {word}: the text has no such word; its words are {known}")
        return spans

    def gold(self, span: Span) -> Ids:
        """Return the tokens of a word."""
        return tuple(self.ids[slice(*span)])

    def pieces(self, ids: Ids) -> tuple[str, ...]:
        """Return tokens as they are in the vocabulary."""
        return tuple(str(token) for token in self.tokenizer.convert_ids_to_tokens(list(ids)))

    def shown(self, ids: Ids) -> str:
        """Spell tokens that may not form a word."""
        surface = self.surfaces[ids[0]]
        is_plain = len(ids) == 1 and surface.starts_word and surface.word
        return surface.word if is_plain else " ".join(self.pieces(ids))

    def word(self, ids: Ids, span: Span) -> str | None:
        """Decode predicted tokens to the word that detectors score, cased as the text; None if they form no word."""
        parts = [self.surfaces[token] for token in ids]
        if not parts[0].starts_word or not all(re.search(r"\w", part.word) for part in parts):
            return None
        word, gold = self._decoded(ids), self.covered(span)
        if self._decoded(self.gold(span)) == gold.lower() != gold:  # a vocabulary without capitals
            return {"title": str.capitalize, "upper": str.upper}.get(casing(gold), str)(word)
        return word

    def _decoded(self, ids: Ids) -> str:
        return str(self.tokenizer.decode(list(ids))).strip()

    def is_correctable(self, gold: Ids, predicted: Ids) -> bool:
        """Tell whether training passes this pair to a detector."""
        return not self.why_never_corrected(gold) and self.kinds[gold[0]] == self.kinds[predicted[0]]

    def why_never_corrected(self, gold: Ids) -> str:
        """Return why training passes this word to no detector; empty if it does."""
        if self.tokenizer.unk_token_id in gold:
            return "not in the vocabulary"
        if len(gold) > 1:
            return "training corrects no word of several word pieces"
        if self.surfaces[gold[0]].word.lower() in STOP_WORDS:
            return "training corrects no stop words"
        return "" if self.kinds[gold[0]] >= 0 else "training corrects words of 3 letters or more, and no others"


def _begins(tokenizer: PreTrainedTokenizerFast, token: int) -> bool:
    return str(tokenizer.convert_ids_to_tokens(token)).startswith("▁")


def _forms(detectors: Sequence[str]) -> list[Forms]:
    """Return the tables of synonyms that detectors name, else the default one."""
    named = [leaf.options.get("forms") for text in detectors for leaf in leaves(parse(text)) if leaf.name == "lexical"]
    return [forms for name in named for forms in FORMS if forms == name] or [FORMS[0]]


def _table(tokenizer: PreTrainedTokenizerFast, wordnet: str, forms: Forms) -> LookupTable | None:
    try:
        return cached_table(tokenizer, wordnet=wordnet or None, forms=forms)
    except LexiconError as error:
        if wordnet:
            raise
        warnings.warn(f"no synonyms are shown: {error}", TruenegWarning, stacklevel=3)
        return None


def _batches(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    for start in range(0, len(spans), BATCH_SIZE):
        yield spans[start : start + BATCH_SIZE]


@torch.no_grad()
def _predict(
    model: MaskedLanguageModel, read: _MaskableText, spans: Sequence[Span], top: int, device: torch.device
) -> Iterator[_Guess]:
    """Predict each span, masked in a row of its own."""
    mask = special_ids(read.tokenizer)["mask"]
    ids = torch.tensor(read.ids, device=device).expand(len(spans), -1)
    shown = ids.clone()
    for row, span in enumerate(spans):
        shown[row, slice(*span)] = int(mask or 0)
    no = torch.zeros_like(ids, dtype=torch.bool)
    rows = Rows(ids, torch.ones_like(ids), no, no, no, ids[:, 0], is_full=True)
    hidden = model.encode(shown, rows)
    known = len(read.tokenizer)
    for row, span in enumerate(spans):
        logits = model.logits(hidden[row, slice(*span)]).float()
        probabilities = logits.softmax(-1)
        gold = torch.tensor(read.gold(span), device=device).unsqueeze(-1)
        of_gold = probabilities.gather(1, gold)
        rank = int((probabilities > of_gold).sum()) + 1 if len(gold) == 1 else None
        # Output rows beyond the vocabulary are padding.
        candidates = tuple(_most_probable(probabilities[:, :known], top))
        yield _Guess(span, float(of_gold.prod()), rank, candidates)


def _most_probable(probabilities: Tensor, num: int) -> list[tuple[Ids, float]]:
    """Find the most probable combinations of tokens, one per row of ``[word pieces, vocab]``, rows being independent.

    Prefixes of the best combinations are among the best prefixes, so keeping ``num`` at each row loses none.
    """
    best: list[tuple[Ids, float]] = [((), 1.0)]
    for of_piece in probabilities:
        values, tokens = of_piece.topk(min(num, len(of_piece)))
        longer = [
            ((*ids, token), probability * value)
            for ids, probability in best
            for token, value in zip(tokens.tolist(), values.tolist(), strict=True)
        ]
        best = sorted(longer, key=lambda item: -item[1])[:num]
    return best
