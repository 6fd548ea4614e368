"""A least-recently-used cache with a maximum size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the values of the most recently used keys.

    Args:
        max_size: Number of entries kept between calls; 0 keeps none.

    Example:
        >>> cache = BoundedCache(2)
        >>> cache.look_up(["b", "a", "b"], lambda new: [print(new) or word.upper() for word in new])
        ['b', 'a']
        ['b', 'a']
        ['B', 'A', 'B']
        >>> cache.look_up(["b", "c"], lambda new: map(str.upper, new)), "a" in cache, "b" in cache
        (['B', 'C'], False, True)
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._values: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        """Whether a key's value is cached."""
        return key in self._values

    def look_up(self, keys: Sequence[K], compute: Callable[[list[K]], Iterable[V]]) -> list[V]:
        """Return the value of each key.

        Args:
            keys: In any order, with repetitions.
            compute: Called once with the keys that are not cached, if any, without repetitions and in the order of
                ``keys``. Returns their values in that order.
        """
        distinct = dict.fromkeys(keys)
        if new := [key for key in distinct if key not in self._values]:
            self._values.update(zip(new, compute(new), strict=True))
        for key in distinct:
            self._values.move_to_end(key)
        values = [self._values[key] for key in keys]
        while len(self._values) > self.max_size:
            self._values.popitem(last=False)
        return values
