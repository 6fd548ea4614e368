"""Folders of results against each other."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from made_up_results import guesses, labels, write_model, write_result
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.examples import differing_examples
from trueneg.evaluation.results.store import Result, load_result, predictions_path, save_result
from trueneg.evaluation.results.summary import GLUE_AVERAGE
from trueneg.evaluation.statistics.significance import holm
from trueneg.reporting.results import results_table


def edit(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change a file of answers."""
    answers = [json.loads(line) for line in predictions_path(path).read_text().splitlines()]
    change(answers)
    predictions_path(path).write_text("".join(json.dumps(answer) + "\n" for answer in answers))


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [write_model(tmp_path / name, share) for name, share in (("base", 0.7), ("hc", 0.8))]


def test_a_better_model_is_seen(pair: list[Path]) -> None:
    base, other = pair
    (row,) = compare(base, other).rows
    assert (row.task, row.split, row.metric, row.is_primary) == ("glue/rte", "dev", "accuracy", True)
    assert (row.baseline, row.contender, row.num_examples, row.num_groups) == ("base", "hc", 400, 400)
    assert row.is_paired and row.has_seeds and sorted(row.left) == [1, 2, 3]
    for seed, figure in row.right.items():
        assert figure == load_result(other / "rte" / f"seed-{seed}" / "dev.json").metrics["accuracy"]
    expected = np.mean(list(row.right.values())) - np.mean(list(row.left.values()))
    assert row.difference.interval.estimate == pytest.approx(expected)
    assert row.difference.interval.low > 0.05
    assert row.difference.p < 0.01 and row.signs.p < 0.001
    assert row.p_adjusted == row.difference.p
    assert row.signs.num_better > row.signs.num_worse == 0
    assert row.difference.seeds_needed == 3
    assert row.notes == []


def test_the_other_way_round(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.78), write_model(tmp_path / "hc", 0.8)
    (there,), (back,) = compare(base, other).rows, compare(other, base).rows
    assert back.difference.interval.estimate == pytest.approx(-there.difference.interval.estimate)
    assert back.difference.p == pytest.approx(there.difference.p, rel=1e-6)
    assert (back.signs.num_better, back.signs.num_worse) == (there.signs.num_worse, there.signs.num_better)


def test_an_order_of_scores_needs_five_seeds(tmp_path: Path) -> None:
    folders = {n: [write_model(tmp_path / f"{s}-{n}", s, seeds=range(n)) for s in (0.7, 0.8)] for n in (4, 5)}
    found = {n: compare(*pair, resamples=50).rows[0].eps_min for n, pair in folders.items()}
    assert found == {4: None, 5: 0.0}
    assert compare(folders[4][0], folders[5][1], resamples=50).rows[0].eps_min is None


def test_equal_models_differ_in_nothing(tmp_path: Path) -> None:
    (row,) = compare(write_model(tmp_path / "one", 0.8), write_model(tmp_path / "two", 0.8)).rows
    assert row.difference.interval.estimate == 0
    assert (row.difference.p, row.signs.p) == (1.0, 1.0)


def test_a_split_of_one_example_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    folders = [write_model(tmp_path / name, share) for name, share in (("base", 0.7), ("hc", 0.8))]
    for folder in folders:
        for seed in (1, 2, 3):
            result = Result("imdb", "dev", seed, {"accuracy": 1.0}, 1, "model", "last", 1)
            save_result(result, [{"key": "0", "gold": 1, "predicted": 1}], folder / "imdb" / f"seed-{seed}")
    found = compare(*folders)
    assert [row.task for row in found.rows] == ["glue/rte"]
    assert "imdb dev: one example, of which nothing is compared" in found.notes


