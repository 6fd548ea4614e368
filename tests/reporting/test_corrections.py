"""Table 2 as lines of text and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trueneg.errors import ConfigError
from trueneg.reporting.corrections import heading, plot_over_training, table_rows


def record(detector: str, fraction: float | None, **others: Any) -> dict[str, Any]:
    share = {"estimate": 0.0707, "low": 0.061, "high": 0.0803, "num": 100}
    fields = {
        "checkpoint": "runs/base",
        "text": "wiki.txt",
        "sequences": "lines",
        "num_rows": 2000,
        "readings": {"mispredicted": 0.4321},
        "shares": {"of_rows": share, "of_mispredicted": share, "of_masked": None},
    }
    return {"detector": detector, "fraction": fraction} | fields | others


def test_columns_are_what_tells_records_apart_and_the_shares() -> None:
    records = [record("lexical", 0.0625), record("lexical", 1.0)]
    assert heading(records) == ["training", "detector", "wrong, %", "of rows, %", "of wrong, %", "of masked, %"]
    shares = ["7.07 (6.10–8.03)", "7.07 (6.10–8.03)", "–"]
    assert table_rows(records) == [["6.25%", "lexical", "43.2", *shares], ["100%", "lexical", "43.2", *shares]]
    others = [record("neighbours:data/glove.txt", None), record("lexical", None, sequences="packed", num_rows=7)]
    assert heading(others)[:3] == ["sequences", "rows", "detector"]
    assert table_rows(others)[0][:3] == ["lines", "2,000", "neighbours:glove.txt"]


@pytest.mark.parametrize("name, begins", [("course.png", b"\x89PNG"), ("course.svg", b"<?xml")])
def test_a_picture_over_training(tmp_path: Path, name: str, begins: bytes) -> None:
    records = [
        record(detector, fraction, sequences=sequences)
        for sequences in ("lines", "packed")
        for detector in ("lexical", "antonym")
        for fraction in (0.25, 1.0)
    ]
    path = tmp_path / "new" / name
    plot_over_training(records, path)
    content = path.read_bytes()
    assert content.startswith(begins)
    if name.endswith("svg"):
        assert b"lexical \xc2\xb7 packed" in content and b"antonym \xc2\xb7 lines" in content
        assert b"wiki.txt" not in content  # there is one text only


def test_without_a_course_of_training_there_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="evaluate with --over-training"):
        plot_over_training([record("lexical", None)], tmp_path / "course.png")


def test_labels_are_text_whatever_they_hold(tmp_path: Path) -> None:
    records = [record(detector, 0.5) for detector in (r"$\frac$", "$x$", "_y")]
    plot_over_training(records, tmp_path / "course.svg")
    content = (tmp_path / "course.svg").read_text()
    assert r"<!-- $\frac$ -->" in content and "_y -->" in content
