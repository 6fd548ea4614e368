"""Seeds and rows of a table that another machine made: ``trueneg reproduce --join``."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from answered_corrections import answer

from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.reproduction import TABLE, ReproducedTable, load_table, save_table
from trueneg.evaluation.results.store import Result, columns_of, save_result
from trueneg.files.whole import write_json
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.plan import FINISHED
from trueneg.recipes.reproduction import Planned, plan_tables
from trueneg.recipes.setting import GLUE
from trueneg.tasks.metrics import METRICS

ARMS = ("one-hot", "HC", "smoothing", "self", "soft-in-context", "soft")
FIGURES = {arm: [0.4 + row / 10 + seed * (row + 1) / 1000 for seed in range(4)] for row, arm in enumerate(ARMS)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_data(tmp_path_factory.mktemp("joining") / "made-up-data")


def planned(out: Path, data: Path, **options: Any) -> Planned:
    return plan_tables("corrections", out, data=data, **options)


def made(out: Path, data: Path, **options: Any) -> ReproducedTable:
    """Answer the jobs that are left, and read the table."""
    found = planned(out, data, **options)
    answer(found.workspace, FIGURES)
    for name in found.workspace.missing():
        folder = found.workspace.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FINISHED, asdict(found.workspace.finished(name)))
    table = found.readers["corrections"](found.workspace, "corrections", "mini")
    save_table(table, out / "corrections")
    return table


def test_seeds_of_three_machines_are_one_table(data: Path, tmp_path: Path) -> None:
    whole = made(tmp_path / "whole", data, seeds=4)
    made(tmp_path / "a", data, seeds=2)
    made(tmp_path / "b", data, seed=4)
    parts = [tmp_path / "a" / "corrections", tmp_path / "b" / "corrections" / TABLE]
    left = planned(tmp_path / "c", data, seeds=4, join=parts).workspace.missing()
    measured = [name for name in left if name.startswith(("writes-", "pretrain-"))]
    assert len(measured) == 10 and all(name.endswith("-s3") for name in measured)
    assert {"corpus-BERT-base", "prototypes-BERT-base"} < {*left}  # which the runs of seed 3 read
    joined = made(tmp_path / "c", data, seeds=4, join=parts)
    assert (joined.cells, joined.claims, joined.commands) == (whole.cells, whole.claims, whole.commands)
    (note,) = set(joined.notes) - set(whole.notes)
    assert note.startswith(f"Figures of {len(whole.commands) - len(left)} of {len(whole.commands)} jobs were made")


def test_a_row_is_added_to_the_rows_of_another_machine(data: Path, tmp_path: Path) -> None:
    core = made(tmp_path / "core", data, seeds=4)
    options = {"seeds": 4, "arms": ["soft"], "join": [tmp_path / "core" / "corrections"]}
    left = planned(tmp_path / "more", data, **options).workspace.missing()
    assert {name.rpartition("-")[0] for name in left if name.startswith("writes-")} == {"writes-soft"}
    joined = made(tmp_path / "more", data, **options)
    assert joined.rows == [*core.rows, "soft"]
    assert [cell for cell in joined.cells if cell.row != "soft"] == core.cells


def test_where_figures_came_from_is_told_of_a_table_joined_twice(data: Path, tmp_path: Path) -> None:
    made(tmp_path / "a", data, seed=1)
    made(tmp_path / "b", data, seeds=2, join=[tmp_path / "a" / "corrections"])
    twice = made(tmp_path / "c", data, seeds=2, join=[tmp_path / "b" / "corrections"])
    total = len(twice.commands)
    first, second = (note for note in twice.notes if "another folder" in note)
    assert first.startswith(f"Figures of {total} of {total} jobs were made in another folder")
    assert second.startswith("In that folder: Figures of ") and f" of {total} jobs" in second


def test_where_nothing_is_left_nothing_is_needed(data: Path, tmp_path: Path) -> None:
    made(tmp_path / "a", data, seeds=2)
    assert planned(tmp_path / "b", data, seeds=2, join=[tmp_path / "a" / "corrections"]).workspace.missing() == []


def test_in_another_plan_a_shared_job_may_have_another_name(data: Path, tmp_path: Path) -> None:
    """Models with the same tokenizer share a corpus, which is named after the first of the plan."""
    made(tmp_path / "a", data, seeds=2)
    path = tmp_path / "a" / "corrections" / TABLE
    path.write_text(path.read_text().replace("corpus-BERT-base", "corpus-RoBERTa-base"))
    assert planned(tmp_path / "b", data, seeds=2, join=[path]).workspace.missing() == []


def test_what_is_done_here_counts(data: Path, tmp_path: Path) -> None:
    """A table beside its own jobs changes nothing."""
    made(tmp_path / "a", data, seeds=2)
    again = made(tmp_path / "a", data, seeds=2, join=[tmp_path / "a" / "corrections"])
    assert not [note for note in again.notes if "another folder" in note]


def test_figures_of_jobs_that_finished_here_are_theirs(data: Path, tmp_path: Path) -> None:
    """Another machine's differ in the last digits."""
    own = made(tmp_path / "a", data, seed=1)
    other = made(tmp_path / "b", data, seeds=2)
    cells = [replace(cell, by_seed=dict.fromkeys(cell.by_seed, 90.0)) for cell in other.cells]
    save_table(replace(other, cells=cells), tmp_path / "b" / "corrections")
    joined = made(tmp_path / "a", data, seeds=2, arms=["soft"], join=[tmp_path / "b" / "corrections"])
    ours = {(cell.row, cell.column): cell.by_seed[1] for cell in own.cells}
    for cell in joined.cells:
        if cell.row != "soft":
            assert cell.by_seed == {1: ours[cell.row, cell.column], 2: 90.0}
    folder = planned(tmp_path / "a", data, seeds=2).workspace.folder("writes-HC-s1")
    (folder / FINISHED).unlink()
    again = made(tmp_path / "a", data, seeds=2, arms=["soft"], join=[tmp_path / "b" / "corrections"])
    for cell in again.cells:
        if cell.row not in ("soft", "HC"):
            assert cell.by_seed[1] == ours[cell.row, cell.column]