def test_a_split_of_one_group_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    """A single passage, say, of SQuAD or BoolQ."""
    folders = [write_model(tmp_path / name, share) for name, share in (("base", 0.7), ("hc", 0.8))]
    for folder in folders:
        columns = {"gold": labels(8), "predicted": labels(8), "group": ["one"] * 8}
        write_result(folder, "boolq", 1, columns, metrics=("accuracy", "f1"))
    for metric in ("primary", "accuracy"):
        found = compare(*folders, metric=metric, resamples=50)
        assert [row.task for row in found.rows] == ["glue/rte"]
        assert "boolq dev: one group of examples, of which nothing is compared" in found.notes


def test_answers_are_matched_by_key(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.75)
    (before,) = compare(base, other).rows
    edit(other / "rte" / "seed-2" / "dev.json", random.Random(0).shuffle)
    (after,) = compare(base, other).rows
    assert after == before


def test_one_seed_tells_models_apart_only(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7, seeds=[1]), write_model(tmp_path / "hc", 0.8, seeds=[1])
    (row,) = compare(base, other).rows
    assert not row.has_seeds
    assert row.eps_min is row.difference.seeds_needed is None
    right = [np.asarray(guesses(labels(400), share, 1000 + int(1000 * share)) == labels(400)) for share in (0.7, 0.8)]
    expected = stats.ttest_rel(right[1].astype(float), right[0].astype(float)).confidence_interval()
    assert (row.difference.interval.low, row.difference.interval.high) == pytest.approx(tuple(expected), abs=2e-3)


def test_seeds_in_common_are_paired(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.8, seeds=[2, 3, 4])
    (row,) = compare(base, other).rows
    assert row.is_paired and list(row.left) == list(row.right) == [2, 3]
    assert row.notes == [
        "seeds 1 of base are not used: the other has not run them",
        "seeds 4 of hc are not used: the other has not run them",
    ]


