"""Tokenized rows of a question and a window of its context, with character offsets; search for the best spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.errors import ConfigError, ModelError
from trueneg.tasks.base import Encoded
from trueneg.tasks.squad_reading import SquadExample
from trueneg.training.features import Features

NULL = 0
"""The column that stands for "no answer here": a row's first token, [CLS]."""

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

_TEXTS_AT_ONCE = 1000  # Offsets are Python objects, about 120 bytes per token, before they are packed.
_ROWS_AT_ONCE = 128  # About 6 MB are searched at a time, which stay in the processor's cache.


@dataclass(frozen=True, kw_only=True)
class Windows(Encoded):
    """Rows of a question and a window of its context: the rows of an example are consecutive, in order."""

    example: NDArray[np.int64]
    """Index of each row's example, ``[rows]``."""
    offsets: NDArray[np.int32]
    """First character of each token and the one after its last, in its context, ``[tokens, 2]``; -1 for tokens outside
    the context. Empty for training rows."""
    has_most_context: NDArray[np.bool_]
    """``[tokens]``: whether no other window has more context on the token's shorter side; each context token is True in
    exactly one row. Empty for training rows."""


def make_windows(
    examples: Sequence[SquadExample],
    tokenizer: PreTrainedTokenizerFast,
    length: int,
    *,
    stride: int,
    max_question: int,
    is_training: bool,
) -> Windows:
    """Split contexts into windows that start ``stride`` tokens apart, as BERT's code does.

    Each text is tokenized once, however many examples share it. Training rows have targets ``start`` and ``end``: the
    columns of the first and last token that overlap the first answer, or ``NULL`` if the window does not contain the
    whole answer. Counted: ``questions_truncated``; in training also ``left_out`` (examples whose answers
    are not in their context) and ``answers_in_no_window`` (examples all of whose windows have ``NULL``).

    Args:
        examples: Examples to encode.
        tokenizer: Any fast tokenizer; special tokens and token types are those of a pair of texts.
        length: Maximum number of tokens of a row.
        stride: Context tokens from the start of a window to the start of the next.
        max_question: Maximum number of tokens of a question.
        is_training: Whether to make targets; otherwise character offsets are kept.

    Raises:
        ConfigError: if a question leaves no room for its context.
    """
    template = _Template.of(tokenizer)
    questions = _tokenize((example.question.strip() for example in examples), tokenizer)
    contexts = _tokenize((example.context for example in examples), tokenizer)
    counts: Counter[str] = Counter()
    windows: list[_Window] = []
    for number, example in enumerate(examples):
        context = contexts[example.context]
        answer = _answer_tokens(example, context)
        if is_training and answer is None and not example.is_impossible:
            counts["left_out"] += 1
            continue
        question = questions[example.question.strip()].ids
        counts["questions_truncated"] += len(question) > max_question
        question = question[:max_question]
        room = length - template.num_special - len(question)
        if room < 1:
            raise ConfigError(
                f"length {length} leaves no room for a context next to a question of {len(question)} tokens: raise the "
                f"length or lower max_query"
            )
        cut = _cut(number, question, context, room, stride, answer)
        counts["answers_in_no_window"] += is_training and answer is not None and not any(w.answer for w in cut)
        windows += cut
    features = template.features(windows)
    if is_training:
        targets = np.array([template.target(window) for window in windows], np.int64).reshape(-1, 2)
        features = replace(features, row_targets={"start": targets[:, 0], "end": targets[:, 1]})
    offsets = np.full((0 if is_training else len(features.input_ids), 2), -1, np.int32)
    has_most_context = np.zeros(len(offsets), np.bool_)
    for row, window in enumerate([] if is_training else windows):
        start = features.starts[row] + template.context_start(window)
        inside = slice(start, start + window.end - window.first)
        offsets[inside] = window.context.offsets[window.first : window.end]
        has_most_context[inside] = window.has_most_context
    return Windows(
        features=features,
        counts={name: count for name, count in counts.items() if count},
        example=np.array([window.number for window in windows], np.int64),
        offsets=offsets,
        has_most_context=has_most_context,
    )


@dataclass(frozen=True)
class _Tokens:
    ids: NDArray[np.int32]
    offsets: NDArray[np.int32]


