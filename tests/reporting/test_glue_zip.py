"""The file for GLUE's server, from small made-up test splits."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_up_results import write_result
from trueneg.errors import TaskError
from trueneg.reporting.glue_zip import FILES, write_glue_zip

SMALL = {name: replace(wanted, num_rows=3) for name, wanted in FILES.items()}
ORDERS = {
    "glue/mnli": ["contradiction", "entailment", "neutral"],
    "glue/ax": ["contradiction", "entailment", "neutral"],
    "glue/qnli": ["entailment", "not_entailment"],
    "glue/rte": ["entailment", "not_entailment"],
    "glue/stsb": [],
}


def answer(folder: Path, name: str, seed: int, predicted: list[Any], **columns: Any) -> Path:
    wanted = SMALL[name]
    labels = ORDERS.get(wanted.task, ["0", "1"])
    return write_result(
        folder, wanted.task, seed, {"predicted": predicted} | columns, split=wanted.split, metrics=(), labels=labels
    )


def develop(folder: Path, task: str, seed: int, num_right: int, split: str = "dev") -> None:
    gold = np.ones(4, int)
    write_result(folder, task, seed, {"gold": gold, "predicted": gold * (np.arange(4) < num_right)}, split=split)


def read(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two seeds of everything; seed 2 is the better one on dev, for MNLI seed 1."""
    folder = tmp_path / "hc"
    for name, wanted in SMALL.items():
        for seed in (1, 2):
            answer(folder, name, seed, [0.5, -1.0, 7.25] if name == "STS-B" else [seed - 1, 1, 0])
            if wanted.task not in ("glue/mnli", "glue/ax"):
                develop(folder, wanted.task, seed, seed)
    for split, right in (("dev_matched", (4, 3)), ("dev_mismatched", (2, 2))):
        for seed, num_right in zip((1, 2), right, strict=True):
            develop(folder, "glue/mnli", seed, num_right, split)
    return folder


def test_eleven_files_by_the_best_seed(model: Path, tmp_path: Path) -> None:
    written = write_glue_zip(model, tmp_path / "new" / "glue.zip", files=SMALL)
    files = read(tmp_path / "new" / "glue.zip")
    assert sorted(files) == sorted(f"{name}.tsv" for name in FILES)
    assert len(files) == 11
    assert files["CoLA.tsv"] == "index\tprediction\n0\t1\n1\t1\n2\t0\n"
    assert files["RTE.tsv"] == "index\tprediction\n0\tnot_entailment\n1\tnot_entailment\n2\tentailment\n"
    assert files["MNLI-mm.tsv"] == "index\tprediction\n0\tcontradiction\n1\tentailment\n2\tcontradiction\n"
    assert files["STS-B.tsv"] == "index\tprediction\n0\t0.500\n1\t0.000\n2\t5.000\n"
    assert (written["CoLA"].seed, written["CoLA"].dev) == (2, 0.5)
    assert written["STS-B"].num_clipped == 2
    assert (written["MNLI-m"].seed, written["MNLI-m"].dev) == (1, 0.75)
    assert written["AX"].seed == 1  # that of MNLI
    again = tmp_path / "again.zip"
    write_glue_zip(model, again, files=SMALL)
    assert again.read_bytes() == (tmp_path / "new" / "glue.zip").read_bytes()


def test_a_seed_is_chosen_by_all_dev_splits(model: Path, tmp_path: Path) -> None:
    develop(model, "glue/mnli", 3, 4, "dev_matched")  # perfect there, and unknown on the mismatched genres
    assert write_glue_zip(model, tmp_path / "glue.zip", files=SMALL)["MNLI-m"].seed == 1


def test_answers_are_put_into_glues_order(model: Path, tmp_path: Path) -> None:
    answer(model, "WNLI", 2, [1, 0, 0], key=["2", "0", "1"])
    write_glue_zip(model, tmp_path / "glue.zip", files=SMALL)
    assert read(tmp_path / "glue.zip")["WNLI.tsv"] == "index\tprediction\n0\t0\n1\t0\n2\t1\n"