def test_a_table_of_another_plan_is_refused(data: Path, tmp_path: Path) -> None:
    made(tmp_path / "a", data, seeds=2)
    join = [tmp_path / "a" / "corrections"]
    with pytest.raises(ConfigError, match=r"its job 'pretrain-BERT-base-1000-s1' is '.*--lr 1e-4.*', here it is"):
        planned(tmp_path / "b", data, seeds=2, join=join, settings=["pretrain.optimizer.learning_rate=2e-5"])
    with pytest.raises(ConfigError, match="a table of corrections at --scale mini, which has no seed of a row"):
        planned(tmp_path / "b", data, seed=3, join=join)
    folder = tmp_path / "data"
    folder.mkdir()
    for place in data.iterdir():
        if place.name != "glue":
            (folder / place.name).symlink_to(place)
    (folder / "glue" / "STS-B").mkdir(parents=True)
    for file in (data / "glue" / "STS-B").iterdir():
        (folder / "glue" / "STS-B" / file.name).write_text(file.read_text() + "\n")
    with pytest.raises(ConfigError, match=r"its job 'vectors-one-hot-s1' read other data \(glue/STS-B\)"):
        planned(tmp_path / "b", folder, seeds=2, join=join)
    table = load_table(join[0])
    save_table(replace(table, recipe="tn-table2"), join[0])
    with pytest.raises(ConfigError, match="a table of tn-table2"):
        planned(tmp_path / "b", data, seeds=2, join=join)
    (join[0] / TABLE).write_text(json.dumps({"schema": 1}))
    with pytest.raises(TaskError, match=r"table\.json"):
        planned(tmp_path / "b", data, seeds=2, join=join)


TUNED = "corrections-glue"
"""A table of fine-tuning."""


