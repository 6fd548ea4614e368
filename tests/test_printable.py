from __future__ import annotations

import csv
import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.terminal.printable import printable, printable_lines, spreadsheet_cell


@given(st.text(st.characters(codec=None)))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for shown in (printable(text), printable_lines(text).replace("\n", "")):
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
        assert not {unicodedata.bidirectional(c) for c in shown} & {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI"}
        shown.encode()


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("naïve café", "日本語", "e\u0301", "👩\u200d🚀", "[red]x[/]"):
        assert printable(text) == text


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "@SUM(1+1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\r=1", "=1\x1b"])
def test_formulas_are_text_in_a_csv(text: str) -> None:
    out = io.StringIO()
    csv.writer(out).writerow([spreadsheet_cell(text)])
    (row,) = csv.reader(io.StringIO(out.getvalue()))
    assert row[0][0] in "' "


@pytest.mark.parametrize("text", ["-0.5", "+1.2e-3", "12", "-3 [-4, 1]", "=", "a=b", "50%", "-1,234.5%"])
def test_numbers_stay_numbers(text: str) -> None:
    assert spreadsheet_cell(text) == text or text in ("=", "-3 [-4, 1]")
