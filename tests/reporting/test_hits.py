"""Hits of triplets that replace other words are shown apart, and never compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from page_reader import Page

from trueneg.reporting.findings import layers_of, of_hits, of_similarity, short_checkpoints, similarities_of, summary
from trueneg.reporting.html import write_report
from trueneg.reporting.sources import read_sources

MANY = {"form": "5.0 words by synonyms, 2.2 by antonyms", "settings": ["replaced=many"]}
ONE: dict[str, Any] = {"form": "one word each", "settings": []}


def write(path: Path, about: dict[str, Any] | None = None, /, **hits: tuple[float, dict[str, Any]]) -> Path:
    layers = {"way": "mean", "paper_layer": 1, "chosen_layer": 1, "chosen_ties": 0.0}
    records = [
        {"checkpoint": name, "curve": [0.4, top], "chosen": {"estimate": top, "low": 0.1, "high": 0.9, "num": 9}}
        | layers
        | made
        for name, (top, made) in hits.items()
    ]
    path.write_text(json.dumps({"triplets": records} | (about or {})))
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


def write_similarity(path: Path, checkpoint: str, spearman: float, num: int, **about: str) -> Path:
    ends = [spearman - 0.02, spearman + 0.02]
    record = {"checkpoint": checkpoint, "pooling": "mean", "spearman": spearman, "interval": ends, "num_examples": num}
    path.write_text(json.dumps({"sts": [record], **about}))
    return path


def test_encoders_measured_on_other_data_are_not_compared(tmp_path: Path) -> None:
    files = [
        write_similarity(tmp_path / "base.json", "runs/base", 0.80, 1500, data="glue/STS-B", split="dev"),
        write_similarity(tmp_path / "other.json", "runs/other", 0.90, 1500, data="/data/SICK", split="dev"),
        write_similarity(tmp_path / "again.json", "runs/again", 0.70, 1500, data="/data/SICK/", split="dev"),
        write_similarity(tmp_path / "split.json", "runs/split", 0.90, 1500, data="glue/STS-B", split="test"),
        write_similarity(tmp_path / "fewer.json", "runs/fewer", 0.90, 100, data="glue/STS-B", split="dev"),
        write_similarity(tmp_path / "same.json", "runs/same", 0.90, 1500, data="glue/STS-B", split="dev"),
    ]
    found = list(of_similarity(similarities_of(read_sources(files))))
    told = [(one.contender.removeprefix("runs/"), one.baseline.removeprefix("runs/"), one.standing) for one in found]
    assert told == [
        *[("other", "base", "open"), ("again", "other", "worse"), ("split", "base", "open"), ("fewer", "base", "open")],
        ("same", "base", "better"),
    ]
    lacking = [one for one in found if one.gain is None]
    assert len(lacking) == 3 and "3 more cannot be compared" in summary(found)
    assert "/data/SICK dev (1,500 examples) and glue/STS-B dev (1,500 examples): cannot be" in lacking[0].reason
    words = Page(write_report(files, tmp_path / "r.html").read_text(encoding="utf-8")).words
    assert "cannot be compared" in words and "--task sts --data glue/STS-B --split test" in words


def test_the_examples_themselves_count_more_than_where_they_were(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{name}.json", {"data": data, "examples": digest}, **{name: (0.5, ONE)})
        for name, data, digest in (("base", "here", "aa"), ("moved", "there", "aa"), ("changed", "here", "bb"))
    ]
    found = list(of_hits(layers_of(read_sources(files))))
    assert [(one.contender, one.gain is None) for one in found] == [("moved", False), ("changed", True)]
    again = write(tmp_path / "other.json", {"data": "elsewhere", "examples": "cc"}, other=(0.5, ONE))
    words = [
        Page(write_report(read, tmp_path / "page.html").read_text()).words for read in (files[:2], [*files, again])
    ]
    assert "Hits by mean, % (one word each)" in words[0]
    assert all(f"Hits by mean, % (one word each, {data})" in words[1] for data in ("here", "elsewhere"))
    assert "one word each, there" not in words[1], "the same examples as here"


def test_encoders_of_one_folder_name_are_told_apart(tmp_path: Path) -> None:
    paths = ["repro/jobs/base-s1/out/run", "repro/jobs/hc-s1/out/run", "org/name"]
    files = [write_similarity(tmp_path / f"{at}.json", path, 0.5, 9) for at, path in enumerate(paths)]
    records = similarities_of(read_sources(files))
    assert list(short_checkpoints(records).values()) == ["base-s1/out/run", "hc-s1/out/run", "org/name"]
    assert list(short_checkpoints(records[:1]).values()) == ["out/run"]
    found = next(of_similarity(records))
    assert (found.contender, found.baseline) == ("hc-s1/out/run", "base-s1/out/run")
