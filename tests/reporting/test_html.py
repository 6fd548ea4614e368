"""The page about runs: what it shows, that it needs nothing else, and that text in it stays text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from trueneg.config import PretrainConfig
from trueneg.decoding import override, save_config
from trueneg.errors import TruenegError
from trueneg.reporting.html import write_report


def make_run(folder: Path, name: str, losses: list[float], *, with_corrections: bool = False) -> Path:
    run = folder / name
    run.mkdir()
    config = override(PretrainConfig(preset="electra-tiny"), ["train.steps=20", "correction.detector=lexical"])
    save_config(config, run / "config.json")
    records = [
        {"step": 10 * number, "kind": kind, "gold_loss": loss, "tokens_per_second": 1234.5}
        for number, loss in enumerate(losses, 1)
        for kind in ("train", "eval")
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if with_corrections:
        found = [
            {
                "gold": "primary",
                "predicted": "main",
                "probability": p,
                "gold_probability": 0.1,
                "before": "<script>alert(1)</script> whose",
                "after": "function",
            }
            for p in (0.75, 0.5)
        ]
        result = {"readings": {"mispredicted": 0.5, "corrected": 0.0123}, "corrections": found}
        (run / "false-negatives.json").write_text(json.dumps(result))
    return run


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            value for name, value in attrs if name in ("src", "href") and value and not value.startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_report_shows_losses_settings_and_corrections(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.25, 4.125], with_corrections=True)
    page = Page(write_report([run], tmp_path / "out" / "report.html").read_text())
    for shown in ("hc", "lexical", "20 of 20", "4.125", "1,234", "1.23%", "primary", "main", "0.75"):
        assert shown in page.words, shown
    assert "0.50" not in page.words  # the same pair again
    assert "svg" in page.tags


def test_a_report_needs_nothing_else_and_keeps_text_as_text(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.0], with_corrections=True)
    page = Page(write_report([run], tmp_path / "report.html").read_text())
    assert page.links == []
    assert "script" not in page.tags
    assert "<script>alert(1)</script> whose" in page.words


def test_runs_stand_side_by_side(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "base", [5.0, 4.5]), make_run(tmp_path, "hc-sr", [5.0, 4.25])]
    page = Page(write_report(runs, tmp_path / "report.html").read_text())
    for shown in ("base", "hc-sr", "4.500", "4.250"):
        assert shown in page.words


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(TruenegError, match="holds no run"):
        write_report([tmp_path], tmp_path / "report.html")


def test_a_record_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.25, 4.125])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 30, "gold_lo')
    assert "4.125" in Page(write_report([run], tmp_path / "report.html").read_text()).words
