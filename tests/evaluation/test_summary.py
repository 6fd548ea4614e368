"""Results over seeds, and GLUE's average."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_up_results import labels, write_model, write_result
from trueneg.errors import TaskError
from trueneg.evaluation.results.summary import GLUE_AVERAGE, glue_average, read_runs, summarise
from trueneg.tasks import tasks_named


def write_share(folder: Path, task: str, seed: int, num_right: int, **options: object) -> None:
    """Of ten examples so many are right."""
    gold = labels(10)
    predicted = np.where(np.arange(10) < num_right, gold, 1 - gold)
    write_result(folder, task, seed, {"gold": gold, "predicted": predicted}, **options)  # type: ignore[arg-type]


def test_seeds_put_together(tmp_path: Path) -> None:
    for seed, num_right in ((3, 9), (1, 5), (2, 6)):
        write_share(tmp_path, "glue/mrpc", seed, num_right, metrics=("accuracy", "f1"))
    accuracy, f1 = summarise(read_runs(tmp_path))
    assert (accuracy.task, accuracy.split) == ("glue/mrpc", "dev")
    assert (accuracy.metric, accuracy.is_primary) == ("accuracy", True)
    assert accuracy.by_seed == {1: 0.5, 2: 0.6, 3: 0.9}
    assert (accuracy.median, accuracy.mean, *accuracy.range) == pytest.approx((0.6, 2 / 3, 0.5, 0.9))
    assert (accuracy.num_examples, accuracy.selection, accuracy.model) == (10, "last", "made-up")
    assert (f1.metric, f1.is_primary) == ("f1", False)


def test_splits_without_labels_have_nothing_to_sum_up(tmp_path: Path) -> None:
    write_share(tmp_path, "glue/rte", 1, 7)
    write_share(tmp_path, "glue/rte", 1, 7, split="test", metrics=())
    assert [summary.split for summary in summarise(read_runs(tmp_path))] == ["dev"]


def test_own_data_of_one_kind_is_told_apart_by_folder(tmp_path: Path) -> None:
    write_share(tmp_path, "classification", 1, 7)
    (tmp_path / "classification").rename(tmp_path / "reviews")
    write_share(tmp_path, "classification", 1, 8)
    assert [task for task, _ in read_runs(tmp_path)] == ["classification", "classification reviews"]


def test_a_tasks_own_folder_is_not_said_twice(tmp_path: Path) -> None:
    write_share(tmp_path, "squad/v2.0", 1, 7)
    (folder,) = tmp_path.rglob("seed-1")
    folder.parent.rename(tmp_path / "squad-v2.0")
    assert [task for task, _ in read_runs(tmp_path)] == ["squad/v2.0"]


def test_glue_average_by_the_papers_rule(tmp_path: Path) -> None:
    for seed, num_right in ((1, 6), (2, 8), (3, 7)):
        write_share(tmp_path, "glue/mrpc", seed, num_right, metrics=("f1", "accuracy"))
    write_share(tmp_path, "glue/mnli", 1, 9, split="dev_matched")
    write_share(tmp_path, "glue/mnli", 1, 1, split="dev_mismatched")
    write_share(tmp_path, "glue/wnli", 1, 2)
    quantities = np.arange(10.0)
    swapped = np.array([1, 0, *range(2, 9), 40])
    write_result(tmp_path, "glue/stsb", 1, {"gold": quantities, "predicted": swapped}, metrics=("pearson", "spearman"))
    write_result(
        tmp_path, "glue/cola", 1, {"gold": labels(10), "predicted": labels(10)}, metrics=("accuracy", "matthews")
    )
    average = glue_average(summarise(read_runs(tmp_path)))
    spearman = 1 - 6 * 2 / (10 * 99)
    assert average.medians == pytest.approx(
        {"glue/cola": 1.0, "glue/mrpc": 0.7, "glue/stsb": spearman, "glue/mnli": 0.9}
    )
    assert average.value == pytest.approx((1.0 + 0.7 + spearman + 0.9) / 4)
    assert average.missing == ["glue/sst2", "glue/qqp", "glue/qnli", "glue/rte"]
    assert len(GLUE_AVERAGE) == 8


def test_no_glue_no_average(tmp_path: Path) -> None:
    write_share(tmp_path, "squad", 1, 5)
    average = glue_average(summarise(read_runs(tmp_path)))
    assert (average.value, average.missing) == (None, list(GLUE_AVERAGE))


def test_folders_that_cannot_be_summed_up(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no results"):
        read_runs(tmp_path)
    write_model(tmp_path / "base", 0.8, seeds=[1])
    write_model(tmp_path / "hc", 0.8, seeds=[1])
    with pytest.raises(TaskError, match=r"two results of glue/rte, dev, seed 1.*name the folder of one model"):
        read_runs(tmp_path)
    write_share(tmp_path / "base", "glue/rte", 2, 7)
    with pytest.raises(TaskError, match=r"several numbers of examples \(10 and 400\)"):
        summarise(read_runs(tmp_path / "base"))
    write_model(tmp_path / "hc", 0.8, seeds=[2], selection="best on 10% of the training examples, held out")
    with pytest.raises(TaskError, match="several rules of choosing weights"):
        summarise(read_runs(tmp_path / "hc"))


def test_the_average_is_over_the_tasks_that_glue_stands_for() -> None:
    assert tasks_named("glue") == list(GLUE_AVERAGE)


def test_seeds_of_other_data_are_refused_by_name(tmp_path: Path) -> None:
    """Two versions of a split may well have as many examples with the same keys and labels."""
    write_share(tmp_path, "glue/rte", 1, 7)  # by a version that did not write the digest
    write_share(tmp_path, "glue/rte", 2, 7, data="aa", train={"data": {"train": "t1", "dev": "aa"}})
    write_share(tmp_path, "glue/rte", 3, 7, data="aa", train={"data": {"train": "t1", "dev": "aa"}})
    assert len(read_runs(tmp_path)["glue/rte", "dev"]) == 3
    write_share(tmp_path, "glue/rte", 4, 7, data="bb", train={"data": {"train": "t1", "dev": "aa"}})
    named = r"seed-2.dev.json' and '.*seed-4.dev.json' are of other versions of glue/rte, dev \(data aa and bb\)"
    with pytest.raises(TaskError, match=named):
        read_runs(tmp_path)
    write_share(tmp_path, "glue/rte", 4, 7, data="aa", train={"data": {"train": "t2", "dev": "aa"}})
    with pytest.raises(TaskError, match=r"models of .*seed-2.* and .*seed-4.* glue/rte, train \(data t1 and t2\)"):
        read_runs(tmp_path)
