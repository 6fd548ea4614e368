"""The order of a mixture: asked shares in every prefix, and every row once an epoch of its source."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.config.mixtures import (
    Source,
    names_of,
    parse_mixture,
    with_replay,
    without_places,
    write_mixture,
)
from trueneg.corpus.build import build_corpus
from trueneg.corpus.mixture import MixedRows, Shares, weights_by_size, whole_weights
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError

WEIGHTS = st.lists(st.integers(1, 50), min_size=2, max_size=6).map(tuple)


def one_by_one(weights: tuple[int, ...], count: int) -> list[tuple[int, int]]:
    """Source and number of each position, by rounding exact fractions: the reference."""
    found, seen = [], [0] * len(weights)
    for position in range(count):
        place, left, source = position, Fraction(sum(weights)), len(weights) - 1
        for one, weight in enumerate(weights[:-1]):
            share = Fraction(weight) / left
            before, after = (
                int((value * share + Fraction(int(left) // 2) / left) // 1) for value in (place, place + 1)
            )
            if after > before:
                source = one
                break
            place, left = place - before, left - weight
        found.append((source, seen[source]))
        seen[source] += 1
    return found


@given(WEIGHTS, st.integers(1, 300))
def test_each_position_is_that_of_exact_fractions(weights: tuple[int, ...], count: int) -> None:
    source, number = Shares(weights).at(np.arange(count))
    assert list(zip(source.tolist(), number.tolist(), strict=True)) == one_by_one(weights, count)


@given(WEIGHTS, st.integers(0, 1 << 42))
def test_counts_of_a_prefix_are_the_asked_shares(weights: tuple[int, ...], position: int) -> None:
    counts, total = Shares(weights).before(position), sum(weights)
    assert sum(counts) == position
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - Fraction(position * weight, total)) <= len(weights) / 2
    # The positions around it go on from these counts, in 64 bits as in exact numbers.
    source, number = Shares(weights).at(np.arange(position, position + 64))
    for one, before in enumerate(counts):
        own = number[source == one]
        assert own.tolist() == list(range(before, before + len(own)))


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.integers(0, 2_000))
def test_small_shares_come_as_often_as_asked(first: int, second: int, count: int) -> None:
    weights = whole_weights([Fraction(first), Fraction(second)])
    source, _ = Shares(weights).at(np.arange(count))
    wanted, rounded = Fraction(count * first, first + second), Fraction(count, 1 << 20)
    assert abs(int((source == 0).sum()) - wanted) <= Fraction(1, 2) + rounded


@given(st.lists(st.fractions(min_value=Fraction(1, 10**4), max_value=10), min_size=2, max_size=8))
def test_whole_weights_are_the_weights(weights: list[Fraction]) -> None:
    whole = whole_weights(weights)
    for number, weight in zip(whole, weights, strict=True):
        assert abs(Fraction(number, sum(whole)) - weight / sum(weights)) <= Fraction(1, 1 << 20)
    assert sum(whole) <= 1 << 20


def test_a_share_that_is_no_whole_millionth_is_refused() -> None:
    with pytest.raises(ConfigError, match="source 2 has a share below one in 1,048,576"):
        whole_weights([Fraction(1), Fraction(1, 10**9)])


@pytest.mark.parametrize("temperature", [0.0, 0.3, 0.7, 1.0])
def test_temperature_is_a_power_of_sizes(temperature: float) -> None:
    sizes = [10, 1_000, 123_456]
    weights = np.array(sizes, dtype=np.float64) ** temperature
    whole = whole_weights(weights_by_size(sizes, temperature))
    assert np.array(whole) / sum(whole) == pytest.approx(weights / weights.sum(), abs=1e-6)


@pytest.fixture(scope="module")
def two(texts: list[str], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> list[RowIndex]:
    folder, found = tmp_path_factory.mktemp("two"), []
    for name, part in (("a", texts[::2]), ("b", texts[1::4])):
        text = folder / f"{name}.txt"
        text.write_text("\n\n".join(part))
        build_corpus([str(text)], wordpiece, folder / name)
        found.append(RowIndex(Corpus.open(folder / name), 16))
    return found


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), weights=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_every_row_comes_once_an_epoch_of_its_source(two: list[RowIndex], seed: int, weights: tuple[int, int]) -> None:
    mixed = MixedRows(two, ["a", "b"], [Fraction(weight) for weight in weights])
    count = 12 * len(mixed)  # each of them is read more than once, also with a tenth of the rows
    rows = mixed.at(seed, np.arange(count))
    first = len(two[0])
    for own, size in ((rows[rows < first], first), (rows[rows >= first] - first, len(two[1]))):
        assert len(own) >= size
        for begin in range(0, len(own) - size + 1, size):
            assert Counter(own[begin : begin + size].tolist()) == Counter(range(size))
    epochs = mixed.epochs(count)
    assert epochs == {"a": int((rows < first).sum()) / first, "b": int((rows >= first).sum()) / len(two[1])}
    assert mixed.progress(count)["source/a/share"] == (rows < first).mean()


def test_orders_follow_from_the_seed_and_differ_between_sources_and_epochs(two: list[RowIndex]) -> None:
    twins = MixedRows([two[0], two[0]], ["a", "b"], [Fraction(1), Fraction(1)])
    size = len(two[0])
    rows = twins.at(3, np.arange(4 * size))
    orders = [rows[rows < size][:size], rows[rows < size][size:], rows[rows >= size][:size] - size]
    assert len({order.tobytes() for order in orders}) == 3
    assert (twins.at(3, np.arange(4 * size)) == rows).all()
    assert (twins.at(4, np.arange(4 * size)) != rows).any()
    # Read anywhere, in any order and shape.
    places = np.random.default_rng(0).permutation(4 * size).reshape(2, -1)
    assert (twins.at(3, places) == rows[places]).all()


def test_rows_are_read_from_their_source(two: list[RowIndex]) -> None:
    mixed = MixedRows(two, ["a", "b"], [Fraction(1), Fraction(2)])
    assert len(mixed) == len(two[0]) + len(two[1])
    wanted = np.random.default_rng(1).permutation(len(mixed))
    batch = mixed.read(wanted)
    whole = [
        np.concatenate([getattr(rows.read(np.arange(len(rows))), name) for rows in two])
        for name in ("input_ids", "segments", "is_whole_word")
    ]
    for name, expected in zip(("input_ids", "segments", "is_whole_word"), whole, strict=True):
        assert (getattr(batch, name) == expected[wanted]).all()
    assert batch.substitutes is None and batch.tags is None
    assert mixed.mean_fill == pytest.approx((two[0].mean_fill + 2 * two[1].mean_fill) / 3)
    with pytest.raises(IndexError, match="row number"):
        mixed.read(np.array([len(mixed)]))


def test_a_mixture_is_written_as_it_is_read() -> None:
    assert [(one.path, one.weight) for one in parse_mixture('C:/data/wiki:0.70,  "a,b:1":3e-1')] == [
        ("C:/data/wiki", Fraction(7, 10)),
        ("a,b:1", Fraction(3, 10)),
    ]
    assert parse_mixture("D:/x, y") == (Source("D:/x"), Source("y"))
    odd = (Source("odd:1", Fraction(2, 3)), Source(" spaced ", Fraction(1, 3)), Source("a,b", Fraction(5)))
    assert parse_mixture(write_mixture(odd)) == tuple(Source(one.path, one.weight * 3) for one in odd)
    assert (
        without_places("x/wiki:0.7, /else/where:0.3") == without_places("a:0.70,b:.3") != without_places("a:0.3,b:.7")
    )


@given(
    st.lists(
        st.tuples(st.text("ab:,1. /", min_size=1), st.fractions(Fraction(1, 99), 99)),
        min_size=2,
        unique_by=lambda one: one[0],
    )
)
def test_any_folders_can_be_written(found: list[tuple[str, Fraction]]) -> None:
    sources = [Source(path, weight) for path, weight in found]
    try:
        read = parse_mixture(write_mixture(sources))
    except ConfigError as error:
        assert "named twice" in str(error)
        return
    assert [one.path for one in read] == [one.path for one in sources]
    assert len({one.weight / two.weight for one, two in zip(read, sources, strict=True)}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:0,b:1", "the weight of 'a' must be above 0 and finite, got 0"),
        ("a:1,b:-1", "the weight of 'b' must be above 0 and finite, got -1"),
        ("a:1,b:nan", "finite, got nan"),
        ("a:inf,b:1", "finite, got inf"),
        ("a:1e400,b:1", "finite, got 1e400"),
        ("a:0.7,b", "'a' has a weight and 'b' has none: give every corpus one, as b:0.3"),
        ("a:1,./a:2", "'./a' is named twice"),
        ("a:1", "names one corpus, a:1: name another, or give corpus.path instead"),
        ("a:1,,b:1", "no folder is named"),
        ('"a:1,b:1', "a double quote is not closed"),
        ('"a"b:1,c:1', "after a quoted folder comes a colon"),
    ],
)
def test_what_is_no_mixture_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mixture(text)
    assert message in str(caught.value) and "corpus.mixture" in str(caught.value)


def test_replay_leaves_the_rest_to_the_others() -> None:
    sources = with_replay([Source("a", Fraction(2)), Source("b", Fraction(1))], [Source("g", Fraction(1, 10))])
    assert [one.weight for one in sources] == [Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)]
    assert write_mixture(with_replay([Source("a")], [Source("g", Fraction(1, 3))])) == "a:2, g:1"


@pytest.mark.parametrize(
    ("own", "replay", "message"),
    [
        ([Source("a")], [Source("g")], "which share of all rows, between 0 and 1: g:0.1"),
        ([Source("a")], [Source("g", Fraction(1))], "between 0 and 1"),
        ([Source("a")], [Source("g", Fraction(1, 2)), Source("h", Fraction(1, 2))], "leaves nothing for --corpus"),
        ([Source("a"), Source("b")], [Source("g", Fraction(1, 2))], "needs their weights"),
        ([Source("a")], [Source("a", Fraction(1, 2))], "named twice"),
    ],
)
def test_what_is_no_replay_is_refused(own: list[Source], replay: list[Source], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_replay(own, replay)


def test_short_names_tell_folders_apart() -> None:
    assert names_of(["/x/a/corpus", "/x/b/corpus/", "/x/c/other"]) == ["a/corpus", "b/corpus", "c/other"]
