"""Export of a folder of results to the zip file that GLUE's server accepts."""

from __future__ import annotations

import operator
import statistics
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueneg.errors import TaskError
from trueneg.evaluation.results.store import Result, load_predictions
from trueneg.evaluation.results.summary import Runs, read_runs
from trueneg.files.whole import whole_file

_INFERENCE = ("entailment", "neutral", "contradiction")
_ENTAILMENT = ("entailment", "not_entailment")
_BINARY = ("0", "1")


@dataclass(frozen=True)
class Wanted:
    """Expected content of one of the server's files."""

    task: str
    split: str
    num_rows: int
    """Without the header."""
    labels: tuple[str, ...] = _BINARY
    """Allowed labels; empty for numbers from 0 to 5."""

    @property
    def filler(self) -> str:
        """Constant that ``--partial`` writes if there are no predictions."""
        return self.labels[0] if self.labels else "0.000"


FILES: Mapping[str, Wanted] = {
    "AX": Wanted("glue/ax", "test", 1104, _INFERENCE),
    "CoLA": Wanted("glue/cola", "test", 1063),
    "MNLI-m": Wanted("glue/mnli", "test_matched", 9796, _INFERENCE),
    "MNLI-mm": Wanted("glue/mnli", "test_mismatched", 9847, _INFERENCE),
    "MRPC": Wanted("glue/mrpc", "test", 1725),
    "QNLI": Wanted("glue/qnli", "test", 5463, _ENTAILMENT),
    "QQP": Wanted("glue/qqp", "test", 390_965),
    "RTE": Wanted("glue/rte", "test", 3000, _ENTAILMENT),
    "SST-2": Wanted("glue/sst2", "test", 1821),
    "STS-B": Wanted("glue/stsb", "test", 1379, ()),
    "WNLI": Wanted("glue/wnli", "test", 146),
}
"""Name, without ``.tsv``, to content: as in the authors' GLUE-baselines."""


@dataclass(frozen=True)
class Written:
    """Origin of one of the server's files."""

    seed: int | None
    """None if there were no predictions, so that the file holds a constant."""
    dev: float | None
    """Metric on the dev split (or its mean over splits) by which the seed was chosen."""
    num_clipped: int = 0
    """Number of predictions below 0 or above 5."""


def write_glue_zip(
    folder: str | Path, out: str | Path, *, is_partial: bool = False, files: Mapping[str, Wanted] = FILES
) -> dict[str, Written]:
    """Write a model's predictions for GLUE's test splits as a flat zip of eleven TSV files.

    Each task uses its best seed by the primary metric on the dev splits, the lowest seed among equals. The diagnostic
    set uses the best seed of MNLI. Predictions of STS-B are clipped to [0, 5].

    Args:
        folder: A model's results, with predictions for the test splits.
        out: The zip file.
        is_partial: Fill missing tasks with a constant instead of raising: the server requires all files, and the
            authors' baseline fills them likewise. Filled tasks have ``seed`` None.
        files: The files that the server expects.

    Returns:
        Origin of the predictions, by file.

    Raises:
        TaskError: for missing predictions, a wrong number of them, keys that are not GLUE's, or labels that the
            server does not know.
    """
    runs = _by_task(read_runs(folder))
    texts, written = {}, {}
    for name, wanted in files.items():
        if (wanted.task, wanted.split) in runs:
            texts[name], written[name] = _answered(name, wanted, runs)
        elif is_partial:
            rows = [wanted.filler] * wanted.num_rows
            texts[name], written[name] = _tsv(rows), Written(None, None)
        else:
            continue
    if missing := [name for name in files if name not in texts]:
        raise TaskError(
            f"'{folder}' has no answers for {', '.join(missing)}: evaluate the test splits, or let --partial fill them "
            "with constants"
        )
    if not any(file.seed is not None for file in written.values()):
        raise TaskError(f"'{folder}' has no answers to any of GLUE's test splits: evaluate them first")
    _write(texts, Path(out))
    return written


