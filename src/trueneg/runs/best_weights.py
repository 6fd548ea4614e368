"""Evaluation on a part held out of the training examples, and the weights that are best on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from trueneg.errors import CheckpointError
from trueneg.evaluation.predictions import predict_split, score
from trueneg.files.arrays import ArrayFile
from trueneg.runs.finetuning_data import TaskData
from trueneg.tasks.base import Task
from trueneg.training.folder import METRICS
from trueneg.training.log import read_metrics
from trueneg.training.step import Run

BEST = "best.safetensors"
"""File in a run's folder with the weights that were best on the validation part so far."""
_BEST_FILE = ArrayFile("best weights", "1", CheckpointError, "remove the run's folder and fine-tune again")


class Validation:
    """Evaluates the current weights on the validation part."""

    def __init__(self, task: Task[Any], data: TaskData, pad_id: int, run: Run) -> None:
        self.task, self.run, self._data, self._pad_id = task, run, data, pad_id

    def __call__(self) -> dict[str, float]:
        """Return the task's metrics."""
        run, data = self.run, self._data
        assert data.valid is not None
        answers = predict_split(
            run.module.model,
            self.task,
            data.valid_examples,
            data.valid,
            self._pad_id,
            precision=run.config.precision,
            processes=run.processes,
        )
        return score(self.task, answers)


class BestWeights:
    """Evaluation for the training loop that keeps the weights that are best on the validation part."""

    def __init__(self, valid: Validation, folder: Path) -> None:
        self._valid, self._folder, self._metric = valid, folder, valid.task.metrics[0]
        records = read_metrics(folder / METRICS) if valid.run.step else []
        self._best = max((r[self._metric] for r in records if r["kind"] == "eval"), default=float("-inf"))

    def __call__(self) -> dict[str, float]:
        """Return the task's metrics; save the weights if the first metric is the best so far."""
        figures = self._valid()
        if figures[self._metric] > self._best:
            self._best = figures[self._metric]
            if self._valid.run.processes.is_main:
                arrays = {name: tensor.cpu().numpy() for name, tensor in self._valid.run.module.state_dict().items()}
                _BEST_FILE.write(self._folder / BEST, arrays, {})
        return figures


def load_best(module: torch.nn.Module, path: Path) -> None:
    """Load the weights that ``BestWeights`` saved.

    Raises:
        CheckpointError: if the file is damaged or of another model.
    """
    arrays, _ = _BEST_FILE.read(path, dict[str, str])
    try:
        module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as error:
        raise _BEST_FILE.damaged(path, "it is of another model") from error
