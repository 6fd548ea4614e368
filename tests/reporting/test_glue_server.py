"""The server's scores of GLUE's test splits, as their user copied them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_up_results import write_model
from trueneg.errors import TaskError
from trueneg.reporting.glue_server import as_data, server_scores, server_table

# Table 7 of "Pre-training on True Negatives": our implementations of the small model.
BASE = dict(
    zip(
        ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "QNLI", "RTE"),
        (53.6, 88.9, 83.9, 80.7, 87.1, 80.1, 87.9, 63.1),
        strict=True,
    )
)
HC = dict(zip(BASE, (55.3, 90.3, 84.1, 82.0, 87.2, 80.6, 88.4, 64.3), strict=True))


def write(folder: Path, scores: dict[str, float], form: str = "csv", **fields: object) -> Path:
    write_model(folder, 0.7, seeds=(1,), **fields)
    lines = "".join(f"{task},{score}\n" for task, score in scores.items())
    text = f"task,score\n{lines}" if form == "csv" else json.dumps(scores)
    (folder / f"glue-test.{form}").write_text(text)
    return folder


def test_the_papers_table(tmp_path: Path) -> None:
    folders = [write(tmp_path / "base", BASE, train={"parameters": 13_900_000}), write(tmp_path / "hc", HC, "json")]
    table = server_table([*folders, write_model(tmp_path / "none", 0.7)])
    assert table is not None
    text = table.markdown()
    assert "| base | 14M | 53.6 | 88.9 | 83.9 | 80.7 | 87.1 | 80.1 | 87.9 | 63.1 | 78.2 | – |" in text
    assert "| hc | – | 55.3 | 90.3 | 84.1 | 82.0 | 87.2 | 80.6 | 88.4 | 64.3 | 79.0 | +0.9 |" in text
    assert "none" not in text, "the paper has +0.8: of rounded averages"
    assert as_data(table)["glue_test"]
    assert server_table([tmp_path / "none"]) is None and as_data(None) == {}


def test_missing_tasks_leave_no_average(tmp_path: Path) -> None:
    folder = write(tmp_path / "base", {"sst-2": 90.0, "MNLI": 80})
    assert server_scores(folder) == {"SST-2": 90.0, "MNLI-m": 80.0}
    table = server_table([folder])
    assert table is not None and table.rows[0][-2:] == [None, None]
    assert table.notes[0] == "base has no average: CoLA, MRPC, STS-B, QQP, QNLI, RTE missing in its file."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("task,score\nCoLA2,50\n", "glue-test.csv:2: unknown task 'CoLA2': did you mean 'CoLA'"),
        ("CoLA,50\nCoLA,51\n", "glue-test.csv:2: CoLA is there twice"),
        ("CoLA,fifty\n", "glue-test.csv:1: not a task and a number"),
        ("CoLA,50,1\n", "glue-test.csv:1: not a task and a number"),
        ("CoLA,nan\n", "CoLA is nan: give percent"),
        ("CoLA,500\n", "CoLA is 500.0: give percent"),
        ("CoLA,0.5\nRTE,0.6\n", "has shares: give percent"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "glue-test.csv").write_text(text)
    with pytest.raises(TaskError) as error:
        server_scores(tmp_path)
    assert complaint in str(error.value)
    (tmp_path / "glue-test.json").write_text('{"CoLA": "50"}')
    with pytest.raises(TaskError, match="are both there: keep one"):
        server_scores(tmp_path)
    (tmp_path / "glue-test.csv").unlink()
    with pytest.raises(TaskError, match="'CoLA' should be a valid number"):
        server_scores(tmp_path)


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "glue-test.csv").write_text("task,score\nCoLA,50\n", encoding="utf-16")
    with pytest.raises(TaskError, match=r"glue-test.csv: not UTF-8 but UTF-16"):
        server_scores(tmp_path)
