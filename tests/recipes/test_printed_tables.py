"""The papers' tables as they are printed: figures, averages and differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trueneg.recipes.papers import AVERAGE, CLINE_TABLE5, TN_TABLE3, TN_TABLE7, PrintedTable


def test_differences_are_from_the_row_that_the_papers_are_from() -> None:
    """CLINE continues RoBERTa in the paper, and BERT where a scale has no RoBERTa."""
    table = replace(CLINE_TABLE5, baselines={"BERT": "RoBERTa"}).averaged(CLINE_TABLE5.columns)
    assert table.difference("CLINE", "BERT", "IMDB") == pytest.approx(94.7 - 93.9)
    assert table.difference("CLINE", "continued", "IMDB") is None
    assert table.figure("CLINE", AVERAGE) == pytest.approx((94.7 + 92.3 + 80.4 + 55.4) / 4, abs=0.005)
    assert TN_TABLE3.averaged(TN_TABLE3.columns[:-1]) is TN_TABLE3, "the paper's own, however it was rounded"


@pytest.mark.parametrize(
    ("table", "printed"),
    [
        (TN_TABLE3, {"BERT-base": (0.7, 0.6), "BERT-large": (0.4, 0.4)}),
        (TN_TABLE3, {"ELECTRA-small": (1.0, 1.5), "ELECTRA-base": (0.7, 0.6)}),
        (TN_TABLE7, {"ELECTRA-small": (0.8, 1.4), "ELECTRA-base": (1.6, 1.3)}),
    ],
)
def test_differences_of_averages_are_those_that_the_paper_prints(
    table: PrintedTable, printed: dict[str, tuple[float, float]]
) -> None:
    """Its differences were taken before averages were rounded: 83.5 is 0.7 more than 82.9."""
    for model, differences in printed.items():
        found = tuple(table.difference(f"{model} {arm}", model, AVERAGE) for arm in ("HC", "SR"))
        assert found == pytest.approx(differences)
    rounded = TN_TABLE3.averaged(["CoLA", "SST"])
    assert rounded.difference("BERT-base HC", "BERT-base", AVERAGE) == pytest.approx(1.0), "of other tasks: its figures"