def _by_task(runs: Runs) -> Runs:
    """Index results by task name and split, whatever folder they are in."""
    by_task: Runs = {}
    for (_, split), seeds in runs.items():
        for seed, (path, result) in seeds.items():
            known = by_task.setdefault((result.task, split), {})
            if seed in known:
                raise TaskError(
                    f"two results of {result.task}, {split}, seed {seed}: '{known[seed][0]}' and '{path}': keep one"
                )
            known[seed] = (path, result)
    return by_task


def _answered(name: str, wanted: Wanted, runs: Runs) -> tuple[str, Written]:
    chooser = "glue/mnli" if wanted.task == "glue/ax" else wanted.task
    answered = runs[wanted.task, wanted.split]
    seed, dev = _best_seed(chooser, runs, list(answered))
    if seed not in answered:
        raise TaskError(f"{name}: seed {seed} is the best of {chooser} on dev, and has no answers to {wanted.split}")
    path, result = answered[seed]
    rows, num_clipped = _rows(name, wanted, path, result)
    return _tsv(rows), Written(seed, dev, num_clipped)


def _best_seed(task: str, runs: Runs, answered: list[int]) -> tuple[int, float | None]:
    """Return the best seed on dev, and its metric there."""
    figures: dict[int, list[float]] = {}
    for (of_task, split), seeds in runs.items():
        if of_task == task and split.startswith("dev"):
            for seed, (_, result) in seeds.items():
                if result.metrics:
                    figures.setdefault(seed, []).append(result.metrics[result.primary])
    if not figures and len(answered) == 1:
        return answered[0], None
    if not figures:
        raise TaskError(f"{task}: no results on dev to choose among {len(answered)} seeds by: evaluate the dev split")
    most = max(map(len, figures.values()))
    means = {seed: statistics.fmean(values) for seed, values in figures.items() if len(values) == most}
    best = max(sorted(means), key=means.__getitem__)
    return best, means[best]


def _rows(name: str, wanted: Wanted, path: Path, result: Result) -> tuple[list[str], int]:
    """Return the predictions in GLUE's order, and how many numbers were clipped."""
    answers = load_predictions(path)
    if len(answers) != wanted.num_rows:
        raise TaskError(f"{name}: '{path}' answers {len(answers):,} examples, GLUE has {wanted.num_rows:,}")
    by_key = {str(answer.get("key")): answer["predicted"] for answer in answers}
    keys = [str(number) for number in range(wanted.num_rows)]
    if by_key.keys() != set(keys):
        strange = min(by_key.keys() - set(keys), default="an example twice")
        raise TaskError(f"{name}: '{path}' answers '{strange}': GLUE's examples are 0 to {wanted.num_rows - 1}, once")
    predicted = [by_key[key] for key in keys]
    if not wanted.labels:
        clipped = [min(5.0, max(0.0, float(value))) for value in predicted]
        return [f"{value:.3f}" for value in clipped], sum(map(operator.ne, clipped, predicted))
    words = [_word(value, result.labels) for value in predicted]
    if unknown := set(words) - set(wanted.labels):
        raise TaskError(f"{name}: '{path}' predicts '{min(unknown)}', the server knows {', '.join(wanted.labels)}")
    return words, 0


def _word(value: Any, labels: list[str]) -> str:
    return labels[value] if isinstance(value, int) and 0 <= value < len(labels) else str(value)


def _tsv(rows: list[str]) -> str:
    return "index\tprediction\n" + "".join(f"{number}\t{row}\n" for number, row in enumerate(rows))


def _write(texts: Mapping[str, str], out: Path) -> None:
    """Write the zip atomically, with the same bytes for the same predictions."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as part, zipfile.ZipFile(part, "w") as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.tsv"), text, zipfile.ZIP_DEFLATED)
