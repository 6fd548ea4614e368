"""The best spans against a search of all, and what is answered by them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import tiny
from evaluation.squad_tokenizers import TEXT, TOKENIZERS, example, questions
from trueneg.errors import ModelError
from trueneg.tasks.squad import SquadTask
from trueneg.tasks.squad_reading import SquadExample
from trueneg.tasks.squad_windows import Windows, best_spans, make_windows, null_scores

Outputs = list[NDArray[np.float32]]
CONTEXTS = [TEXT[:50], "The tower."]


def encode(examples: Sequence[SquadExample]) -> Windows:
    return make_windows(examples, TOKENIZERS["wordpiece"], 12, stride=3, max_question=4, is_training=False)


def outputs_of(windows: Windows, function: Any) -> Outputs:
    return [function((length, 2)).astype(np.float32) for length in windows.features.lengths]


def all_spans(windows: Windows, outputs: Outputs, number: int, max_length: int) -> list[tuple[float, int, int]]:
    """(score, first and last character) of each span, in order."""
    found = []
    for row in np.flatnonzero(windows.example == number):
        place = slice(windows.features.starts[row], windows.features.starts[row + 1])
        offsets, may_start = windows.offsets[place], windows.has_most_context[place]
        for first in range(len(offsets)):
            for last in range(first, min(first + max_length, len(offsets))):
                if offsets[first, 0] >= 0 and offsets[last, 0] >= 0 and may_start[first]:
                    score = outputs[row][first, 0] + outputs[row][last, 1]
                    found.append((float(score), int(offsets[first, 0]), int(offsets[last, 1])))
    return sorted(found, key=lambda span: (-span[0], span[1], span[2]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9), st.booleans())
def test_the_best_spans_are_found_among_all(seed: int, num_best: int, max_length: int, is_coarse: bool) -> None:
    random = np.random.default_rng(seed)
    windows = encode([example(context) for context in CONTEXTS * 2])
    assert np.bincount(windows.example).max() > 2
    # Coarse logits have many ties.
    outputs = outputs_of(windows, lambda s: random.integers(-2, 3, s) if is_coarse else random.normal(0, 3, s))
    spans = best_spans(windows, outputs, num_best=num_best, max_length=max_length)
    assert spans.scores.shape == (4, num_best)
    for number in range(4):
        expected = all_spans(windows, outputs, number, max_length)[:num_best]
        is_span = spans.scores[number] > -np.inf
        assert spans.scores[number, is_span].tolist() == [score for score, _, _ in expected]
        assert not is_span[len(expected) :].any()
        assert spans.characters[number, 0].tolist() == list(expected[0][1:])
        if not is_coarse:
            assert spans.characters[number, is_span].tolist() == [list(span[1:]) for span in expected]


def test_many_rows_are_searched_in_parts() -> None:
    windows = encode([example(CONTEXTS[0])] * 100)
    random = np.random.default_rng(0)
    outputs = outputs_of(windows, random.standard_normal)
    spans = best_spans(windows, outputs, num_best=3, max_length=5)
    assert len(windows.features) > 256
    for number in range(100):
        expected = all_spans(windows, outputs, number, 5)[:3]
        assert spans.characters[number].tolist() == [list(span[1:]) for span in expected]


def test_no_answer_is_scored_by_the_window_that_is_surest_of_one() -> None:
    windows = encode([example(context) for context in CONTEXTS])
    outputs = outputs_of(windows, np.zeros)
    for row, output in enumerate(outputs):
        output[0] = (row, 10)
    assert null_scores(windows, outputs).tolist() == [10, int(np.flatnonzero(windows.example == 1)[0]) + 10]


def oracle(task: SquadTask, examples: Sequence[SquadExample], tokenizer: Any, length: int) -> tuple[Windows, Outputs]:
    """What a model gives that knows the targets."""
    windows = task.encode(examples, tokenizer, length, is_training=False)
    targets = task.encode(examples, tokenizer, length, is_training=True).features.row_targets
    outputs = outputs_of(windows, np.zeros)
    for row, output in enumerate(outputs):
        for column, name in enumerate(("start", "end")):
            output[int(targets[name][row]), column] = 9
    return windows, outputs


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
def test_who_knows_the_targets_answers_all_questions(kind: str) -> None:
    task = SquadTask("data", doc_stride=20)
    golds = ["1889", "café", "München", "two years", "Alt-Wien", "old Vienna", "東京", "2001–2002", "naïve", "unnamed"]
    asked = [example(TEXT, gold, key=gold) for gold in golds]
    windows, outputs = oracle(task, asked, TOKENIZERS[kind], length=80)
    assert len(windows.features) > len(asked)
    answers = task.predictions(asked, windows, outputs)
    assert [(a["key"], a["exact"], a["f1"]) for a in answers] == [(gold, 1, 1) for gold in golds]
    assert [a["gold"] for a in answers] == [[gold] for gold in golds]


@given(questions())
def test_whatever_is_aligned_with_words_survives_the_round_trip(asked: SquadExample) -> None:
    task = SquadTask("data", max_answer=400)
    windows, outputs = oracle(task, [asked], TOKENIZERS["byte pairs"], length=800)
    (answer,) = task.predictions([asked], windows, outputs)
    assert answer["predicted"] == asked.answers[0].text
    assert answer["exact"] == 1


@given(st.sampled_from(sorted(TOKENIZERS)), st.lists(questions(), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_an_answer_is_in_the_words_of_its_context(kind: str, asked: list[SquadExample], seed: int) -> None:
    random = np.random.default_rng(seed)
    task = SquadTask("data", doc_stride=5, max_query=10, max_answer=6)
    windows = task.encode(asked, TOKENIZERS[kind], 25, is_training=False)
    answers = task.predictions(asked, windows, outputs_of(windows, random.standard_normal))
    assert json.loads(json.dumps(answers)) == answers
    for question, answer in zip(asked, answers, strict=True):
        assert answer["predicted"] in question.context
        assert 0 <= answer["f1"] <= 1
        assert answer["exact"] in (0, 1)
        assert 0 <= answer["probability"] <= 1


def only(context: str, logits: dict[str, tuple[float, float]], null: float, **options: Any) -> dict[str, Any]:
    """One question's answer, with logits of start and end by word."""
    task = SquadTask("data", "2.0", **options)
    asked = [example(context, question="word1", is_impossible=True)]
    windows = task.encode(asked, tiny.make_tokenizer(), 64, is_training=False)
    outputs = outputs_of(windows, lambda shape: np.full(shape, -50.0))
    outputs[0][0] = null / 2
    for column, word in enumerate(context.split(), start=1):
        outputs[0][column] = logits.get(word, (-50, -50))
    (answer,) = task.predictions(asked, windows, outputs)
    return answer


