"""The table and the curves of a measurement of detectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from trueneg.reporting.detection import COLUMNS, markdown, plot_curves, table_rows


def made_up_summary() -> dict[str, Any]:
    def row(detector: str, **changes: Any) -> dict[str, Any]:
        return {
            **{"detector": detector, "average_precision": 0.4321, "average_precision_interval": [0.4, 0.47]},
            **{"average_precision_any": 0.5, "precision": 0.6, "recall": 0.3, "f1": 0.4, "threshold": 0.62},
            **{"threshold_from": "calibrated", "is_fitted": False, "precision_at_reference_recall": 0.68},
            **{"antonyms_accepted": 0.05, "sisters_accepted": None, "chance": 0.09, "num_items": 1234},
            **{"num_targets": 37, "ms_per_substitution": 1.2345},
            **changes,
        }

    readings = [
        {
            **{
                "level": "most",
                "items": "all",
                "num_items": 1234,
                "num_targets": 37,
                "num_accepted": 9,
                "chance": 0.09,
            },
            **{"average_precision": 0.4321, "precision": None, "recall": 0.3, "f1": 0.4},
            "intervals": {**{key: [0.25, 0.5] for key in ("average_precision", "recall", "f1")}, "precision": None},
        }
    ]
    curve = {"threshold": [0.9, 0.1], "precision": [1.0, 0.09], "recall": [0.1, 1.0]}
    change = {"estimate": -0.1, "low": -0.2, "high": 0.05, "num": 37}
    rate = {"num": 120, "num_accepted": 6, "share": {"estimate": 0.05, "low": 0.01, "high": 0.1, "num": 90}}
    first = {"detector": "a|b", "readings": readings, "curve": curve, "differences": {}, "errors": {"antonyms": rate}}
    return {
        "rows": [row("a|b"), row("fitted", threshold=None, precision=None, is_fitted=True)],
        "measured": [first, {**first, "detector": "fitted", "differences": {"most": change}, "errors": {}}],
        "data": {"dev.json.gz": "ab"},
        "options": {"precision": 0.6, "folds": 10},
    }


def test_rows_for_people() -> None:
    first, second = (dict(zip(COLUMNS, row, strict=True)) for row in table_rows(made_up_summary()))
    assert first == {
        **{
            "detector": "a|b",
            "gap": "–",
            "average_precision": "0.432 [0.400, 0.470]",
            "average_precision_any": "0.500",
        },
        **{"precision": "0.600", "recall": "0.300", "f1": "0.400", "threshold": "0.62 (calibrated)"},
        **{"precision_at_reference_recall": "0.680", "antonyms_accepted": "5.0%", "sisters_accepted": "–"},
        **{"ms_per_substitution": "1.23"},
    }
    assert second["threshold"] == second["precision"] == "–"
    assert table_rows(made_up_summary(), ["recall", "detector"])[0] == ["0.300", "a|b"]


def test_markdown_says_it_all() -> None:
    text = markdown(made_up_summary())
    assert "dev.json.gz" in text
    assert "1,234 substitutes of 37 words" in text
    assert "processor time of all threads" in text
    assert "a precision of 0.6 at" in text and "10-fold" in text
    assert "Fitted to this data, with all figures cross-validated: fitted." in text
    assert "| a\\|b | most | all | 1,234 | 0.090 | 0.432 [0.250, 0.500] | – | 0.300 [0.250, 0.500] |" in text
    assert "| fitted | most | -0.100 [-0.200, +0.050] |" in text
    assert "| a\\|b | antonyms | 6 of 120 | 5.0% [1.0%, 10.0%] |" in text
    for table in text.split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) <= 1


def test_without_comparisons_there_are_no_empty_tables() -> None:
    summary = made_up_summary()
    summary["measured"], summary["rows"] = summary["measured"][:1], summary["rows"][:1]
    summary["measured"][0]["errors"] = {}
    summary["options"]["precision"] = None
    text = markdown(summary)
    assert "Paired" not in text and "wrong meaning" not in text and "Fitted" not in text
    assert "aim at the best F1" in text


def test_curves_show_detectors_and_chance(tmp_path: Path) -> None:
    plot_curves(made_up_summary(), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_curves(made_up_summary(), tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
    for shown in ("a|b  (0.432)", "fitted  (0.432)", "chance  (0.090)", "recall", "precision"):
        assert shown in text
