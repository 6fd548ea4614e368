"""The page about runs: what it shows, that it needs nothing else, and that text in it stays text."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from page_reader import Page

from trueneg.config.codec import override, save_config
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError, TruenegError, TruenegWarning
from trueneg.reporting.html import write_report
from trueneg.terminal.printable import printable


def make_run(
    folder: Path, name: str, losses: list[float], *settings: str, with_corrections: bool = False, **more: float
) -> Path:
    run = folder / name
    run.mkdir(parents=True)
    options = ["train.steps=20", "correction.detector=lexical", *settings]
    config = override(PretrainConfig(preset="electra-tiny"), options)
    save_config(config, run / "config.json")
    records = [
        {"step": 10 * number, "kind": kind, "gold_loss": loss, "tokens_per_second": 1234.5, "seconds": 75.0, **more}
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
        told = {"detector": "lexical", "text": "/home/me/corpora/news", "num_rows": 1200, "later": "key"}
        result = {"readings": {"mispredicted": 0.5, "corrected": 0.0123}, "corrections": found, **told}
        (run / "false-negatives.json").write_text(json.dumps(result))
    return run


def test_a_report_shows_losses_settings_and_corrections(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.25, 4.125], with_corrections=True)
    page = Page(write_report([run], tmp_path / "out" / "report.html").read_text())
    for shown in ("hc", "lexical", "20 of 20", "4.125", "1,234", "1.23%", "primary", "main", "0.75"):
        assert shown in page.words, shown
    assert "0.50" not in page.words  # the same pair again
    assert "svg" in page.tags


def test_a_report_needs_nothing_else_and_keeps_text_as_text(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.0], with_corrections=True)
    text = write_report([run], tmp_path / "report.html").read_text()
    page = Page(text)
    assert all(link.startswith(("#", "data:text/csv")) for link in page.links if link)
    assert "alert(1)</script>" not in text and text.count("<script") == text.count("</script>")
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


def test_settings_and_cost_are_said(tmp_path: Path) -> None:
    told = ("optimizer.learning_rate=3e-4", "train.batch_size=24", "train.seed=7", "corpus.path=/data/news/built")
    page = Page(write_report([make_run(tmp_path, "hc", [5.0], *told)], tmp_path / "report.html").read_text())
    for shown in ("0.0003", "24 rows of 128 tokens", "news/built", "1 min 15 s", "config.json"):
        assert shown in page.words, shown
    assert re.search(r"seed\s*7\b", page.words) and "/data" not in page.words


def test_corrections_are_not_called_right(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.0], with_corrections=True)
    words = Page(write_report([run], tmp_path / "report.html").read_text()).words
    assert "lexical accepts 1.23% of these mispredictions, 2 in all" in words and "about 18 in 100 were right" in words
    assert "On 1,200 held-out rows of corpora/news the model mispredicted 50.00%" in words
    assert "Right answers" not in words


def test_runs_of_different_lengths_are_not_compared_without_a_word(tmp_path: Path) -> None:
    base, same = make_run(tmp_path, "base", [5.0, 4.0, 3.0]), make_run(tmp_path, "same", [5.0, 4.0, 3.5])
    short = make_run(tmp_path, "short", [5.0], "train.batch_size=8", "corpus.path=other")
    assert "Note:" not in Page(write_report([base, same], tmp_path / "a.html").read_text()).words
    words = Page(write_report([base, short], tmp_path / "b.html").read_text()).words
    for said in ("different numbers of steps (base 30, short 10)", "steps are of different size", "corpora differ"):
        assert said in words
    assert "train.batch_size" in words and "train.seed" not in words


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / folder, "base", [5.0]) for folder in ("runs", "other")]
    page = Page(write_report(runs, tmp_path / "report.html").read_text())
    assert "runs/base" in page.words and "other/base" in page.words
    with pytest.raises(ConfigError, match="named twice"):
        write_report([runs[0], runs[0]], tmp_path / "report.html")


def test_curves_are_charts_with_axes_in_the_pages_own_colours(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.0], accuracy=0.12, corrected=0.00012)
    text = write_report([run], tmp_path / "report.html").read_text()
    page = Page(text)
    assert page.tags.count("svg") == page.tags.count("figure") == 3
    for shown in ("steps", "nats", "%", "hc"):
        assert shown in page.words, shown
    assert "currentColor" in text and "#ffffff" not in text and "#010203" not in text
    assert "0.012" in page.words or "0.0120" in page.words  # of 100, not of 1
    loss = text[text.index("<svg") : text.index("</svg>")]
    assert loss.count("<use ") > 8  # ticks, and a mark for the one point of each kind
    assert text == write_report([run], tmp_path / "again.html").read_text()


@pytest.mark.parametrize("name", [r"$\frac$", "$a$", "_hidden", "50% <b>", "a\x1b]0;x\x07"])
def test_names_are_text_in_pictures(tmp_path: Path, name: str) -> None:
    runs = [make_run(tmp_path, name, [5.0, 4.0]), make_run(tmp_path, "base", [5.0, 4.5])]
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert Page(text).words.count(printable(name)) >= 4
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", '{"train": 3}', "train"),
        ("false-negatives.json", '{"readings": {}', "false-negatives.json' is damaged"),
        ("false-negatives.json", "[" * 100_000, "false-negatives.json' is damaged"),
        ("false-negatives.json", '{"readings": {}, "corrections": [{"gold": 3}]}', "corrections.0.gold"),
        ("false-negatives.json", '{"corrections": []}', "'readings' is missing"),
    ],
)
def test_damaged_files_of_a_run_are_named(tmp_path: Path, file: str, content: str, named: str) -> None:
    run = make_run(tmp_path, "hc", [5.0])
    (run / file).write_text(content)
    with pytest.raises(TruenegError, match=named):
        write_report([run], tmp_path / "report.html")


def test_a_damaged_line_of_readings_is_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.25, 4.125])
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b"\x00" * 40 + b"\n{}\n")
    with pytest.warns(TruenegWarning, match="2 of 6 lines are damaged"):
        assert "4.125" in Page(write_report([run], tmp_path / "report.html").read_text()).words


def test_a_file_is_readable_as_the_umask_has_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, "hc", [5.25])
    before = os.umask(0o077)
    try:
        assert write_report([run], tmp_path / "report.html").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