def test_the_servers_line_counts() -> None:
    lines = {name: wanted.num_rows + 1 for name, wanted in FILES.items()}
    assert list(lines.values()) == [1105, 1064, 9797, 9848, 1726, 5464, 390_966, 3001, 1822, 1380, 147]


def test_missing_tasks_are_refused_or_filled(tmp_path: Path) -> None:
    folder, out = tmp_path / "hc", tmp_path / "glue.zip"
    answer(folder, "QNLI", 7, [1, 1, 0])
    with pytest.raises(TaskError, match=r"no answers for AX, CoLA, .*, WNLI: .*--partial"):
        write_glue_zip(folder, out, files=SMALL)
    assert not out.exists()
    written = write_glue_zip(folder, out, is_partial=True, files=SMALL)
    files = read(out)
    assert len(files) == 11
    assert [name for name, file in written.items() if file.seed is not None] == ["QNLI"]
    assert (written["QNLI"].seed, written["QNLI"].dev) == (7, None)  # the only one: nothing to choose
    assert files["QNLI.tsv"].endswith("2\tentailment\n")
    assert files["STS-B.tsv"] == "index\tprediction\n0\t0.000\n1\t0.000\n2\t0.000\n"
    assert files["AX.tsv"].count("entailment") == 3


@pytest.mark.parametrize(
    "name, predicted, columns, complaint",
    [
        ("CoLA", [1, 0], {}, "answers 2 examples, GLUE has 3"),
        ("CoLA", [1, 0, 1], {"key": ["0", "1", "9"]}, "answers '9': GLUE's examples are 0 to 2"),
        ("CoLA", [1, 0, 1], {"key": ["0", "1", "1"]}, "answers 'an example twice'"),
        ("CoLA", [1, 0, 2], {}, "predicts '2', the server knows 0, 1"),
    ],
)
def test_answers_that_the_server_would_refuse(
    model: Path, tmp_path: Path, name: str, predicted: list[int], columns: dict[str, Any], complaint: str
) -> None:
    answer(model, name, 2, predicted, **columns)
    with pytest.raises(TaskError, match=rf"^{name}: .*{complaint}"):
        write_glue_zip(model, tmp_path / "glue.zip", files=SMALL)
    assert not (tmp_path / "glue.zip").exists()


def test_seeds_that_cannot_be_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "hc"
    for seed in (1, 2):
        answer(folder, "RTE", seed, [1, 1, 0])
    with pytest.raises(TaskError, match="glue/rte: no results on dev to choose among 2 seeds by"):
        write_glue_zip(folder, tmp_path / "glue.zip", is_partial=True, files=SMALL)
    develop(folder, "glue/rte", 3, 4)
    with pytest.raises(TaskError, match="RTE: seed 3 is the best of glue/rte on dev, and has no answers to test"):
        write_glue_zip(folder, tmp_path / "glue.zip", is_partial=True, files=SMALL)


def test_the_diagnostic_set_may_lie_with_mnli(model: Path, tmp_path: Path) -> None:
    (model / "ax" / "seed-1").rename(model / "mnli" / "seed-1" / "ax")  # wherever it is found, it counts by its task
    for path in (model / "mnli" / "seed-1" / "ax").iterdir():
        path.rename(model / "mnli" / "seed-1" / path.name)
    assert write_glue_zip(model, tmp_path / "glue.zip", files=SMALL)["AX"].seed == 1


def test_no_answers_at_all(tmp_path: Path) -> None:
    develop(tmp_path / "hc", "glue/rte", 1, 4)
    with pytest.raises(TaskError, match="no answers to any of GLUE's test splits"):
        write_glue_zip(tmp_path / "hc", tmp_path / "glue.zip", is_partial=True, files=SMALL)
