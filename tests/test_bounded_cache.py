"""A cache changes how often something is computed, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trueneg.bounded_cache import BoundedCache


@given(st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=8), st.integers(0, 5))
def test_values_are_right_each_is_computed_once_a_call_and_only_the_last_are_kept(
    calls: list[list[int]], max_size: int
) -> None:
    cache: BoundedCache[int, str] = BoundedCache(max_size)
    kept: list[int] = []
    for keys in calls:
        computed: list[int] = []

        def compute(new: list[int], computed: list[int] = computed) -> list[str]:
            computed.extend(new)
            return [str(key) for key in new]

        assert cache.look_up(keys, compute) == [str(key) for key in keys]
        distinct = list(dict.fromkeys(keys))
        assert computed == [key for key in distinct if key not in kept]
        kept = [*(key for key in kept if key not in distinct), *distinct][-max_size:] if max_size else []
        assert [key for key in range(10) if key in cache] == sorted(kept)
