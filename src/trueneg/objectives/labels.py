"""Hard correction for any training loop: remove false negatives from the labels of a Hugging Face batch."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg import detectors
from trueneg.config.objective_options import CorrectionConfig
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector
from trueneg.detectors.specification import leaves, parse, takes_forms
from trueneg.errors import ConfigError, ModelError, unknown_name
from trueneg.lexicon.surface import Surface, begins_without_space, surfaces, word_marks
from trueneg.lexicon.table import FORMS
from trueneg.objectives.correction import HardCorrection

IGNORED = -100
"""Label of a position without loss: ``ignore_index`` of ``torch.nn.functional.cross_entropy``."""
_IN_TRAINING_ONLY = ("annotated", "ema")
_BEGINS = {"inside": 0, "start": 1, "bare": 2}
_INSIDE, _START, _BARE, _SPECIAL = range(4)
_ANY = -1


class BatchDetector(nn.Module):
    """A detector and its tokenizer's vocabulary, with which ``correct`` reads batches; see ``make_detector``.

    Args:
        detector: Gives the credit.
        tokenizer: The tokenizer of the batches.
    """

    def __init__(self, detector: Detector, tokenizer: PreTrainedTokenizerFast) -> None:
        super().__init__()
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(f"the tokenizer {type(tokenizer).__name__} is not a fast one: load it with AutoTokenizer")
        self.detector = detector
        entries = surfaces(tokenizer)
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(entries))))
        special = set(tokenizer.all_special_ids)
        marks = word_marks(tokenizer.backend_tokenizer)
        suffix = marks.suffix
        begins = [
            _SPECIAL
            if i in special
            else _BARE
            if suffix
            else _BEGINS["start" if _starts(entry, token, marks.is_sentencepiece) else entry.prefix]
            for i, (entry, token) in enumerate(zip(entries, tokens, strict=True))
        ]
        # Where a suffix marks the ends of words, characters tell nothing. The last entry is for all ids beyond the
        # vocabulary.
        scripts = ([*(_ANY if suffix else _script(entry, edge) for entry in entries), _ANY] for edge in (0, -1))
        ends = [*(bool(suffix) and token.endswith(suffix) for token in tokens), False]
        self._entries: (
            Tensor  # [4, vocab + 1]: how each begins a word, kind of first and last character, if it ends one
        )
        self.register_buffer("_entries", torch.tensor([[*begins, _SPECIAL], *scripts, ends]), persistent=False)

    def read_batch(self, labels: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None) -> MaskedRows:
        """Convert a Hugging Face batch to masked rows with a slot at every token, in use where there is a label.

        Args:
            labels: Gold tokens, int64 ``[batch, length]``; ``IGNORED`` elsewhere.
            input_ids: Masked or original tokens, int64 ``[batch, length]``; gold is restored where there is a label.
            attention_mask: 0 at padding, ``[batch, length]``; None without padding.
        """
        is_masked = labels != IGNORED
        original = torch.where(is_masked, labels, input_ids)
        segments = torch.ones_like(original) if attention_mask is None else (attention_mask > 0).to(torch.int64)
        begins, first_script, last_script, ends = self._entries[:, original.clamp(max=self._entries.shape[1] - 1)]
        is_special = (begins == _SPECIAL) | (segments == 0)
        # A word without a space before it begins after a special token, after the end of another word, or between
        # letters, digits and others.
        before = last_script[:, :-1]
        meets = ((before != first_script[:, 1:]) & (before != _ANY)) | is_special[:, :-1] | (ends[:, :-1] > 0)
        meets = nn.functional.pad(meets, (1, 0), value=True)
        is_word_start = ((begins == _START) | ((begins == _BARE) & meets)) & ~is_special
        is_whole_word = is_word_start & nn.functional.pad((is_word_start | is_special)[:, 1:], (0, 1), value=True)
        rows = Rows(
            input_ids=original,
            segments=segments,
            is_special=is_special,
            is_word_start=is_word_start,
            is_whole_word=is_whole_word,
            keys=example_keys(0, torch.arange(len(original), device=original.device)),
        )
        columns = torch.arange(original.shape[1], device=original.device).expand_as(original)
        draws = torch.zeros(original.shape, device=original.device)
        return MaskedRows(rows, input_ids, columns, original, is_masked, is_whole_word, draws)


def make_detector(
    specification: str, tokenizer: PreTrainedTokenizerFast, *, forms: str = "", wordnet: str = ""
) -> BatchDetector:
    """Make the detector that a specification describes, for batches of a tokenizer.

    Args:
        specification: Such as ``"lexical"`` or ``"prototypes:FILE@0.62 & fits"`` (docs/detectors.md).
        tokenizer: The fast tokenizer that the batches are made with.
        forms: Table of a ``lexical`` without ``[forms=…]``: ``retrieved`` for the paper's table, ``agree`` (default)
            for synonyms in gold's own form, ``lemma`` for base forms.
        wordnet: WordNet's folder; empty to search the usual places.

    Raises:
        ConfigError: for a malformed specification, an unknown name, a detector that needs trueneg's own training, or
            ``forms`` that no part of the detector uses.
        LexiconError, ModelError: if a file or model that it needs is missing.
    """
    for leaf in leaves(parse(specification)):
        if leaf.name in _IN_TRAINING_ONLY:
            raise ConfigError(f"detector '{leaf.text}' needs 'trueneg pretrain': use another one in a loop of your own")
    if forms and not takes_forms(specification):
        raise ConfigError(f"forms={forms} does nothing: '{specification}' has no 'lexical' without forms of its own")
    forms = forms or FORMS[0]
    if forms not in FORMS:
        raise ConfigError(unknown_name("forms", forms, FORMS))
    config = CorrectionConfig(detector=specification, forms=forms, wordnet=wordnet)
    return BatchDetector(detectors.make_detector(config, tokenizer), tokenizer)


@torch.no_grad()
def correct(
    logits: Tensor,
    labels: Tensor,
    detector: str | Detector | BatchDetector,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> Tensor:
    """Remove false negatives from masked-LM labels: hard correction (Zhang et al. 2023, Eq. 2) in any training loop.

    With gold token w, the model's best guess r = argmax of the logits and the detector's credit c(w, r), a label
    becomes -100 where r differs from w and c >= 1/2; all others are unchanged. Use the result in place of the labels::

        labels = trueneg.correct(logits, labels, detector, input_ids, attention_mask)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    ``cross_entropy`` divides by the number of labels that remain, as the paper's App. A does; it is NaN if none do. To
    divide by all masked positions, as ``HardCorrection`` does by default, use ``reduction="sum"`` and divide by the
    number of labels before correction.

    Args:
        logits: Logits for the masked text, ``[batch, length, vocab]``, of any floating-point type.
        labels: Gold tokens at masked positions, int64 ``[batch, length]``; -100 where there is no loss.
        detector: From ``make_detector``, or a specification such as ``"lexical"``, which needs ``tokenizer``.
        input_ids: The masked tokens that the model read, or the original ones, int64 ``[batch, length]``.
        attention_mask: 0 at padding, ``[batch, length]``; not needed for a batch without padding.
        tokenizer: The fast tokenizer that the batch was made with. Only whole words are corrected, and the
            tokenizer defines words; a word cut by truncation counts as whole.

    Returns:
        Corrected labels, int64 ``[batch, length]``.

    Raises:
        ConfigError: for an unknown detector, tensors whose shapes do not agree, or a missing tokenizer.
    """
    _check_shapes(logits, labels, input_ids, attention_mask)
    reader = _reader_of(detector, tokenizer)
    if reader._entries.device != logits.device:
        reader.to(logits.device)
    batch = reader.read_batch(labels, input_ids, attention_mask)
    credit, _ = HardCorrection(reader.detector).assess(logits.argmax(-1), batch)
    return labels.masked_fill(credit >= 0.5, IGNORED)


def _check_shapes(logits: Tensor, labels: Tensor, input_ids: Tensor, attention_mask: Tensor | None) -> None:
    """Refuse tensors that do not belong to one batch.

    Raises:
        ConfigError: naming the tensor and its shape.
    """
    if logits.dim() != 3:
        raise ConfigError(f"logits must be [batch, length, vocabulary], got {list(logits.shape)}")
    for name, tensor in {"labels": labels, "input_ids": input_ids, "attention_mask": attention_mask}.items():
        if tensor is not None and tensor.shape != logits.shape[:2]:
            raise ConfigError(f"{name} must be {list(logits.shape[:2])} as logits, got {list(tensor.shape)}")
        if tensor is not None and name != "attention_mask" and tensor.dtype != torch.int64:
            raise ConfigError(f"{name} must be int64, got {tensor.dtype}")


def _reader_of(detector: str | Detector | BatchDetector, tokenizer: PreTrainedTokenizerFast | None) -> BatchDetector:
    """Return the ``BatchDetector`` of a detector; those of the last detectors are cached."""
    if isinstance(detector, BatchDetector):
        return detector
    if tokenizer is None:
        raise ConfigError(
            "correct needs to know the batch's tokenizer: give tokenizer=, or a detector from trueneg.make_detector"
        )
    return _made_once(detector, tokenizer)


@lru_cache(maxsize=4)
def _made_once(detector: str | Detector, tokenizer: PreTrainedTokenizerFast) -> BatchDetector:
    if isinstance(detector, str):
        return make_detector(detector, tokenizer)
    return BatchDetector(detector, tokenizer)


def _starts(entry: Surface, token: str, is_sentencepiece: bool) -> bool:
    """Return whether a token begins a word: the space before it without text of its own, or SentencePiece's marks."""
    if not entry.word:
        return token.startswith(("\u0120", "\u2581"))
    return is_sentencepiece and entry.prefix == "inside" and begins_without_space(entry.word)


def _script(entry: Surface, edge: int) -> int:
    """Return the kind of an entry's first or last character: 0 letter, 1 digit, 2 other, -1 unknown."""
    if not entry.word:
        return _ANY
    character = entry.word[edge]
    return 0 if character.isalpha() else 1 if character.isnumeric() else 2
