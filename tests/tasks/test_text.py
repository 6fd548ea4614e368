"""Texts and pairs as rows, outputs as answers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evaluation.labelled_tokenizers import wordpiece
from trueneg.errors import ConfigError, ModelError, TaskError
from trueneg.evaluation.results.store import columns_of
from trueneg.objectives.labelled import Classification, Regression
from trueneg.tasks import text
from trueneg.tasks.base import Encoded, Split
from trueneg.tasks.text import TextExample, TextTask, unique_keys


class Made(TextTask):
    """A task without files."""

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        raise AssertionError(split)


def classification(**options: Any) -> Made:
    return Made("made", metrics=["accuracy"], **{"labels": ["no", "maybe", "yes"], **options})


def regression(**options: Any) -> Made:
    return Made("made", metrics=["spearman"], **options)


SINGLE = [TextExample("a", "the cat", label=1), TextExample("b", "", label=0), TextExample("c", "good mat", label=2)]
PAIRS = [TextExample("a", "the cat sat", "on mat", label=1), TextExample("b", "good", "bad", label=0)]


def rows_of(encoded: Encoded, values: NDArray[np.generic]) -> list[list[int]]:
    starts = encoded.features.starts
    return [values[begin:end].tolist() for begin, end in itertools.pairwise(starts)]


def tokens(encoded: Encoded) -> list[str]:
    return [" ".join(wordpiece().convert_ids_to_tokens(row)) for row in rows_of(encoded, encoded.features.input_ids)]


def test_rows_are_those_of_the_tokenizer() -> None:
    encoded = classification().encode(SINGLE, wordpiece(), 16, is_training=True)
    assert tokens(encoded) == ["[CLS] the cat [SEP]", "[CLS] [SEP]", "[CLS] good mat [SEP]"]
    label = encoded.features.row_targets["label"]
    assert label.tolist() == [1, 0, 2] and label.dtype == np.int64
    assert encoded.counts == {"truncated": 0}


def test_pairs_have_types_where_the_tokenizer_makes_them() -> None:
    encoded = classification().encode(PAIRS, wordpiece(), 16, is_training=False)
    assert tokens(encoded) == ["[CLS] the cat sat [SEP] on mat [SEP]", "[CLS] good [SEP] bad [SEP]"]
    types = encoded.features.token_type_ids
    assert types is not None
    assert rows_of(encoded, types) == [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert encoded.features.row_targets == {}
    without = classification().encode(PAIRS, wordpiece(has_types=False), 16, is_training=False)
    assert without.features.token_type_ids is None


def test_the_longer_text_is_cut_first_and_the_cut_is_counted() -> None:
    pairs = [("the cat sat on the mat", "good"), ("good", "the cat sat on the mat"), ("the cat", "sat")]
    examples = [TextExample(str(at), *pair) for at, pair in enumerate(pairs)]
    encoded = classification().encode(examples, wordpiece(), 6, is_training=False)
    assert tokens(encoded) == [
        "[CLS] the cat [SEP] good [SEP]",
        "[CLS] good [SEP] the cat [SEP]",
        "[CLS] the cat [SEP] sat [SEP]",
    ]
    assert encoded.counts == {"truncated": 2}  # the third just fits


def test_a_second_text_may_be_empty() -> None:
    pairs = [TextExample("a", "the", ""), TextExample("b", "", "cat")]
    encoded = classification().encode(pairs, wordpiece(), 6, is_training=False)
    assert tokens(encoded) == ["[CLS] the [SEP] [SEP]", "[CLS] [SEP] cat [SEP]"]


def test_parts_that_are_tokenized_at_once_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = [*SINGLE, *PAIRS, *SINGLE]
    whole = classification().encode(mixed, wordpiece(), 8, is_training=True)
    monkeypatch.setattr(text, "_CHUNK", 2)
    parts = classification().encode(mixed, wordpiece(), 8, is_training=True)
    assert tokens(whole) == tokens(parts) and len(tokens(parts)) == 8
    assert "[SEP] on mat [SEP]" in tokens(parts)[3]


def test_no_examples_are_no_rows() -> None:
    encoded = classification().encode([], wordpiece(), 8, is_training=True)
    assert len(encoded.features) == 0
    assert classification().predictions([], encoded, []) == []


def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="length of 3"):
        classification().encode(PAIRS, wordpiece(), 3, is_training=False)


def test_training_needs_labels() -> None:
    with pytest.raises(TaskError, match="'b' has no label"):
        classification().encode([SINGLE[0], TextExample("b", "x")], wordpiece(), 8, is_training=True)


def test_a_label_numbered_zero_is_a_label() -> None:
    encoded = classification().encode([TextExample("b", "x", label=0)], wordpiece(), 8, is_training=True)
    assert encoded.features.row_targets["label"].tolist() == [0]


def test_answers_have_the_label_and_all_probabilities() -> None:
    task = classification()
    encoded = task.encode(SINGLE, wordpiece(), 8, is_training=False)
    logits = [np.log(np.array(row, np.float32)) for row in ([0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.25, 0.5, 0.25])]
    answers = task.predictions(SINGLE, encoded, logits)
    assert [(a["key"], a["gold"], a["predicted"]) for a in answers] == [("a", 1, 1), ("b", 0, 0), ("c", 2, 1)]
    assert answers[0]["probabilities"] == pytest.approx([0.2, 0.5, 0.3], abs=1e-6)
    assert columns_of(answers)["gold"].tolist() == [1, 0, 2]


def test_large_logits_have_probabilities_too() -> None:
    task, example = classification(), SINGLE[:1]
    encoded = task.encode(example, wordpiece(), 8, is_training=False)
    answer = task.predictions(example, encoded, [np.array([3e38, 1.0, -3e38], np.float32)])[0]
    assert answer["probabilities"] == [1.0, 0.0, 0.0]


def test_withheld_labels_are_not_made_up() -> None:
    task, examples = classification(), [TextExample("a", "x"), TextExample("b", "y")]
    answers = task.predictions(examples, task.encode(examples, wordpiece(), 8, is_training=False), [np.zeros(3)] * 2)
    assert all("gold" not in answer for answer in answers)


def test_groups_come_along() -> None:
    task, examples = classification(), [TextExample("a", "x", group="g", label=0)]
    answers = task.predictions(examples, task.encode(examples, wordpiece(), 8, is_training=False), [np.zeros(3)])
    assert answers[0]["group"] == "g"


def groups_of(examples: list[TextExample], **options: Any) -> list[str | None]:
    task = classification(**options)
    encoded = task.encode(examples, wordpiece(), 8, is_training=False)
    return [one.get("group") for one in task.predictions(examples, encoded, [np.zeros(3)] * len(examples))]


def test_examples_that_share_a_text_are_grouped_if_the_task_says_so() -> None:
    examples = [
        TextExample("a", "cat", "mat"),
        TextExample("b", "good", "mat"),
        TextExample("c", "cat", "bad"),
        TextExample("d", "cat", "bad", group="claim"),
        TextExample("e", "cat", "mat", group=""),
    ]
    assert groups_of(examples) == [None, None, None, "claim", ""]
    assert groups_of(examples, shared_text="text") == ["a", "b", "a", "claim", ""]
    assert groups_of(examples, shared_text="second") == ["a", "a", "c", "claim", ""]


def test_quantities_are_floats_clipped_only_where_the_task_has_bounds() -> None:
    examples = [TextExample("a", "x", label=4.5), TextExample("b", "y", label=0.0)]
    outputs = [np.array([5.75], np.float32), np.array([-0.25], np.float32)]
    free, bound = regression(), regression(bounds=(0.0, 5.0))
    encoded = free.encode(examples, wordpiece(), 8, is_training=True)
    target = encoded.features.row_targets["label"]
    assert target.dtype == np.float32 and target.tolist() == [4.5, 0.0]
    assert [a["predicted"] for a in free.predictions(examples, encoded, outputs)] == [5.75, -0.25]
    clipped = bound.predictions(examples, encoded, outputs)
    assert [(a["gold"], a["predicted"], a["value"]) for a in clipped] == [(4.5, 5.0, 5.75), (0.0, 0.0, -0.25)]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused_by_example(bad: float) -> None:
    task = classification()
    encoded = task.encode(SINGLE, wordpiece(), 8, is_training=False)
    with pytest.raises(ModelError, match="'c' is not finite"):
        task.predictions(SINGLE, encoded, [np.zeros(3), np.zeros(3), np.array([0, bad, 0])])


def test_the_objective_follows_from_the_labels() -> None:
    assert isinstance(classification().objective(), Classification) and classification().num_outputs == 3
    assert isinstance(regression().objective(), Regression) and regression().num_outputs == 1


def test_pairs_are_doubled_in_the_other_order() -> None:
    doubled = classification(is_unordered=True).swapped(PAIRS)
    assert doubled[:2] == PAIRS
    assert doubled[2] == TextExample("a/swapped", "on mat", "the cat sat", label=1)
    assert len({example.key for example in doubled}) == 4


def test_pairs_whose_order_means_something_are_not_swapped() -> None:
    with pytest.raises(ConfigError, match="swap_pairs"):
        classification().swapped(PAIRS)


def test_a_subset_keeps_the_shares_of_labels() -> None:
    examples = [TextExample(str(number), "x", label=int(number % 4 == 0)) for number in range(40)]
    chosen = classification().subset(examples, 12, seed=1)
    assert sum(example.label == 1 for example in chosen) == 3
    assert chosen == sorted(chosen, key=lambda example: int(example.key))
    assert chosen == classification().subset(examples, 12, seed=1) != classification().subset(examples, 12, seed=2)


def test_repeated_keys_are_told_apart_even_from_keys_that_look_so() -> None:
    keys, num_changed = unique_keys(["a", "a#2", "a", "b", "a"])
    assert keys == ["a", "a#2", "a#3", "b", "a#4"] and num_changed == 2
