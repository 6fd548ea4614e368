"""Rows of a question and a window of its context, against transformers' own pairs and against characters."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import PreTrainedTokenizerFast

import tiny
from evaluation.squad_tokenizers import TEXT, TOKENIZERS, example, questions, wordpiece
from trueneg.errors import ConfigError, ModelError
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample
from trueneg.tasks.squad_windows import NULL, Windows, make_windows

kinds = st.sampled_from(sorted(TOKENIZERS))


def encode(
    examples: list[SquadExample],
    tokenizer: PreTrainedTokenizerFast = TOKENIZERS["wordpiece"],
    length: int = 64,
    stride: int = 16,
    max_question: int = 200,
    is_training: bool = False,
) -> Windows:
    return make_windows(examples, tokenizer, length, stride=stride, max_question=max_question, is_training=is_training)


def row_of(windows: Windows, values: Any, row: int) -> Any:
    return values[windows.features.starts[row] : windows.features.starts[row + 1]]


def pairs(tokenizer: PreTrainedTokenizerFast, asked: SquadExample, room: int, stride: int) -> Any:
    """Windows as transformers makes them of pairs: there the stride is what two of them share."""
    question = asked.question
    length = (
        len(tokenizer(question, "x")["input_ids"]) - len(tokenizer("x", add_special_tokens=False)["input_ids"]) + room
    )
    rows = tokenizer(
        question,
        asked.context,
        max_length=length,
        truncation="only_second",
        stride=room - min(stride, room),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    return length, rows


@given(kinds, questions(), st.integers(2, 30), st.integers(1, 40))
def test_rows_are_those_of_transformers(kind: str, asked: SquadExample, room: int, stride: int) -> None:
    tokenizer = TOKENIZERS[kind]
    length, theirs = pairs(tokenizer, asked, room, stride)
    ours = encode([asked], tokenizer, length, stride)
    num_rows = len(theirs["input_ids"])
    assert len(ours.features) == num_rows
    for row in range(num_rows):
        assert row_of(ours, ours.features.input_ids, row).tolist() == theirs["input_ids"][row]
        if "token_type_ids" in theirs:
            assert ours.features.token_type_ids is not None
            assert row_of(ours, ours.features.token_type_ids, row).tolist() == theirs["token_type_ids"][row]
        else:
            assert ours.features.token_type_ids is None
        of_context = [text == 1 for text in theirs.sequence_ids(row)]
        places = zip(theirs["offset_mapping"][row], of_context, strict=True)
        assert row_of(ours, ours.offsets, row).tolist() == [list(at) if inside else [-1, -1] for at, inside in places]


def touched(offsets: list[tuple[int, int]], answer: SquadAnswer) -> list[int]:
    """Which places have a character of the answer."""
    assert answer.start is not None
    wanted = {answer.start + at for at, letter in enumerate(answer.text) if not letter.isspace()}
    return [number for number, place in enumerate(offsets) if wanted & set(range(*place))]


@given(kinds, questions(), st.integers(2, 40), st.integers(1, 40))
def test_targets_are_those_found_by_characters(kind: str, asked: SquadExample, room: int, stride: int) -> None:
    tokenizer, (answer,) = TOKENIZERS[kind], asked.answers
    length, theirs = pairs(tokenizer, asked, room, stride)
    whole = tokenizer(asked.context, add_special_tokens=False, return_offsets_mapping=True)
    num_tokens = len(touched(whole["offset_mapping"], answer))
    expected = []
    for row, offsets in enumerate(theirs["offset_mapping"]):
        texts = theirs.sequence_ids(row)
        columns = touched([place if text == 1 else (0, 0) for place, text in zip(offsets, texts, strict=True)], answer)
        expected.append([columns[0], columns[-1]] if len(columns) == num_tokens else [NULL, NULL])
    ours = encode([asked], tokenizer, length, stride, is_training=True)
    targets = np.stack([ours.features.row_targets[name] for name in ("start", "end")], axis=-1)
    assert targets.tolist() == expected
    is_lost = all(target == [NULL, NULL] for target in expected)
    assert ours.counts == ({"answers_in_no_window": 1} if is_lost else {})


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 25))
@hypothesis.example(210, 200, 150)  # the longer window has less context of a token, but counts for more
def test_each_token_has_most_context_in_one_window(num_tokens: int, room: int, stride: int) -> None:
    tokenizer = tiny.make_tokenizer()
    context = " ".join(["word1"] * num_tokens)
    windows = encode([example(context, question="word2 word3")], tokenizer, room + 2, stride)
    spans = []
    for row in range(len(windows.features)):
        offsets = row_of(windows, windows.offsets, row)[2:]
        spans.append((int(offsets[0][0]) // 6, len(offsets)))
    for token in range(num_tokens):
        # As in BERT's code.
        scores = [
            min(token - first, first + size - 1 - token) + 0.01 * size if first <= token < first + size else -1.0
            for first, size in spans
        ]
        best = scores.index(max(scores))
        for row, (first, size) in enumerate(spans):
            if first <= token < first + size:
                assert bool(row_of(windows, windows.has_most_context, row)[2 + token - first]) == (row == best)
    assert windows.has_most_context.sum() == num_tokens


def test_windows_begin_a_stride_after_each_other() -> None:
    tokenizer = tiny.make_tokenizer()
    context = " ".join(f"word{number}" for number in range(10))
    windows = encode([example(context, question="word99")], tokenizer, length=5, stride=3)
    rows = [tokenizer.decode(row_of(windows, windows.features.input_ids, row)) for row in range(len(windows.features))]
    assert rows == [
        *("word99 word0 word1 word2 word3", "word99 word3 word4 word5 word6", "word99 word6 word7 word8 word9")
    ]
    # A stride that is longer than a window leaves nothing out.
    assert len(encode([example(context, question="word99")], tokenizer, length=5, stride=100).features) == 3


def test_each_text_is_tokenized_once() -> None:
    seen: list[str] = []

    class Recording(PreTrainedTokenizerFast):
        def __call__(self, text: Any, *others: Any, **options: Any) -> Any:
            seen.extend([text, *others] if isinstance(text, str) else text)
            return super().__call__(text, *others, **options)

    plain = wordpiece()
    tokenizer = Recording(
        tokenizer_object=plain.backend_tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    asked = [example(TEXT, "1889", key=str(n), question=f"When {n}?") for n in range(5)]
    assert len(encode(asked, tokenizer).features) >= 5
    assert seen.count(TEXT) == 1
    assert sum(text.startswith("When") for text in seen) == 5


def test_rows_of_many_examples_follow_each_other() -> None:
    asked = [example(TEXT, "1889"), example("The tower.", "tower"), example(TEXT, "2002", question="When?")]
    windows = encode(asked, length=40)
    together = windows.example.tolist()
    assert together == sorted(together)
    assert set(together) == {0, 1, 2}
    alone = encode([asked[2]], length=40)
    first = together.index(2)
    assert (
        row_of(windows, windows.features.input_ids, first).tolist()
        == row_of(alone, alone.features.input_ids, 0).tolist()
    )


def test_long_questions_are_cut_and_counted() -> None:
    asked = [example("The tower.", "tower", question=TEXT), example("The tower.", "tower", question="The tower")]
    windows = encode(asked, max_question=4)
    assert windows.counts == {"questions_truncated": 1}
    full = TOKENIZERS["wordpiece"](TEXT)["input_ids"]
    assert row_of(windows, windows.features.input_ids, 0)[:6].tolist() == [*full[:5], full[-1]]


def test_spaces_around_a_question_are_no_tokens() -> None:
    for tokenizer in TOKENIZERS.values():
        bare, spaced = (
            encode([example("The tower.", "tower", question=question)], tokenizer).features.input_ids.tolist()
            for question in ("Which tower?", " \n Which tower? ")
        )
        assert bare == spaced


def test_a_question_must_leave_room() -> None:
    asked = example("The tower.", "tower", question=TEXT)
    with pytest.raises(ConfigError, match="max_query"):
        encode([asked], length=20, max_question=17)
    assert len(encode([asked], length=21, max_question=17).features) > 1


def test_an_impossible_question_and_a_window_without_the_answer_point_to_the_start() -> None:
    tokenizer = tiny.make_tokenizer()
    context = " ".join(f"word{number}" for number in range(10))
    asked = [
        example(context, "word4 word5", question="word99"),
        example(context, question="word99", is_impossible=True),
    ]
    windows = encode(asked, tokenizer, length=5, stride=3, is_training=True)
    targets = windows.features.row_targets
    assert windows.example.tolist() == [0, 0, 0, 1, 1, 1]
    assert targets["start"].tolist() == [NULL, 2, NULL, NULL, NULL, NULL]
    assert targets["end"].tolist() == [NULL, 3, NULL, NULL, NULL, NULL]
    assert targets["start"].dtype == np.int64
    assert windows.counts == {}


def test_what_cannot_be_trained_on_is_left_out_and_counted() -> None:
    asked = [
        example("The tower.", "bridge"),
        example("The tower.", "tower", key="kept"),
        example("The tower."),  # of a test split
        example("The tower. \u200b", "\u200b"),  # no token is made of it
        example("  ", "tower"),
    ]
    windows = encode(asked, is_training=True)
    assert windows.counts == {"left_out": 4}
    assert windows.example.tolist() == [1]
    assert len(encode(asked).features) == 5


def test_an_answer_that_is_longer_than_a_window_is_counted() -> None:
    tokenizer = tiny.make_tokenizer()
    context = " ".join(f"word{number}" for number in range(10))
    windows = encode([example(context, context, question="word99")], tokenizer, length=5, is_training=True)
    assert windows.counts == {"answers_in_no_window": 1}
    assert set(windows.features.row_targets["start"].tolist()) == {NULL}


def test_targets_are_of_the_first_answer_that_is_there() -> None:
    asked = example("The tower of 1889.", "bridge", "1889", "tower")
    windows = encode([asked], is_training=True)
    start, end = (int(windows.features.row_targets[name][0]) for name in ("start", "end"))
    plain = encode([asked])
    assert asked.context[plain.offsets[start, 0] : plain.offsets[end, 1]] == "1889"


def test_spaces_around_an_answer_do_not_move_it() -> None:
    context = "The tower of 1889."
    bare = SquadExample("q", "t/0", "?", context, (SquadAnswer("of", 10),))
    spaced = SquadExample("q", "t/0", "?", context, (SquadAnswer(" of ", 9),))
    for tokenizer in TOKENIZERS.values():
        one, other = (encode([asked], tokenizer, is_training=True).features.row_targets for asked in (bare, spaced))
        assert [one[name].tolist() for name in ("start", "end")] == [other[name].tolist() for name in ("start", "end")]


def test_a_context_without_text_has_a_row_all_the_same() -> None:
    windows = encode([example(" \n", "x"), example("The tower.", "tower")])
    assert windows.example.tolist() == [0, 1]
    assert (row_of(windows, windows.offsets, 0) == -1).all()
    assert not row_of(windows, windows.has_most_context, 0).any()


def test_a_tokenizer_without_pairs_is_refused() -> None:
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("a", "")
    with pytest.raises(ModelError, match="makes no tokens of a pair of texts"):
        encode([example("The tower.", "tower")], tokenizer)