def test_version_2_weighs_the_best_span_against_no_answer() -> None:
    logits = {"word3": (2.0, 0.0), "word4": (0.0, 1.0)}  # the best span, of 3, is "word3 word4"
    context = "word2 word3 word4"
    spoken, silent = (only(context, logits, null) for null in (2.5, 3.5))
    assert (spoken["predicted"], spoken["exact"], spoken["null_odds"]) == ("word3 word4", 0, -0.5)
    assert (silent["predicted"], silent["exact"], silent["f1"], silent["null_odds"]) == ("", 1, 1, 0.5)
    assert only(context, logits, null=3.5, null_threshold=1)["predicted"] == "word3 word4"
    assert only(context, logits, null=2.5, null_threshold=-1)["predicted"] == ""
    assert silent["is_impossible"] is True


def test_probability_is_a_share_among_the_best() -> None:
    logits = {"word3": (2.0, 0.0), "word4": (0.0, 1.0)}
    weights = np.exp([3.0, 2.0, 1.0, 2.5])  # "word3 word4", "word3", "word4", no answer
    answer = only("word2 word3 word4", logits, null=2.5)
    assert answer["probability"] == pytest.approx(weights[0] / weights.sum(), abs=1e-6)
    answer = only("word2 word3 word4", logits, null=2.5, num_best=2)
    assert answer["probability"] == pytest.approx(weights[0] / weights[[0, 1, 3]].sum(), abs=1e-6)


def test_answers_have_a_longest_length() -> None:
    logits = {"word2": (3.0, 0.0), "word4": (0.0, 3.0)}
    assert only("word2 word3 word4", logits, null=-9, max_answer=3)["predicted"] == "word2 word3 word4"
    assert only("word2 word3 word4", logits, null=-9, max_answer=2)["predicted"] in ("word2", "word4")


@pytest.mark.parametrize(("version", "score", "is_missing"), [("1.1", 0, True), ("2.0", 1, False)])
def test_a_context_without_text_is_answered_by_nothing(version: str, score: float, is_missing: bool) -> None:
    task = SquadTask("data", version)
    # "" is the same as "the" once normalized, but version 1.1 does not ask whether there is an answer.
    asked = [example(" ", "the"), example("word5", "word5", question="word1")]
    windows = task.encode(asked, tiny.make_tokenizer(), 64, is_training=False)
    empty, full = task.predictions(asked, windows, outputs_of(windows, np.ones))
    assert (empty["predicted"], empty["exact"], empty["is_missing"], empty["probability"]) == ("", score, is_missing, 0)
    assert full["is_missing"] is False
    assert json.loads(json.dumps(empty, allow_nan=False)) == empty


def test_without_labels_there_are_answers_but_no_scores() -> None:
    task = SquadTask("data")
    asked = [example("word2 word3", question="word1")]
    windows = task.encode(asked, tiny.make_tokenizer(), 64, is_training=False)
    (answer,) = task.predictions(asked, windows, outputs_of(windows, np.ones))
    assert answer["predicted"] == "word2"
    assert {"gold", "exact", "f1"}.isdisjoint(answer)


def test_no_questions_have_no_answers() -> None:
    task = SquadTask("data")
    windows = task.encode([], tiny.make_tokenizer(), 64, is_training=False)
    assert task.predictions([], windows, []) == []


@pytest.mark.parametrize("version", ["1.1", "2.0"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(version: str, number: float) -> None:
    asked = [example("word2 word3", key="a"), example("word4 " * 40, key="b", question="word1")]
    task = SquadTask("data", version, doc_stride=10)
    windows = task.encode(asked, tiny.make_tokenizer(), 24, is_training=False)
    outputs = outputs_of(windows, np.ones)
    assert len(outputs) > 2
    outputs[-1][3, 1] = number
    with pytest.raises(ModelError, match="'b' is not finite"):
        task.predictions(asked, windows, outputs)
