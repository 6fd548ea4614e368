"""Parts of data: alike for a seed, with each label's share, the small within the large."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trueneg.errors import ConfigError, TaskError
from trueneg.tasks.base import Split
from trueneg.tasks.split import hold_out, split_off, stratified_order, stratified_subset, train_fraction
from trueneg.tasks.text import TextExample, TextTask

LABELS = st.lists(st.sampled_from("aaaabbc"), min_size=2, max_size=60)
SEEDS = st.integers(0, 3)


class Made(TextTask):
    """A task without files."""

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        raise AssertionError(split)


TASK = Made("made", metrics=["accuracy"], labels=["a", "b", "c"])
EXAMPLES = [TextExample(str(n), "x", label=2 if n == 77 else int(n % 10 == 0)) for n in range(1000)]


@given(LABELS, SEEDS)
def test_an_order_has_every_example_once(labels: list[str], seed: int) -> None:
    assert sorted(stratified_order(labels, seed).tolist()) == list(range(len(labels)))


@given(LABELS, SEEDS)
def test_every_beginning_has_each_label_and_its_share(labels: list[str], seed: int) -> None:
    order, whole = stratified_order(labels, seed), Counter(labels)
    for num in range(len(labels) + 1):
        part = Counter(labels[at] for at in order[:num])
        assert len(part) == min(num, len(whole))
        for label, size in whole.items():
            assert abs(part[label] - size * num / len(labels)) <= len(whole) + 1e-9


@given(LABELS, SEEDS, st.integers(0, 60), st.integers(0, 60))
def test_the_small_choice_lies_within_the_large(labels: list[str], seed: int, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert set(stratified_subset(labels, small, seed)) <= set(stratified_subset(labels, large, seed))


@given(LABELS, SEEDS, st.floats(0.01, 0.99))
def test_what_is_split_off_and_what_stays_make_up_the_whole(labels: list[str], seed: int, fraction: float) -> None:
    stays, aside = split_off(labels, fraction, seed)
    assert sorted([*stays, *aside]) == list(range(len(labels)))
    assert len(stays) and len(aside)
    if len(stays) >= len(set(labels)):
        assert {labels[at] for at in stays} == set(labels)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=60), SEEDS, st.floats(0.01, 0.99))
def test_no_group_is_divided(groups: list[int], seed: int, fraction: float) -> None:
    assume(len({*groups}) > 1)
    stays, aside = split_off([group % 2 for group in groups], fraction, seed, groups)
    assert sorted([*stays, *aside]) == list(range(len(groups))) and len(stays) and len(aside)
    assert not {groups[at] for at in stays} & {groups[at] for at in aside}
    # No further group would bring the share nearer, nor would one less.
    largest, num_aside = max(Counter(groups).values()), len({groups[at] for at in aside})
    assert num_aside >= min(2, len({*groups}) - 1)
    if num_aside > 2 and len(groups) - fraction * len(groups) >= largest:
        assert abs(len(aside) - fraction * len(groups)) <= largest


def test_groups_are_split_off_with_the_shares_of_labels() -> None:
    groups = [f"author {n // 5}" for n in range(1000)]
    labels = [n // 5 % 4 == 0 for n in range(1000)]
    _, aside = split_off(labels, 0.1, 0, groups)
    assert len(aside) == 100 and sum(labels[at] for at in aside) == 25
    assert not np.array_equal(aside, split_off(labels, 0.1, 1, groups)[1])


def test_the_only_example_of_a_label_stays() -> None:
    labels = ["common"] * 99 + ["rare"]
    for seed in range(20):
        stays, aside = split_off(labels, 0.3, seed)
        assert 99 in stays and len(aside) == 30


def test_shares_are_exact_where_they_can_be() -> None:
    labels = ["a"] * 500 + ["b"] * 300 + ["c"] * 200
    _, aside = split_off(labels, 0.1, seed=0)
    counts = Counter(labels[at] for at in aside)
    assert all(abs(counts[label] - share) <= 1 for label, share in (("a", 50), ("b", 30), ("c", 20)))


def test_examples_are_drawn_and_not_taken_as_they_come() -> None:
    order = stratified_order(["a"] * 200, seed=0)
    assert abs(np.corrcoef(np.arange(200), order)[0, 1]) < 0.3
    assert not np.array_equal(order, stratified_order(["a"] * 200, seed=1))
    # Labels of one example each would all stand at the same place.
    assert not np.array_equal(stratified_order(list(range(200)), seed=0), np.arange(200))


def test_a_fraction_keeps_a_rare_label_and_lies_within_a_larger_one() -> None:
    one = train_fraction(TASK, EXAMPLES, 0.01, seed=3)
    ten = train_fraction(TASK, EXAMPLES, 0.10, seed=3)
    assert (len(one), len(ten)) == (10, 100)
    assert {example.key for example in one} < {example.key for example in ten}
    assert "77" in {example.key for example in one}
    assert Counter(example.label for example in ten)[1] == pytest.approx(10, abs=1)
    assert ten != train_fraction(TASK, EXAMPLES, 0.10, seed=4)


def test_a_tiny_fraction_keeps_one_of_each_label() -> None:
    kept = train_fraction(TASK, EXAMPLES, 0.0001, seed=0)
    assert sorted(example.label or 0 for example in kept) == [0, 1, 2]


def test_the_whole_is_the_whole() -> None:
    assert train_fraction(TASK, EXAMPLES, 1.0, seed=0) == EXAMPLES


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01])
def test_impossible_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(ConfigError, match="train_fraction"):
        train_fraction(TASK, EXAMPLES, fraction, seed=0)
    with pytest.raises(ConfigError, match="validation"):
        split_off(["a", "b"], fraction, seed=0)


def test_examples_with_one_premise_are_held_out_together() -> None:
    task = Made("made", metrics=["accuracy"], labels=["a", "b", "c"], shared_text="text")
    examples = [TextExample(str(n), f"premise {n // 3}", "x", label=n % 3) for n in range(300)]
    kept, held_out = hold_out(task, examples, 0.2, seed=1)
    assert (len(kept), len(held_out)) == (240, 60)
    assert not {one.text for one in kept} & {one.text for one in held_out}
    assert held_out == hold_out(task, examples, 0.2, seed=1)[1] != hold_out(task, examples, 0.2, seed=2)[1]
    own = [TextExample(str(n), f"text {n}", "x", n % 3, f"group {n % 50}") for n in range(300)]
    kept, held_out = hold_out(TASK, own, 0.2, seed=1)
    assert len(held_out) == 60 and not {one.group for one in kept} & {one.group for one in held_out}


def test_without_groups_a_tenth_of_each_label_is_held_out() -> None:
    kept, held_out = hold_out(TASK, EXAMPLES, 0.1, seed=0)
    assert sorted([*kept, *held_out], key=lambda one: int(one.key)) == EXAMPLES
    assert Counter(one.label for one in held_out) == {0: 90, 1: 10}, "the only example of a label is trained on"


def test_one_group_alone_cannot_be_held_out() -> None:
    with pytest.raises(TaskError, match="'made': all examples are of one group"):
        hold_out(TASK, [TextExample(str(n), "x", label=n % 2, group="g") for n in range(9)], 0.1, seed=0)
