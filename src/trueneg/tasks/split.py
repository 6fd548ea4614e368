"""Stratified parts of labelled data, the same for the same seed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trueneg.errors import ConfigError, TaskError
from trueneg.tasks.base import Split, Task

E = TypeVar("E")


def stratified_order(labels: Sequence[Hashable], seed: int) -> NDArray[np.int64]:
    """Order examples so that every prefix of the order preserves each label's share.

    Within a label the order is random; its ``k``-th example is at ``(k + 1/2) / n`` of the way, and the first of
    each label precedes all others, so that a prefix with as many examples as labels has all of them.

    Args:
        labels: ``[examples]``; equal labels for no stratification.
        seed: Seed of the draw.

    Returns:
        Indices of all examples, ``[examples]``.

    Example:
        >>> labels = ["a"] * 6 + ["b"] * 3
        >>> [labels[number] for number in stratified_order(labels, seed=0)]
        ['a', 'b', 'a', 'a', 'b', 'a', 'a', 'b', 'a']
    """
    random = np.random.default_rng(seed)
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    label = np.array([codes[label] for label in labels], dtype=np.int64)
    drawn = random.permutation(len(label))
    place = np.empty(len(label))
    size = np.bincount(label, minlength=len(codes))
    for code in range(len(codes)):
        members = drawn[label[drawn] == code]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
        place[members[:1]] = 0.0
    # Ties: frequent labels first, then in the drawn order, never in that of the file.
    return drawn[np.lexsort((-size[label[drawn]], place[drawn]))]


def stratified_subset(labels: Sequence[Hashable], num: int, seed: int) -> NDArray[np.int64]:
    """Choose ``num`` examples; with the same seed, a smaller choice is part of a larger one.

    Returns:
        Their indices in ascending order, ``[min(num, examples)]``.
    """
    return np.sort(stratified_order(labels, seed)[:num])


def split_off(
    labels: Sequence[Hashable], fraction: float, seed: int, groups: Sequence[Hashable] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split a validation part off.

    It has at least one example, or two groups if there are three; without groups, the rest keeps one example of each
    label, if there are enough.

    Args:
        labels: ``[examples]``, two or more.
        fraction: Share to split off, between 0 and 1.
        seed: Seed of the draw.
        groups: Group of each example, ``[examples]``, two or more different ones: each is kept or split off as a whole,
            until the part's share of the examples is as near to ``fraction`` as it gets. A group counts as of its first
            example's label.

    Returns:
        Indices of the rest and of the validation part, each in ascending order.

    Raises:
        ConfigError: for a fraction that is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"the validation fraction must be between 0 and 1, got {fraction}")
    if groups is None:
        order = stratified_order(labels, seed)
        num_kept = len(order) - min(max(1, round(fraction * len(order))), len(order) - 1)
        return np.sort(order[:num_kept]), np.sort(order[num_kept:])
    number_of = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    group = np.array([number_of[one] for one in groups])
    firsts = np.unique(group, return_index=True)[1]
    last_first = stratified_order([labels[first] for first in firsts], seed)[::-1]
    num_examples = np.bincount(group)[last_first].cumsum()[:-1]
    # Of a single group, no interval can be computed.
    num_aside = max(int(np.abs(num_examples - fraction * len(group)).argmin()) + 1, min(2, len(num_examples)))
    is_aside = np.isin(group, last_first[:num_aside])
    return np.flatnonzero(~is_aside), np.flatnonzero(is_aside)


@dataclass(frozen=True)
class ValidationPart:
    """The part of a training split that serves as ``dev`` if no validation split was given."""

    fraction: float
    seed: int

    def __str__(self) -> str:
        """Describe it in a note."""
        return f"{self.fraction:.0%} of the training split is set aside as 'dev' (seed {self.seed})"

    def of(
        self, whole: Split[E], labels: Sequence[Hashable], where: str, groups: Sequence[Hashable] | None = None
    ) -> Split[E]:
        """Return the part set aside of a training split if it is read as ``dev``, else the rest.

        Args:
            whole: All examples; ``in_other_part`` is added to its counts.
            labels: Their labels, whose shares are kept.
            where: The data, for a message.
            groups: Their groups, which are not divided.

        Raises:
            TaskError: if there is only one example, or one group.
        """
        if len({*(range(len(labels)) if groups is None else groups)}) < 2:
            few = "example" if groups is None else "group"
            raise TaskError(f"--data {where}: one {few} is too few to set a part aside: give a validation file")
        stays, aside = split_off(labels, self.fraction, self.seed, groups)
        kept = [whole.examples[number] for number in (aside if whole.name == "dev" else stays)]
        return replace(whole, examples=kept, counts={**whole.counts, "in_other_part": len(labels) - len(kept)})


def train_fraction(task: Task[E], examples: Sequence[E], fraction: float, seed: int) -> list[E]:
    """Keep a share of the training examples, and at least as many as the task has labels.

    With the same seed, 1 % is part of 10 %, for tasks whose ``subset`` behaves like ``stratified_subset``.

    Raises:
        ConfigError: for a fraction outside (0, 1].
    """
    if not 0 < fraction <= 1:
        raise ConfigError(f"train_fraction must be in (0, 1], got {fraction}")
    if fraction == 1:
        return list(examples)
    return task.subset(examples, max(1, len(task.labels), round(fraction * len(examples))), seed)


def hold_out(task: Task[Any], examples: Sequence[Any], fraction: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Hold out a share of the training examples; those of one group (``Task.groups``) stay together.

    What is held out would otherwise share premises or passages with what is trained on. A group counts as of its first
    example's label, and the share is one of the groups.

    Returns:
        The examples to train on, and those held out; each at least one group.

    Raises:
        TaskError: if there is only one group, or one example.
    """
    groups = [number if group is None else group for number, group in enumerate(task.groups(examples))]
    firsts: dict[int | str, Any] = {}
    for group, example in zip(groups, examples, strict=True):
        firsts.setdefault(group, example)
    if len(firsts) < 2:
        raise TaskError(f"'{task.name}': all examples are of one group: give more, or hold none out")
    # Select what to keep: a subset has an example of every label, which training needs.
    num_kept = max(1, len(firsts) - max(1, round(fraction * len(firsts))))
    chosen = {example.key for example in task.subset(list(firsts.values()), num_kept, seed)}
    kept = {group for group, example in firsts.items() if example.key in chosen}
    is_kept = [group in kept for group in groups]
    return list(compress(examples, is_kept)), list(compress(examples, (not keep for keep in is_kept)))
