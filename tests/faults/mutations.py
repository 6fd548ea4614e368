"""Files that were well-formed: their bytes, and, where they are JSON, their fields."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Reseal = Callable[[dict[str, Any]], dict[str, Any]]

# What no JSON library writes, by the text that stands for it until the rest is written.
DEEP, HUGE, NAN, INFINITE = "@@deep@@", "@@huge@@", "@@nan@@", "@@infinite@@"
_RAW = {
    f'"{DEEP}"': "[" * 100_000 + "]" * 100_000,
    f'"{HUGE}"': "9" * 5000,
    f'"{NAN}"': "NaN",
    f'"{INFINITE}"': "1e999",
}
_NUMBERS = (0, -1, 1, 7, 255, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.5, -0.0, 1e-320, 1.7e308)
_TEXTS = ("", "x", "O", "..", "../../x", "/etc/passwd", "\x00", "\x1b[31m", "\ud83d", "ﬁ", "1", "null", "a" * 300)
_VALUES: tuple[Any, ...] = (None, True, False, *_NUMBERS, *_TEXTS, DEEP, HUGE, NAN, INFINITE)
_SHAPES: tuple[Any, ...] = ([], {}, [[]], [None], {"": 0}, {"a": {"b": []}}, [0, "x"])


def mutated_value(value: Any, choose: random.Random) -> Any:
    """A JSON value with another shape, key, type or number somewhere in it: once, or a few times."""
    value = copy.deepcopy(value)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        value = _changed(value, choose)
    return value


def as_text(value: Any) -> bytes:
    """The value as JSON, with what only stands for something put in."""
    text = json.dumps(value)
    for name, raw in _RAW.items():
        text = text.replace(name, raw)
    return text.encode()


def mutated_bytes(content: bytes, choose: random.Random) -> bytes:
    """Bytes flipped, set, cut out, put in, or doubled."""
    for _ in range(choose.choice((1, 1, 2, 8))):
        at, way = choose.randrange(len(content) + 1), choose.randrange(5)
        rest = content[at + 1 :]
        if way == 0 and at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << choose.randrange(8)]) + rest
        elif way == 1:
            content = content[:at] + bytes([choose.choice(b'\x00\xff{}[]",:0-e\\ \n')]) + rest
        elif way == 2:
            content = content[:at]
        elif way == 3:
            content = content[:at] + choose.choice((b"\x00", b"[", b"}", b"\xed\xa0\x80", b"1e9", b"\n")) + content[at:]
        else:
            content = content[:at] + content[at : at + 40] + content[at:]
    return content


def _changed(value: Any, choose: random.Random) -> Any:
    """One change, somewhere."""
    places = list(_places(value))
    path = choose.choice(places)
    if not path:
        return _replaced(value, choose) if choose.random() < 0.3 or not isinstance(value, dict | list) else (
            _edited(value, choose)
        )  # fmt: skip
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    found = parent[path[-1]]
    is_edited = isinstance(found, dict | list) and choose.random() < 0.5
    parent[path[-1]] = _edited(found, choose) if is_edited else _replaced(found, choose)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _places(entry, (*path, key))


def _replaced(value: Any, choose: random.Random) -> Any:
    """Another value: of another type, of its own, or itself in other clothes."""
    way = choose.randrange(4)
    if way == 0 and isinstance(value, bool | int | float):
        return choose.choice((value + 1, value - 1, -value, value * 1000, float(value), str(value), not value))
    if way == 1 and isinstance(value, str):
        return choose.choice((value[:-1], f"{value}x", value.upper(), f"../{value}", [value], f"{value}\u2028"))
    if way == 2:
        return choose.choice(([value], {"value": value}, [value, value], str(value)))
    return copy.deepcopy(choose.choice(_VALUES + _SHAPES))


def _edited(value: Any, choose: random.Random) -> Any:
    """A list or an object that lacks something, or has something more."""
    if isinstance(value, list):
        at = choose.randrange(len(value) + 1)
        more = [copy.deepcopy(choose.choice([*value, *_VALUES]))]
        return choose.choice((value[:at] + value[at + 1 :], value[:at] + more + value[at:], value[::-1], value * 2))
    names = list(value)
    if not names or choose.random() < 0.25:
        return value | {choose.choice(("unknown", "", "schema", "a.b", "__class__")): choose.choice(_VALUES)}
    name = choose.choice(names)
    rest = {key: entry for key, entry in value.items() if key != name}
    way = choose.randrange(3)
    if way == 0:
        return rest
    return rest | ({f"{name}x": value[name]} if way == 1 else {choose.choice(names): value[name]})