def test_other_seeds_are_unpaired(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base", 0.7), write_model(tmp_path / "hc", 0.8, seeds=[3, 4])
    (row,) = compare(base, other).rows
    assert not row.is_paired and row.has_seeds
    assert (list(row.left), list(row.right)) == ([1, 2, 3], [3, 4])
    assert row.notes == ["unpaired: seeds 1, 2, 3 against 3, 4"]
    assert row.difference.interval.low > 0


def test_groups_count_as_one(tmp_path: Path) -> None:
    """Ten copies of forty examples are forty examples."""
    folders = []
    for name, share in (("base", 0.6), ("hc", 0.75)):
        gold = labels(40)
        once = {seed: {"gold": gold, "predicted": guesses(gold, share, 100 * seed + len(name))} for seed in (1, 2)}
        for seed, columns in once.items():
            write_result(tmp_path / "once" / name, "mine", seed, columns)
            copies = {column: np.repeat(values, 10) for column, values in columns.items()}
            group = np.repeat([f"paragraph {number}" for number in range(40)], 10)
            write_result(tmp_path / "copied" / name, "mine", seed, copies | {"group": group})
        folders.append(name)
    (once_row,), (copied,) = (
        compare(*(tmp_path / kind / name for name in folders)).rows for kind in ("once", "copied")
    )
    assert (copied.num_examples, copied.num_groups) == (400, 40)
    assert copied.signs == once_row.signs
    assert copied.difference.interval.low == pytest.approx(once_row.difference.interval.low, abs=0.01)
    # The baseline's results may be of a version that knew no groups.
    for seed in (1, 2):
        edit(
            next((tmp_path / "copied" / "base").glob(f"*/seed-{seed}/dev.json")),
            lambda answers: [answer.pop("group") for answer in answers],
        )
    assert compare(*(tmp_path / "copied" / name for name in folders)).rows == [copied]


@pytest.mark.parametrize("metric", ["matthews", "f1", "macro_f1"])
def test_metrics_that_are_no_means(tmp_path: Path, metric: str) -> None:
    base = write_model(tmp_path / "base", 0.7, metrics=(metric, "accuracy"))
    other = write_model(tmp_path / "hc", 0.85, metrics=(metric, "accuracy"))
    first, second = compare(base, other, metric="all", resamples=500).rows
    assert (first.metric, first.is_primary, second.metric, second.is_primary) == (metric, True, "accuracy", False)
    assert first.difference.interval.low > 0
    assert first.p_adjusted is not None and second.p_adjusted is None
    (chosen,) = compare(base, other, metric="accuracy", resamples=500).rows
    assert chosen == second


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_quantities(tmp_path: Path, metric: str) -> None:
    draw = np.random.default_rng(0)
    gold = draw.random(300) * 5
    for name, noise in (("base", 2.0), ("hc", 1.0)):
        for seed in (1, 2, 3):
            columns = {"gold": gold, "predicted": gold + noise * draw.normal(size=300)}
            write_result(tmp_path / name, "glue/stsb", seed, columns, metrics=(metric,), labels=[])
    (row,) = compare(tmp_path / "base", tmp_path / "hc", resamples=500).rows
    assert row.difference.interval.low > 0
    assert row.signs.num_better > row.signs.num_worse  # nearer to gold


def test_many_tasks_are_allowed_for(tmp_path: Path) -> None:
    gold = labels(300)
    for task, gain in (("glue/rte", 0.05), ("glue/mrpc", 0.0), ("glue/qnli", 0.02)):
        for name, share in (("base", 0.7), ("hc", 0.7 + gain), ("sr", 0.69)):
            for seed in (1, 2, 3):
                columns = {"gold": gold, "predicted": guesses(gold, share, seed + len(task) * len(name))}
                write_result(tmp_path / name, task, seed, columns)
    found = compare(tmp_path / "base", tmp_path / "hc", tmp_path / "sr", resamples=300)
    assert found.contenders == ["hc", "sr"]
    assert len(found.rows) == 6
    assert [row.p_adjusted for row in found.rows] == holm([row.difference.p for row in found.rows])


def test_what_is_on_one_side_only_is_said(pair: list[Path]) -> None:
    base, other = pair
    columns = {"gold": labels(5), "predicted": labels(5)}
    write_result(base, "glue/cola", 1, columns)
    write_result(other, "glue/mnli", 1, columns, split="dev_matched")
    for folder in (base, other):
        write_result(folder, "glue/rte", 1, columns, split="test", metrics=())
    found = compare(base, other)
    assert [row.task for row in found.rows] == ["glue/rte"]
    assert found.notes == [
        "only in base: glue/cola dev",
        "only in hc: glue/mnli dev_matched",
        "without labels: glue/rte test",
    ]


def test_a_metric_that_one_side_lacks_is_said(tmp_path: Path) -> None:
    tasks = ("glue/sst2", "glue/rte", "glue/qnli")
    base, hc = (write_tasks(tmp_path / name, share, tasks) for name, share in (("base", 0.7), ("hc", 0.8)))
    columns = {"gold": labels(300), "predicted": labels(300)}
    for seed in (1, 2):
        write_result(hc, "glue/sst2", seed, columns, metrics=("f1", "macro_f1"))
    write_result(hc, "glue/qnli", 1, columns, split="test", metrics=("f1",))  # base has no such split
    found = compare(base, hc, resamples=50, average=True)
    note = "glue/sst2 dev: 'accuracy' is not in the results of hc (seeds 1, 2): evaluate again"
    assert found.notes == ["only in hc: glue/qnli test", note]
    assert {row.task for row in found.rows} == {"glue/rte", "glue/qnli"}
    (average,) = found.averages
    assert note in average.notes and "glue/sst2" in average.missing
    write_result(hc, "glue/rte", 3, columns, metrics=("f1",))
    with pytest.raises(TaskError, match=r"1 task in common \(glue/qnli\).*'accuracy' is not in the results of hc \("):
        compare(base, hc, resamples=50, average=True)
    everything = compare(base, hc, metric="all", resamples=50)
    assert any("'accuracy' is not in the results of hc (seeds 1, 2), 'f1' is" in one for one in everything.notes)


def test_other_settings_are_said(tmp_path: Path) -> None:
    def settings(rate: float, device: str) -> dict[str, Any]:
        return {"optimizer": {"learning_rate": rate}, "train": {"device": device}, "start_from": device}

    base = write_model(tmp_path / "base", 0.7, config=settings(1e-4, "cpu"), train={"num_examples": 90, "seconds": 5})
    other = write_model(tmp_path / "hc", 0.8, config=settings(3e-4, "cuda"), train={"num_examples": 80, "seconds": 6})
    (row,) = compare(base, other).rows
    assert row.notes == [
        "num_examples differs: 90 against 80",
        "optimizer.learning_rate differs: 0.0001 against 0.0003",
    ]


def test_failed_runs_are_named(pair: list[Path]) -> None:
    base, other = pair
    write_result(other, "glue/rte", 2, {"gold": labels(400), "predicted": np.ones(400, int)})
    (row,) = compare(base, other).rows
    assert row.notes == ["hc predicts the same of everything with seeds 2"]


def test_failed_runs_are_named_in_contrast_sets(tmp_path: Path) -> None:
    """Where a record is an original with its revisions."""
    for name, answers in (("base", [1, 0]), ("hc", [1, 1])):
        for seed in (1, 2):
            items = [{"key": str(n), "gold": 1 - n, "predicted": answer} for n, answer in enumerate(answers)]
            right = {"num_revised": 1, "num_revised_right": 1 - answers[1]}
            groups = [{"key": str(n), "group": str(n), **right, "items": items} for n in range(8)]
            result = Result("boolq", "contrast-test", seed, {"revised": 1.0 - answers[1]}, 8, "model", "last", 1)
            save_result(result, groups, tmp_path / name / "boolq" / f"seed-{seed}")
    (row,) = compare(tmp_path / "base", tmp_path / "hc", resamples=50).rows
    assert row.notes == ["hc predicts the same of everything with seeds 1, 2"]


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [write_model(tmp_path / name / "results", 0.7) for name in ("old", "new")]
    found = compare(*folders)
    assert (found.baseline, found.contenders) == ("old/results", ["new/results"])


@pytest.mark.parametrize(
    "change, complaint",
    [
        (lambda answers: answers[0].update(key="another"), r"different examples \(400 and 400, 1 of them unknown"),
        (lambda answers: answers.pop(), "has 399"),
        (lambda answers: answers.append(answers[0]), "has 401"),
        (lambda answers: answers[0].update(gold=1 - answers[0]["gold"]), "gold labels"),
        (lambda answers: answers[0].update(predicted=1 - answers[0]["predicted"]), "one of them is not of this run"),
    ],
)
def test_answers_that_do_not_fit(
    pair: list[Path], change: Callable[[list[dict[str, Any]]], Any], complaint: str
) -> None:
    base, other = pair
    edit(other / "rte" / "seed-2" / "dev.json", change)
    with pytest.raises(TaskError, match=complaint):
        compare(base, other)


def test_results_of_other_data_are_refused_by_name(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", 0.7, data="aa", train={"data": {"train": "t1"}})
    other = write_model(tmp_path / "other", 0.8, data="bb", train={"data": {"train": "t1"}})
    for use in (compare, differing_examples, lambda *folders: results_table(folders)):
        with pytest.raises(TaskError, match=r"base/.* and .*other/.* of other versions of glue/rte, dev"):
            use(base, other)
    unknown = write_model(tmp_path / "former", 0.8, train={"data": {"train": "t1"}})
    assert compare(base, unknown, resamples=50).rows[0].notes == []
    trained = write_model(tmp_path / "trained", 0.8, data="aa", train={"data": {"train": "t2"}})
    assert compare(base, trained, resamples=50).rows[0].notes == ["data of train differs: t1 against t2"]


def test_questions_without_an_answer(pair: list[Path], tmp_path: Path) -> None:
    base, other = pair
    with pytest.raises(ConfigError, match="at least one other"):
        compare(base)
    with pytest.raises(ConfigError, match="named twice"):
        compare(base, base)
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        compare(base, other, metric="acuracy")
    with pytest.raises(ConfigError, match="--confidence 95"):
        compare(base, other, confidence=95)
    with pytest.raises(TaskError, match="none has the metric 'f1'"):
        compare(base, other, metric="f1")
    alone = tmp_path / "alone"
    write_result(alone, "glue/cola", 1, {"gold": labels(5), "predicted": labels(5)})
    with pytest.raises(TaskError, match="no labelled split in common: only in base: glue/rte dev; only in alone"):
        compare(base, alone)


def write_tasks(folder: Path, share: float, tasks: Sequence[str], seeds: Sequence[int] = (1, 2, 3)) -> Path:
    for number, task in enumerate(tasks):
        gold = labels(300)
        for seed in seeds:
            draw = 100 * number + seed + int(1e4 * share)
            write_result(folder, task, seed, {"gold": gold, "predicted": guesses(gold, share + 0.02 * number, draw)})
    return folder


def test_the_average_is_over_what_both_have_by_the_rule_of_the_report(tmp_path: Path) -> None:
    tasks = ("glue/sst2", "glue/qnli", "glue/rte")
    base = write_tasks(tmp_path / "base", 0.7, tasks)
    hc = write_tasks(tmp_path / "hc", 0.75, tasks[1:], seeds=(1, 2, 4))
    for _, split in ((1, "contrast-test"), (2, "dev")):  # other splits of a task are not averaged over
        for folder in (base, hc):
            gold = labels(50)
            write_result(folder, "glue/wnli", 1, {"gold": gold, "predicted": gold}, split=split)
    found = compare(base, hc, resamples=200, average=True)
    glue, every = found.averages
    assert (glue.name, glue.tasks) == ("GLUE average", ["glue/qnli dev accuracy", "glue/rte dev accuracy"])
    assert set(glue.missing) == GLUE_AVERAGE.keys() - {"glue/qnli", "glue/rte"}
    rows = {row.task: row for row in found.rows if row.split == "dev"}
    means = [np.mean([*rows[task].right.values()]) - np.mean([*rows[task].left.values()]) for task in tasks[1:]]
    assert glue.difference.interval.estimate == pytest.approx(np.mean(means)) == pytest.approx(glue.right - glue.left)
    assert set(rows["glue/rte"].left) == {1, 2}, "the seeds that both have"
    medians = [np.median([*rows[task].right.values()]) for task in tasks[1:]]
    assert glue.right_medians == pytest.approx(np.mean(medians))
    assert (every.name, len(every.tasks), every.missing) == ("average", 3, [])
    assert "glue/wnli dev accuracy" in every.tasks
    assert glue.difference.p == glue.p_adjusted, "one contender"
    with pytest.raises(ConfigError, match="--average is over primary metrics"):
        compare(base, hc, metric="f1", average=True)


def test_several_contenders_are_allowed_for_and_one_task_is_no_average(tmp_path: Path) -> None:
    tasks = ("glue/qnli", "glue/rte")
    folders = [write_tasks(tmp_path / name, share, tasks) for name, share in (("a", 0.7), ("b", 0.7), ("c", 0.9))]
    averages = compare(*folders, resamples=200, average=True).averages
    assert [one.contender for one in averages] == ["b", "c"]
    assert [one.p_adjusted for one in averages] == holm([one.difference.p for one in averages])
    alone = write_tasks(tmp_path / "d", 0.7, ("glue/rte",))
    with pytest.raises(TaskError, match=r"a and d have 1 task in common \(glue/rte\), and an average is over two"):
        compare(folders[0], alone, resamples=200, average=True)
