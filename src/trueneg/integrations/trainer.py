"""Any objective under ``transformers.Trainer``: the same steps as in our own loop, with Trainer's features.

Trainer divides a loss by a single count, that of labels. An objective has a count for each of its terms, known before
the forward pass, which replace it: ``get_batch_samples`` sums them over all micro-batches and processes of a step, and
``compute_loss`` divides by them. Random draws depend only on the seed and a row's position in the training order, so a
step does not depend on its division into micro-batches and processes, and resuming is exact (but see
``Objective.depends_on_micro_batch``).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from trueneg.corpus.rows import NumberedRows, RowIndex
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.errors import CheckpointError, ConfigError
from trueneg.models.documents import without_faulty_attention
from trueneg.models.export import save_hugging_face
from trueneg.models.modes import eval_mode
from trueneg.objectives.base import Objective, Sums, TrainingModule
from trueneg.training.batches import check_shares, held_out_batches
from trueneg.training.checkpoint import MODEL, load_checkpoint, save_weights
from trueneg.training.distributed import Processes
from trueneg.training.metrics import Meter

MODULE = "module"
"""Folder within a checkpoint for resuming: the trained state of model and objective."""


# Its annotations require a PreTrainedModel, a torch Dataset and a DataLoader; its code requires less.
_Trainer: Any = Trainer


class TruenegTrainer(_Trainer):  # type: ignore[misc]
    """``transformers.Trainer`` for a trueneg model and objective, as made by ``building.build``.

    Step s reads the rows at positions ``s * batch .. (s + 1) * batch - 1`` of the training order, where ``batch`` is
    the number of rows of a step over all micro-batches and processes: the same rows as with ``pretrain``. The order is
    endless, so Trainer sees the whole run as a single epoch, and all intervals are in steps; the ``epoch`` in the log
    is the true one. Weight decay excludes vectors and scalars.

    A saved folder can be loaded by transformers itself; Trainer resumes from its subfolder ``module/``. These are
    safetensors; Trainer additionally pickles optimizer, schedule and random state in its checkpoints. Logs contain
    ``loss``, each ``loss/<term>`` and the ratios of ``training.metrics``. ``evaluate`` accumulates sums over held-out
    rows, with the same masks every time, and never gathers logits.

    Args:
        model: The model that the objective needs: a ``MaskedLanguageModel``, a ``SemanticEncoder`` or an
            ``ElectraPair``.
        objective: The training objective.
        args: Trainer's. ``seed`` (or ``data_seed``, for rows and masks) is the seed of all randomness.
        train_dataset: Rows to train on: of a corpus, or of a mixture (``corpus.mixture.MixedRows``).
        eval_dataset: Held-out rows, or several by name.
        processing_class: The corpus's tokenizer, which is saved with the model.
        eval_rows: Number of held-out rows per evaluation, the same ones every time; 0 for all.
        read: Turns rows of both datasets into the objective's input: ``building.reader_of``; required by objectives
            such as CLINE.
        options: Further arguments of Trainer, such as ``callbacks`` and ``optimizers``.

    Raises:
        ConfigError: for ``DataParallel``, DeepSpeed or FSDP, or a strategy ``epoch``; for CLINE without ``read``; on
            evaluation, for fewer held-out rows than processes.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective[Any, Any],
        args: TrainingArguments,
        *,
        train_dataset: NumberedRows | None = None,
        eval_dataset: RowIndex | dict[str, RowIndex] | None = None,
        processing_class: PreTrainedTokenizerBase,
        eval_rows: int = 0,
        read: ReadRows = read_rows,
        **options: Any,
    ) -> None:
        _check(args)
        if eval_rows < 0:
            raise ConfigError(f"eval_rows must be at least 0, got {eval_rows}")
        self.eval_rows = eval_rows
        if objective.needs_reader and read is read_rows:
            name = type(objective).__name__
            raise ConfigError(f"{name} needs its own reader: give read=reader_of(config, train_dataset, tokenizer)")
        if objective.alternates:
            raise ConfigError("objective.updates=alternating is for trueneg's own loop: Trainer has one update a step")
        self.processes = Processes(args.process_index, args.world_size, args.local_process_index)
        self.meter = Meter()
        self.read = read
        self.order_seed = args.seed if args.data_seed is None else args.data_seed
        args = copy.copy(args)
        if train_dataset is not None and args.max_steps <= 0:
            args.max_steps = math.ceil(args.num_train_epochs * len(train_dataset) / _step_size(args))
        super().__init__(
            TrainingModule(model, objective),
            args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            **options,
        )
        self.add_callback(_AfterStep(self.model))
        # Tells Trainer that the loss is already divided by the step's count, so that it does not divide it again.
        self.model_accepts_loss_kwargs = True

    def train(self, *given: Any, **named: Any) -> Any:
        """Train as Trainer does, without an attention kernel whose gradients may be NaN at this row length."""
        length = None if self.train_dataset is None else self.train_dataset.length
        with without_faulty_attention(self.args.device, length):
            return super().train(*given, **named)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Loader over all positions of the run, which reads the rows of each micro-batch."""
        if self.train_dataset is None:
            raise ConfigError("nothing to train on: give TruenegTrainer a train_dataset")
        micro_batch = self._train_batch_size
        loader: DataLoader[Any] = DataLoader(
            range(self.args.max_steps * _step_size(self.args, micro_batch)),  # type: ignore[arg-type]
            batch_size=micro_batch,
            collate_fn=_RowsAt(self.train_dataset, self.order_seed, self.read),
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
            persistent_workers=self.args.dataloader_persistent_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Sums]:
        """Corrupt the micro-batches of one step, and sum their counts over all processes."""
        objective = self.model.objective
        with self.accelerator.autocast():  # models may read the rows that are corrupted
            batches = [objective.corrupt(rows.to(device)) for rows in islice(epoch_iterator, num_batches)]
            counts = [objective.counts(batch) for batch in batches]
        samples = [
            {"batch": batch, "counts": count, "number": number}
            for number, (batch, count) in enumerate(zip(batches, counts, strict=True))
        ]
        return samples, self.processes.all_sum(*counts)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Sums | None = None,
    ) -> Any:
        """Loss of a micro-batch as a share of the step's, whose counts are ``num_items_in_batch``."""
        torch.manual_seed(mixed_seed(self.args.seed, self.state.global_step, self.processes.rank, inputs["number"]))
        loss, outcome = model(inputs["batch"], num_items_in_batch)
        self.meter.add(outcome, inputs["counts"])
        # Data-parallel training averages gradients; the whole step's sum is needed.
        loss = loss * self.processes.world_size
        return (loss, outcome) if return_outputs else loss

    def get_eval_dataloader(self, eval_dataset: str | RowIndex | None = None) -> Iterable[Any]:
        """This process's share of held-out rows, each row once."""
        chosen = self.eval_dataset if eval_dataset is None else eval_dataset
        index: RowIndex = self.eval_dataset[chosen] if isinstance(chosen, str) else chosen
        if index is None:
            raise ConfigError("nothing to evaluate on: give TruenegTrainer an eval_dataset")
        num_rows = min(self.eval_rows or len(index), len(index))
        check_shares(num_rows, self.processes)
        return held_out_batches(index, num_rows, self.args.eval_batch_size, self.processes, self.read)

    @torch.no_grad()
    def evaluation_loop(
        self,
        dataloader: Iterable[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Metrics over held-out rows, as ``<prefix>_<metric>``, computed from sums."""
        meter, module = Meter(), self.model
        num_rows = torch.zeros((), device=self.args.device)
        with eval_mode(module):
            for rows in dataloader:
                with self.accelerator.autocast():
                    batch = module.objective.corrupt(rows.to(self.args.device))
                    counts = module.objective.counts(batch)
                    _, outcome = module(batch, counts)
                meter.add(outcome, counts)
                num_rows += outcome.stats["num_rows"]
        total = self.processes.all_sum({"rows": num_rows})["rows"]
        readings = meter.read(self.processes, module.objective.weights)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in readings.items()}
        return EvalLoopOutput(predictions=np.empty(0), label_ids=None, metrics=metrics, num_samples=int(total))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log; training records get the metrics since the last record."""
        if self.train_dataset is not None:
            done = self.state.global_step * _step_size(self.args, self._train_batch_size)
            self.state.epoch = done / len(self.train_dataset)
        if "loss" in logs:
            module = self.model
            logs |= self.meter.read(self.processes, module.objective.weights) | module.objective.expensive_metrics(
                module.model
            )
        super().log(logs, start_time)

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Names of matrices, which ``training.optimizer`` decays, too."""
        return [name for name, parameter in model.named_parameters() if parameter.ndim >= 2]

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        save_hugging_face(self.model.model, self.processing_class, folder)
        (folder / MODULE).mkdir(exist_ok=True)
        save_weights(self.model, folder / MODULE / MODEL)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        folder = Path(resume_from_checkpoint) / MODULE
        if not (folder / MODEL).is_file():
            raise CheckpointError(
                f"'{resume_from_checkpoint}' holds no {MODULE}/{MODEL}: give a checkpoint that TruenegTrainer saved"
            )
        load_checkpoint(folder, self.model)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)


class _AfterStep(TrainerCallback):
    """Calls the objective's ``after_step`` after each optimizer step."""

    def __init__(self, module: TrainingModule[Any]) -> None:
        self._module = module

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        """Call it with the model."""
        self._module.objective.after_step(self._module.model)


@dataclass(frozen=True)
class _RowsAt:
    """Reads the rows at positions of the training order."""

    index: NumberedRows
    seed: int
    read: ReadRows

    def __call__(self, positions: list[int]) -> Any:
        at = np.array(positions, dtype=np.int64)
        return self.read(self.index, self.index.at(self.seed, at), self.seed, at)


def _step_size(args: TrainingArguments, micro_batch: int | None = None) -> int:
    """Rows of an optimizer step."""
    size: int = (micro_batch or args.train_batch_size) * args.gradient_accumulation_steps * args.world_size
    return size


def _check(args: TrainingArguments) -> None:
    if args.n_gpu > 1:
        raise ConfigError(f"{args.n_gpu} GPUs in one process: start it with torchrun, or set CUDA_VISIBLE_DEVICES=0")
    if args.deepspeed or args.fsdp:
        raise ConfigError("TruenegTrainer trains whole copies of the model: leave args.deepspeed and args.fsdp out")
    for name in ("logging_strategy", "eval_strategy", "save_strategy"):
        if getattr(args, name) == "epoch":
            raise ConfigError(f"args.{name}: Trainer's one epoch is the whole run here: use 'steps'")
