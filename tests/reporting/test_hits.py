"""Hits of triplets that replace other words are shown apart, and never compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from page_reader import Page

from trueneg.reporting.findings import layers_of, of_hits
from trueneg.reporting.html import write_report
from trueneg.reporting.sources import read_sources

MANY = {"form": "5.0 words by synonyms, 2.2 by antonyms", "settings": ["replaced=many"]}
ONE: dict[str, Any] = {"form": "one word each", "settings": []}


def write(path: Path, **hits: tuple[float, dict[str, Any]]) -> Path:
    layers = {"way": "mean", "paper_layer": 1, "chosen_layer": 1, "chosen_ties": 0.0}
    records = [
        {"checkpoint": name, "curve": [0.4, top], "chosen": {"estimate": top, "low": 0.1, "high": 0.9, "num": 9}}
        | layers
        | made
        for name, (top, made) in hits.items()
    ]
    path.write_text(json.dumps({"triplets": records}))
    return path


def test_encoders_are_compared_on_triplets_of_one_form_only(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "one.json", base=(0.5, ONE), cline=(0.8, ONE)),
        write(tmp_path / "many.json", base=(0.2, MANY), cline=(0.4, MANY)),
        write(tmp_path / "paper.json", base=(0.45, {**ONE, "settings": ["preset=paper"]})),
        write(tmp_path / "old.json", other=(0.3, {})),
    ]
    found = [(f.contender, f.baseline, f.where) for f in of_hits(layers_of(read_sources(files)))]
    assert found == [
        ("cline", "base", "triplets (one word each) by mean"),
        ("cline", "base", "triplets (5.0 words by synonyms, 2.2 by antonyms, replaced=many) by mean"),
    ]
    page = Page(write_report(files, tmp_path / "report.html").read_text(encoding="utf-8")).words
    for form in ("one word each", "one word each, preset=paper", "replaced=many", "not said"):
        assert form in page
    assert "--set replaced=many" in page  # the command that makes it again