def tuned(out: Path, data: Path, **options: Any) -> ReproducedTable:
    """Leave results and predictions of the fine-tunings that are left, which depend on their names alone."""
    found = plan_tables(TUNED, out, data=data, **options)
    for name in found.workspace.missing():
        folder = found.workspace.folder(name)
        if name.startswith("finetune-"):
            label, _, seed = name.rpartition("-s")
            _, split, metric = GLUE[task := label.rpartition("-")[2]]
            choose, gold = random.Random(name), [number % 2 for number in range(20)]
            predicted = [label if choose.random() < 0.7 else 1 - label for label in gold]
            pairs = enumerate(zip(gold, predicted, strict=True))
            examples = [{"key": str(number), "gold": one, "predicted": other} for number, (one, other) in pairs]
            metrics = {metric: METRICS[metric](columns_of(examples))}
            result = Result(f"glue/{task}", split, int(seed), metrics, len(examples), "model", "last", 1)
            save_result(result, examples, folder / "out" / task / f"seed-{seed}")
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FINISHED, asdict(found.workspace.finished(name)))
    table = found.readers[TUNED](found.workspace, TUNED, "mini")
    save_table(table, out / TUNED)
    return table


def moved(out: Path) -> Path:
    """Take a table with its rows to another place, without the jobs."""
    return Path(shutil.copytree(out / TUNED, out.with_name(f"{out.name}-moved")))


def test_results_of_fine_tuning_are_joined_with_their_predictions(data: Path, tmp_path: Path) -> None:
    """Claims are judged over examples, too: by the same predictions, wherever they were made."""
    whole = tuned(tmp_path / "whole", data, seeds=3)
    for seed in (1, 3):
        tuned(tmp_path / f"s{seed}", data, seed=seed)
    parts = [moved(tmp_path / "s1"), moved(tmp_path / "s3") / TABLE]
    left = plan_tables(TUNED, tmp_path / "c", data=data, seeds=3, join=parts).workspace.missing()
    of_seeds = [name for name in left if name.startswith(("finetune-", "pretrain-"))]
    assert len(of_seeds) == 5 * 5 and all(name.endswith("-s2") for name in of_seeds)
    joined = tuned(tmp_path / "c", data, seeds=3, join=parts)
    assert (joined.cells, joined.claims, joined.results) == (whole.cells, whole.claims, whole.results)
    assert any(claim.interval for claim in joined.claims)
    for place in (place for places in joined.results.values() for place in places):
        paths = [folder / TUNED / "rows" / place for folder in (tmp_path / "c", tmp_path / "whole")]
        for one, other in (paths, [path.with_suffix(".predictions.jsonl") for path in paths]):
            assert one.read_bytes() == other.read_bytes()
    # Once more, from the joined folder itself: nothing is left to run, and nothing of it is lost.
    own = tmp_path / "c" / TUNED
    shutil.rmtree(tmp_path / "c" / "jobs")
    assert plan_tables(TUNED, tmp_path / "c", data=data, seeds=3, join=[own]).workspace.missing() == []
    assert tuned(tmp_path / "c", data, seeds=3, join=[own]).claims == whole.claims


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda rows: shutil.rmtree(rows), "copy the whole folder with its rows/"),
        (lambda rows: next(rows.rglob("dev.predictions.jsonl")).unlink(), "copy the whole folder with its rows/"),
        (lambda rows: next(rows.rglob("dev.json")).write_text("{"), "dev.json' is damaged"),
        (
            lambda rows: save_table(replace(load_table(rows.parent), results={}), rows.parent),
            "names no results of 'finetune-.*once more",
        ),
    ],
)
def test_results_to_join_that_are_not_whole_are_refused(
    damage: Callable[[Path], object], named: str, data: Path, tmp_path: Path
) -> None:
    tuned(tmp_path / "a", data, seed=1)
    folder = moved(tmp_path / "a")
    damage(folder / "rows")
    with pytest.raises(TaskError, match=f"--join {re.escape(str(folder))}: .*{named}"):
        plan_tables(TUNED, tmp_path / "b", data=data, seeds=2, join=[folder])
