from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.errors import CorpusError
from trueneg.files.records import parse_record, read_record, read_record_lines


@dataclass(frozen=True)
class Part:
    num: int
    sums: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    name: str = ""


def parse(content: bytes | str) -> Whole:
    return parse_record(Whole, content, "'x.json'", CorpusError, "build it again")


def test_what_was_written_is_read() -> None:
    found = parse('{"parts": [{"num": 3, "sums": {"a": 1}}], "name": "ü"}')
    assert found == Whole((Part(3, {"a": 1.0}),), "ü")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"parts": [{"num": "3"}]}', "parts.0.num"),
        ('{"parts": [{"num": 3.5}]}', "parts.0.num"),
        ('{"parts": [{"num": true}]}', "parts.0.num"),
        ('{"parts": [{}]}', "parts.0.num"),
        ('{"parts": [{"num": 1, "sums": {"a": null}}]}', "parts.0.sums.a"),
        ('{"parts": [{"num": 1, "mun": 2}]}', "parts.0.mun"),
        ('{"parts": [], "nmae": ""}', "nmae"),
        ('{"parts": null}', "parts"),
        ("{}", "parts"),
        ("[]", "it"),
        ("3", "it"),
        ("", "empty"),
        ('{"parts": []', "no JSON"),
        ('{"parts": []} {}', "no JSON"),
        ('{"parts": []}, {"parts": []}', "it"),
        ("[" * 100_000, "no JSON"),
        ('{"parts":' * 100_000, "no JSON"),
        ('{"parts": [{"num": ' + "9" * 5000 + "}]}", "no JSON"),
        (b'{"parts": [], "name": "\xff"}', "no JSON"),
        ('{"parts": [], "name": "\\ud800"}', "no JSON"),
        ('{"parts": [], "name": "\ud800"}', "no JSON"),
        (b"\x00" * 100, "no JSON"),
    ],
)
def test_anything_else_is_one_short_error_with_file_field_and_remedy(content: bytes | str, named: str) -> None:
    with pytest.raises(CorpusError) as caught:
        parse(content)
    message = str(caught.value)
    assert message.startswith("'x.json' is damaged: ")
    assert message.endswith(": build it again")
    assert named in message
    assert len(message) < 250


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["parts", "num", "sums"]), inner),
    max_leaves=8,
)


@given(st.binary(max_size=60) | json_values.map(lambda value: __import__("json").dumps(value).encode()))
def test_no_content_does_anything_else(content: bytes) -> None:
    try:
        found = parse(content)
    except CorpusError:
        return
    assert all(type(part.num) is int for part in found.parts)


def test_plain_types_are_shapes_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"cat": [1, 2]}')
    assert read_record(dict[str, list[int]], tmp_path / "a.json", CorpusError, "again") == {"cat": [1, 2]}


def test_a_missing_file_is_an_error_of_the_same_kind(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.json.*build"):
        read_record(Whole, tmp_path / "none.json", CorpusError, "build it again")
    with pytest.raises(CorpusError, match=r"none\.json.*build"):
        list(read_record_lines(Whole, tmp_path / "none.json", CorpusError, "build it again"))


def test_lines_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"num": 1}\n\n{"num": 2}\n{"num": "\u2028"}\n')
    lines = read_record_lines(Part, tmp_path / "a.jsonl", CorpusError, "again")
    assert [next(lines), next(lines)] == [(1, Part(1)), (3, Part(2))]
    with pytest.raises(CorpusError, match="line 4"):
        next(lines)