def _tokenize(texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> dict[str, _Tokens]:
    """Tokenize each text once, without special tokens.

    Fast tokenizers tokenize the two texts of a pair separately, so these are the tokens of a pair.
    """
    found: dict[str, _Tokens] = {}
    unique = list(dict.fromkeys(texts))
    for at in range(0, len(unique), _TEXTS_AT_ONCE):
        some = unique[at : at + _TEXTS_AT_ONCE]
        encoded = tokenizer(
            some,
            add_special_tokens=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
            verbose=False,  # Windows handle contexts that are longer than the model reads.
        )
        for text, ids, offsets in zip(some, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            found[text] = _Tokens(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))
    return found


def _answer_tokens(example: SquadExample, context: _Tokens) -> tuple[int, int] | None:
    """Find the first and last token of the first answer that is in the context."""
    for answer in example.answers:
        if answer.start is None:
            continue
        start = answer.start + len(answer.text) - len(answer.text.lstrip())
        end = answer.start + len(answer.text.rstrip())
        first = int(np.searchsorted(context.offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(context.offsets[:, 0], end, side="left")) - 1
        if first <= last:
            return first, last
    return None


@dataclass(frozen=True)
class _Window:
    """Tokens ``first`` to ``end`` of a context."""

    number: int
    question: NDArray[np.int32]
    context: _Tokens
    first: int
    end: int
    has_most_context: NDArray[np.bool_]
    answer: tuple[int, int] | None
    """Its first and last token, if both are in the window."""


def _cut(
    number: int,
    question: NDArray[np.int32],
    context: _Tokens,
    room: int,
    stride: int,
    answer: tuple[int, int] | None,
) -> list[_Window]:
    """Cut a context into windows of at most ``room`` tokens; one without tokens also has one window."""
    size, step = len(context.ids), min(stride, room)
    firsts = range(0, max(0, size - room) + step, step)
    bounds = [(first, min(first + room, size)) for first in firsts]
    best = _best_windows(np.array(bounds))
    return [
        _Window(
            number,
            question,
            context,
            first,
            end,
            best[first:end] == window,
            answer if answer and first <= answer[0] and answer[1] < end else None,
        )
        for window, (first, end) in enumerate(bounds)
    ]


def _best_windows(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the window with the most context of each token, ``[tokens]``; the first if tied.

    As in BERT's code, context is the tokens on the shorter side plus 0.01 of the window's size.
    """
    firsts, ends = bounds[:, :1], bounds[:, 1:]
    tokens = np.arange(ends[-1, 0])
    shorter = np.minimum(tokens - firsts, ends - 1 - tokens)
    best: NDArray[np.int64] = np.where(shorter < 0, -1, 100 * shorter + ends - firsts).argmax(0)
    return best


@dataclass(frozen=True)
class _Template:
    """How a tokenizer formats a pair of texts: the special tokens before, between and after them."""

    before: NDArray[np.int32]
    between: NDArray[np.int32]
    after: NDArray[np.int32]
    types: tuple[NDArray[np.int8], ...] | None
    """Token types of these three and, one token each, of the first and second text."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> _Template:
        """Derive the template from a probe pair.

        Raises:
            ModelError: if the tokenizer cannot encode a pair.
        """
        probe = tokenizer("a", "a")
        texts = probe.sequence_ids()
        if 0 not in texts or 1 not in texts:
            raise ModelError(f"{type(tokenizer).__name__} makes no tokens of a pair of texts: use another tokenizer")
        of_text = np.array([-1 if text is None else text for text in texts])
        first, second = np.flatnonzero(of_text == 0), np.flatnonzero(of_text == 1)
        ids = np.array(probe["input_ids"], np.int32)
        parts = [slice(0, first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, len(ids))]
        places = [*parts, slice(first[0], first[0] + 1), slice(second[0], second[0] + 1)]
        types = np.array(probe["token_type_ids"], np.int8) if "token_type_ids" in probe else None
        before, between, after = (ids[part] for part in parts)
        return cls(before, between, after, None if types is None else tuple(types[place] for place in places))

    @property
    def num_special(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def context_start(self, window: _Window) -> int:
        return len(self.before) + len(window.question) + len(self.between)

    def target(self, window: _Window) -> tuple[int, int]:
        if window.answer is None:
            return NULL, NULL
        shift = self.context_start(window) - window.first
        return window.answer[0] + shift, window.answer[1] + shift

    def features(self, windows: Sequence[_Window]) -> Features:
        rows = [
            np.concatenate([self.before, w.question, self.between, w.context.ids[w.first : w.end], self.after])
            for w in windows
        ]
        # Arrays are sequences of numbers in all but name.
        return Features.of(cast(Any, rows), cast(Any, self._types(windows)))

    def _types(self, windows: Sequence[_Window]) -> list[NDArray[np.int8]] | None:
        if self.types is None:
            return None
        before, between, after, question, context = self.types
        return [
            np.concatenate([before, question.repeat(len(w.question)), between, context.repeat(w.end - w.first), after])
            for w in windows
        ]


@dataclass(frozen=True)
class Spans:
    """The best spans of each example, best first; if tied, the earlier first, then the shorter."""

    scores: Floats
    """Sum of both logits, ``[examples, num_best]``; -inf if there are no more."""
    characters: NDArray[np.int32]
    """First character, and the one after the last, ``[examples, num_best, 2]``."""


def best_spans(windows: Windows, outputs: Sequence[Floats], *, num_best: int, max_length: int) -> Spans:
    """Search all spans that lie in the context, are no longer than allowed and start where they have most context.

    BERT's code pairs the ``num_best`` best starts of a row with its ``num_best`` best ends and then drops invalid
    spans; here no valid span is missed.

    Args:
        windows: Windows of examples, with offsets.
        outputs: Start and end logits, ``[tokens of the row, 2]`` for each row.
        num_best: Number of spans per example.
        max_length: Maximum number of tokens of a span.
    """
    logits = np.concatenate([np.zeros((0, 2), np.float32), *outputs])
    is_context = windows.offsets[:, 0] >= 0
    start = np.where(windows.has_most_context, logits[:, 0], -np.inf).astype(np.float32)
    end = np.where(is_context, logits[:, 1], -np.inf).astype(np.float32)
    lengths, firsts = windows.features.lengths, windows.features.starts
    found: list[_Found] = []
    for row in range(0, len(lengths), _ROWS_AT_ONCE):
        some = slice(row, min(row + _ROWS_AT_ONCE, len(lengths)))
        column = np.arange(lengths[some].max())
        is_text = column < lengths[some, None]
        place = np.where(is_text, firsts[some, None] + column, 0)
        start_of, end_of = (np.where(is_text, values[place], np.float32(-np.inf)) for values in (start, end))
        scores, first, last = _best_of_rows(start_of, end_of, num_best, max_length)
        is_span = scores > -np.inf
        example = np.broadcast_to(windows.example[some, None], scores.shape)
        token = firsts[some, None]
        found.append((example[is_span], scores[is_span], (token + first)[is_span], (token + last)[is_span]))
    return _best_of_examples(windows, found, num_best)


def null_scores(windows: Windows, outputs: Sequence[Floats]) -> Floats:
    """Score "no answer", ``[examples]``: the lowest score over an example's windows, as in BERT's code."""
    scores = np.full(_num_examples(windows), np.inf, np.float32)
    np.minimum.at(scores, windows.example, np.array([row[NULL].sum() for row in outputs], np.float32))
    return scores


_Found = tuple[Numbers, Floats, Numbers, Numbers]
"""Of each span: index of its example, score, first and last token among those of all rows, ``[spans]`` each."""


def _num_examples(windows: Windows) -> int:
    return int(windows.example.max(initial=-1)) + 1


def _best_of_rows(start: Floats, end: Floats, num_best: int, max_length: int) -> tuple[Floats, Numbers, Numbers]:
    """Find scores, first and last columns of the best spans of each row, ``[rows, at most num_best]``.

    The ``num_best`` best spans start at the ``num_best`` best starts, rated with their best ends: others need no sort.
    """
    rows = np.arange(len(start))[:, None]
    beyond = np.pad(end, ((0, 0), (0, max_length - 1)), constant_values=-np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(beyond, max_length, axis=1)  # [rows, length, max_length]
    best_starts = _best(start + ends.max(-1), num_best)
    scores = (start[rows, best_starts][..., None] + ends[rows, best_starts]).reshape(len(start), -1)
    best = _best(scores, num_best)
    first = best_starts[rows, best // max_length]
    return scores[rows, best], first, first + best % max_length


def _best(scores: Floats, num_best: int) -> Numbers:
    """Find the columns of the best scores of each row; the first among equal ones."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :num_best]


def _best_of_examples(windows: Windows, found: Sequence[_Found], num_best: int) -> Spans:
    """Merge the spans found in the windows of each example."""
    shape = (_num_examples(windows), num_best)
    spans = Spans(np.full(shape, -np.inf, np.float32), np.zeros((*shape, 2), np.int32))
    if not found:
        return spans
    example, scores, first, last = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((last, first, -scores, example))
    rank = np.arange(len(order)) - np.searchsorted(example[order], example[order])
    order, rank = order[rank < num_best], rank[rank < num_best]
    spans.scores[example[order], rank] = scores[order]
    spans.characters[example[order], rank] = np.stack(
        [windows.offsets[first[order], 0], windows.offsets[last[order], 1]], axis=-1
    )
    return spans
