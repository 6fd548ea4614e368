"""Scores of a model's test predictions by GLUE's server, read from a small file that the user writes.

``glue-test.csv`` in a model's folder of results, in percent as on the server's page::

    task,score
    CoLA,52.1
    SST-2,93.5
    MRPC,84.8

or ``glue-test.json``: ``{"CoLA": 52.1, "SST-2": 93.5}``. Where the page has two numbers, give the one that the papers
average: accuracy of MRPC and QQP (the second), Spearman of STS-B (the second), MNLI-m.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from trueneg.errors import TaskError, unknown_name
from trueneg.evaluation.results.store import find_results, load_result
from trueneg.files.names import distinct_names
from trueneg.files.records import read_record
from trueneg.files.text import csv_rows
from trueneg.reporting.tables import Column, Table
from trueneg.tasks.records import read_lines

FILES = ("glue-test.csv", "glue-test.json")
TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "QNLI", "RTE")
_NAMES = {name.lower(): name for name in TASKS} | {"mnli": "MNLI-m", "sst": "SST-2", "sts": "STS-B"}
_REMEDY = "write one line a task: CoLA,52.1"


def server_scores(folder: str | Path) -> dict[str, float] | None:
    """Read a model's scores by task, in percent; None if there are none.

    Raises:
        TaskError: for an unknown task (with the closest name), a task given twice, or a score that is not a percentage.
    """
    found = [path for name in FILES if (path := Path(folder) / name).is_file()]
    if len(found) > 1:
        raise TaskError(f"'{found[0]}' and '{found[1]}' are both there: keep one")
    if not found:
        return None
    (path,) = found
    if path.suffix == ".json":
        given = [
            (name, score, str(path)) for name, score in read_record(dict[str, float], path, TaskError, _REMEDY).items()
        ]
    else:
        given = _rows(path)
    scores: dict[str, float] = {}
    for name, score, where in given:
        task = _NAMES.get(name.strip().lower())
        if task is None:
            raise TaskError(f"{where}: {unknown_name('task', name, TASKS)}")
        if task in scores:
            raise TaskError(f"{where}: {task} is there twice: keep one")
        if not -100 <= score <= 100:
            raise TaskError(f"{where}: {task} is {score}: give percent, as the server's page does")
        scores[task] = score
    if scores and all(abs(score) <= 1 for score in scores.values()):
        raise TaskError(f"'{path}' has shares: give percent, as the server's page does")
    return scores


def _rows(path: Path) -> list[tuple[str, float, str]]:
    rows = []
    lines = [f"{line}\n" for _, line in read_lines(path)]
    for line, cells in csv_rows(path, lines, ",", TaskError):
        try:
            name, score = cells
            if (line, score.strip().lower()) != (1, "score"):
                rows.append((name, float(score), f"{path}:{line}"))
        except ValueError:
            raise TaskError(f"{path}:{line}: not a task and a number: {_REMEDY}") from None
    return rows


def server_table(folders: Sequence[str | Path]) -> Table | None:
    """Tabulate the server's scores as Table 7 of "Pre-training on True Negatives" does; None if no folder has any.

    Average and Δ are given for models with all eight tasks; Δ is relative to the first of them. Params are as
    counted in fine-tuning, with the task head.
    """
    known = {
        name: (folder, server_scores(folder)) for name, folder in zip(distinct_names(folders), folders, strict=True)
    }
    rows, notes, first = [], [], math.nan
    for name, (folder, scores) in known.items():
        if scores is None:
            continue
        missing = [task for task in TASKS if task not in scores]
        average = None if missing else statistics.fmean(scores.values())
        if missing:
            notes.append(f"{name} has no average: {', '.join(missing)} missing in its file.")
        delta = None if average is None or math.isnan(first) else average - first
        first = average if average is not None and math.isnan(first) else first
        rows.append([name, _parameters(folder), *(scores.get(task) for task in TASKS), average, delta])
    if not rows:
        return None
    columns = [Column("model"), Column("params", _millions, is_number=True)]
    columns += [Column(task, "{:.1f}".format, is_number=True) for task in (*TASKS, "average")]
    columns.append(Column("Δ", "{:+.1f}".format, is_number=True))
    notes.append("As its user copied them from GLUE's server: one submission a model, without seeds or intervals.")
    return Table(columns, rows, "GLUE test (server)", notes)


def _parameters(folder: str | Path) -> int | None:
    counted = (load_result(path).train.get("parameters") for path in find_results(Path(folder)))
    return next((int(number) for number in counted if number), None)


def _millions(number: int) -> str:
    return f"{number / 1e6:.0f}M"


def as_data(table: Table | None) -> Mapping[str, object]:
    """Return the table's values for JSON; empty if there is no table."""
    if table is None:
        return {}
    return {
        "glue_test": {"columns": [column.name for column in table.columns], "rows": table.rows, "notes": table.notes}
    }
