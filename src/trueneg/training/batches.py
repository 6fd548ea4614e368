"""Batches: the rows of each step, a pure function of (seed, step), and held-out rows."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.config.batch_sizes import check_rows, rows_before, rows_of_step
from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.config.stages import Stage
from trueneg.corpus.annotations import Annotations, AnnotationsInfo
from trueneg.corpus.mixture import MixedRows, check_alike
from trueneg.corpus.permutation import permute, rows_at
from trueneg.corpus.rows import NumberedRows, RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.detectors.annotated import annotations_of
from trueneg.errors import ConfigError, CorpusError, TruenegWarning
from trueneg.models.modes import eval_mode
from trueneg.objectives import objective_kind
from trueneg.objectives.labelled import LabelledBatch
from trueneg.training.distributed import Processes
from trueneg.training.features import Features
from trueneg.training.metrics import Meter
from trueneg.training.step import Run

EVALUATION_SEED = 0x5EED
"""Held-out rows are masked identically in every run, so that losses can be compared."""


class Pinnable(Protocol):
    """A batch on the CPU."""

    def pin_memory(self) -> Self:
        """Copy to pinned memory."""


Given = TypeVar("Given", bound=Pinnable)


class BatchLoader(ABC, Generic[Given]):
    """The micro-batches of any step, for one process: a function of the step alone.

    Raises:
        ConfigError: if the batch size does not divide among processes and micro-batches.
    """

    def __init__(self, config: TrainConfig, processes: Processes) -> None:
        check_rows(config, config.steps, processes.world_size)
        self.config = config
        self.processes = processes

    @property
    def micro_batch(self) -> int:
        """Examples in one process's micro-batch, after any batch-size warm-up."""
        return self.config.batch_size // (self.processes.world_size * self.config.accumulation)

    @property
    @abstractmethod
    def tokens_per_step(self) -> float:
        """Average number of non-padding tokens in a step, over all processes."""

    @property
    def positions_per_step(self) -> float | None:
        """Average number of tokens in a step, padding included, over all processes; None if unknown."""
        return None

    def num_full_steps(self, start: int, stop: int) -> float:
        """Number of steps from ``start`` to ``stop``; a step with fewer rows than a full one counts as a fraction."""
        return stop - start

    @abstractmethod
    def micro_batches(self, step: int) -> list[Given]:
        """Micro-batches of one optimizer step, ``accumulation`` of them."""

    def progress(self, step: int) -> dict[str, float]:
        """Metrics about the examples read before a step, logged besides the objective's."""
        return {}

    def from_step(self, start: int, stop: int, pin_memory: bool = False) -> Iterator[Sequence[Given]]:
        """Micro-batches of steps ``start`` to ``stop``, each step's read while the previous step is trained on."""

        def read(step: int) -> list[Given]:
            batches = self.micro_batches(step)
            return [batch.pin_memory() for batch in batches] if pin_memory else batches

        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(read, start) if start < stop else None
            for step in range(start, stop):
                assert coming is not None
                current = coming.result()
                coming = reader.submit(read, step + 1) if step + 1 < stop else None
                yield current

    def own_parts(self, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """This process's share of a step's examples, by micro-batch: contiguous, as even as possible."""
        parts = np.array_split(numbers, self.processes.world_size * self.config.accumulation)
        first = self.processes.rank * self.config.accumulation
        return parts[first : first + self.config.accumulation]


def rows_of(config: PretrainConfig, corpora: Sequence[Corpus]) -> NumberedRows:
    """Number the rows of all corpora that a run reads: see ``row_index``.

    Raises:
        ConfigError: for several corpora with an objective that supports only one, such as CLINE.
        CorpusError: as ``row_index``.
    """
    if len(corpora) == 1:
        return row_index(config, corpora[0])
    if objective_kind(config.objective.name).needs_tags:
        raise ConfigError(
            f"objective.name={config.objective.name} reads the tags of one corpus, and corpus.mixture names "
            f"{len(corpora)}: build one corpus of all the text (trueneg corpus build FILES --tag)"
        )
    _check_annotations(config, corpora)
    sources = config.corpus.sources
    return MixedRows(
        [row_index(config, corpus, is_alone=False) for corpus in corpora],
        [config.corpus.names[source.path] for source in sources],
        [source.weight for source in sources if source.weight is not None],
        config.corpus.temperature,
    )


def _check_annotations(config: PretrainConfig, corpora: Sequence[Corpus]) -> None:
    known = {corpus.info.fingerprint for corpus in corpora}
    for folder in annotations_of(config):
        if (found := AnnotationsInfo.read(folder)).corpus not in known:
            raise CorpusError(
                f"'{folder}' annotates none of the corpora of the mixture (fingerprint {found.corpus}): annotate one "
                f"of them with 'trueneg corpus annotate', or leave it out of the detector"
            )


def row_index(config: PretrainConfig, corpus: Corpus, *, is_alone: bool = True) -> RowIndex:
    """Number a corpus's rows as a run reads them.

    Rows have annotations if the detector names some, and tags if the objective needs them. Warns if the annotations
    cover only part of the corpus or if, in a mixture, this corpus has none.

    Args:
        config: The run's configuration.
        corpus: The corpus to read.
        is_alone: Whether it is the only corpus, so that any annotations must be its own.

    Raises:
        ConfigError: if the detector names several annotation folders for the only corpus.
        CorpusError: if the corpus does not fill a row, lacks tags, or the annotations cannot be used with it.
    """
    folder = _annotations_for(config, corpus, is_alone)
    annotations = None if folder is None else Annotations.open(folder, corpus)
    if annotations is not None and annotations.counts.share < 1:
        warnings.warn(
            f"the annotations '{folder}' cover {annotations.counts.share:.2%} of the split '{corpus.split}': "
            f"in the rest nothing is corrected",
            TruenegWarning,
            stacklevel=2,
        )
    tags = Tags.open(corpus) if objective_kind(config.objective.name).needs_tags else None
    return RowIndex(
        corpus,
        config.corpus.length,
        pack=config.corpus.is_packed,
        annotations=annotations,
        tags=tags,
        lists_nothing=annotations is None and bool(annotations_of(config)),
    )


def _annotations_for(config: PretrainConfig, corpus: Corpus, is_alone: bool) -> Path | None:
    """Choose the folder of a corpus's annotations: the only one or, in a mixture, the one made for this corpus."""
    folders = annotations_of(config)
    if is_alone:
        if len(folders) > 1:
            raise ConfigError(
                f"objective.correction.detector={config.objective.correction.detector}: a run reads one folder "
                f"of annotations a corpus: annotate the corpus with the combination of detectors instead"
            )
        return folders[0] if folders else None
    its = [folder for folder in folders if AnnotationsInfo.read(folder).corpus == corpus.info.fingerprint]
    if len(its) > 1:
        raise ConfigError(f"'{its[0]}' and '{its[1]}' both annotate '{corpus.path}': a corpus has one: leave one out")
    if folders and not its:
        warnings.warn(f"'{corpus.path}' has no annotations: nothing of it is corrected", TruenegWarning, stacklevel=3)
    return its[0] if its else None


class CorpusBatches(BatchLoader[Any]):
    """The micro-batches of any step, read from the rows of a corpus or a mixture.

    Example i of step s is at position ``r + i`` of an endless stream of epochs, each a seeded permutation of all rows,
    where r is the number of rows in all earlier steps (``rows_before``: ``s * batch_size`` without batch-size warm-up);
    in a mixture, each source has such a stream. Processes take contiguous shares of a step, micro-batches contiguous
    shares of those. A stage counts steps from its own first one.

    Args:
        index: The rows.
        config: Batch size, seed, accumulation.
        processes: The processes that share a step.
        read: Turns rows into the objective's input.
        stage: Where the stage begins: its first step; the number of rows read before it, at which the numbering of
            examples continues, so that no masking repeats; and how many of those were of this index, which it
            continues.

    Raises:
        ConfigError: if the batch size does not divide among processes and micro-batches.
    """

    def __init__(
        self,
        index: NumberedRows,
        config: TrainConfig,
        processes: Processes,
        read: ReadRows = read_rows,
        stage: Stage | None = None,
    ) -> None:
        super().__init__(config, processes)
        self._index = index
        self._read = read
        self._first_step, self._first_row, self._first_place = (
            (0, 0, 0) if stage is None else (stage.steps.start, stage.row, stage.place)
        )

    @property
    def tokens_per_step(self) -> float:
        """Tokens that are not padding, on average."""
        return self.positions_per_step * self._index.mean_fill

    @property
    def positions_per_step(self) -> float:
        """Tokens in a step, padding included: every row has the same length."""
        return float(self.config.batch_size * self._index.length)

    def micro_batches(self, step: int) -> list[Any]:
        """This process's rows of one optimizer step, in ``accumulation`` micro-batches."""
        seed, own_step = self.config.seed, step - self._first_step
        first = self._first_row + rows_before(self.config, own_step)
        numbers = np.arange(first, first + rows_of_step(self.config, own_step), dtype=np.int64)
        moved = self._first_place - self._first_row
        return [
            self._read(self._index, self._index.at(seed, own + moved), seed, own) for own in self.own_parts(numbers)
        ]

    def progress(self, step: int) -> dict[str, float]:
        """For a mixture, each source's share of the rows before a step, and how often it was read."""
        return self._index.progress(self._first_place + rows_before(self.config, step - self._first_step))

    def num_full_steps(self, start: int, stop: int) -> float:
        """Number of steps from ``start`` to ``stop``; a step with fewer rows than a full one counts as a fraction."""
        begin, end = (rows_before(self.config, step - self._first_step) for step in (start, stop))
        return (end - begin) / self.config.batch_size


class LabelledBatches(BatchLoader[LabelledBatch]):
    """The micro-batches of any step, of encoded rows.

    Each epoch is a seeded permutation of all rows, cut into windows of ``window`` batches; within a window rows are
    sorted by length before they are cut into batches, and the epoch's batches come in a seeded order. So a batch has
    rows of similar lengths and hardly any padding, while its composition changes from epoch to epoch. One batch of an
    epoch may be short. ``window=1`` is plain shuffling.

    Args:
        features: The encoded training rows.
        pad_id: Padding id of the tokenizer.
        window: Number of batches within which rows are sorted.
        config: Batch size, seed, accumulation.
        processes: The processes that share a step.
    """

    def __init__(
        self, features: Features, pad_id: int, window: int, config: TrainConfig, processes: Processes | None = None
    ) -> None:
        super().__init__(config, processes or Processes())
        self._features, self._pad_id, self._window = features, pad_id, window
        self._epoch = lru_cache(maxsize=2)(self._batches_of_epoch)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch; one of them may be short."""
        return -(-len(self._features) // self.config.batch_size)

    @property
    def tokens_per_step(self) -> float:
        """Tokens that are not padding, on average."""
        return float(self._features.lengths.sum()) / self.steps_per_epoch

    def rows(self, step: int) -> NDArray[np.int64]:
        """Row numbers of a step, ``[at most batch_size]``, the shortest first if ``window`` is above 1."""
        epoch, number = divmod(step, self.steps_per_epoch)
        return self._epoch(epoch)[number]

    def micro_batches(self, step: int) -> list[LabelledBatch]:
        """This process's rows of one optimizer step, in ``accumulation`` micro-batches."""
        rows = self.rows(step)
        return [
            # Every process takes part in every micro-batch; one without rows uses a row that does not count.
            self._features.batch(own, self._pad_id) if len(own) else self._features.batch(rows[:1], self._pad_id, 0)
            for own in self.own_parts(rows)
        ]

    def _batches_of_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        size, num = self.config.batch_size, len(self._features)
        rows = rows_at(self.config.seed, np.arange(epoch * num, (epoch + 1) * num), num)
        # Windows are sorted by (window, length); rows of equal length stay in their random order.
        window = np.arange(num) // (size * self._window)
        rows = rows[np.lexsort((self._features.lengths[rows], window))] if self._window > 1 else rows
        batches = np.split(rows, np.arange(size, num, size))
        order = permute(np.arange(len(batches)), len(batches), key=mixed_seed(self.config.seed, epoch))
        return [batches[number] for number in order]


def check_shares(num_rows: int, processes: Processes) -> None:
    """Check that every process has held-out rows: the others would wait forever for the sums of one that has none.

    Raises:
        ConfigError: if there are fewer rows than processes.
    """
    if num_rows < processes.world_size:
        raise ConfigError(
            f"{num_rows} held-out rows for {processes.world_size} processes: hold out more text, or evaluate "
            f"nothing (corpus.eval_rows=0; under Trainer eval_strategy='no')"
        )


def held_out_batches(
    index: RowIndex, num_rows: int, batch_size: int, processes: Processes, read: ReadRows = read_rows
) -> Iterator[Any]:
    """This process's share of a sample of held-out rows, the same in every run, in batches."""
    numbers = rows_at(EVALUATION_SEED, np.arange(min(num_rows, len(index)), dtype=np.int64), len(index))
    own = np.array_split(numbers, processes.world_size)[processes.rank]
    for start in range(0, len(own), batch_size):
        chosen = own[start : start + batch_size]
        yield read(index, chosen, EVALUATION_SEED, chosen)


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of a corpus, and their weight."""

    name: str
    rows: RowIndex
    share: float
    """Weight in the mean over sources; 0 for a corpus that is only evaluated on."""


def held_out_sources(
    config: PretrainConfig, corpora: Sequence[Corpus], rows: NumberedRows, processes: Processes
) -> list[HeldOut]:
    """Open a run's evaluation data: held-out rows of the training corpora, and of those only evaluated on.

    Args:
        config: The run's configuration.
        corpora: The training corpora.
        rows: The rows of these corpora.
        processes: The processes that share an evaluation.

    Raises:
        ConfigError: if there are fewer rows than processes, or a corpus of ``corpus.held_out`` is also trained on.
        CorpusError: if a corpus of ``corpus.held_out`` has no held-out rows, or another tokenizer.
    """
    if not config.corpus.eval_rows:
        return []
    shares = rows.asked if isinstance(rows, MixedRows) else (1.0,)
    trained = {corpus.info.fingerprint for corpus in corpora}
    opened = [
        (Corpus.open(corpus.path, "valid", verify=corpus.is_verified), share)
        for corpus, share in zip(corpora, shares, strict=True)
        if "valid" in corpus.info.splits
    ]
    for folder in config.corpus.measured:
        other = Corpus.open(folder, "valid", verify=corpora[0].is_verified)
        check_alike(corpora[0], other)
        if other.info.fingerprint in trained:
            raise ConfigError(f"corpus.held_out: '{folder}' is trained on, and measured as it is: leave it out")
        opened.append((other, 0.0))
    names = {str(Path(path)): name for path, name in config.corpus.names.items()}
    if not any(share for _, share in opened):
        opened = [(corpus, 1.0) for corpus, _ in opened]
    is_alone = len(corpora) == 1 and not config.corpus.measured
    found = [
        HeldOut(names[str(corpus.path)], row_index(config, corpus, is_alone=is_alone), share)
        for corpus, share in opened
    ]
    for one in found:
        check_shares(min(config.corpus.eval_rows, len(one.rows)), processes)
    return found


def held_out_by_source(
    run: Run, sources: Sequence[HeldOut], num_rows: int, read: ReadRows = read_rows
) -> dict[str, float]:
    """Metrics over at most ``num_rows`` rows of each source, and their means weighted by the sources' shares.

    Returns:
        As ``held_out_readings``; for several sources also ``source/NAME/READING``.
    """
    found = [held_out_readings(run, source.rows, num_rows, read) for source in sources]
    if len(found) == 1:
        return found[0]
    counted = [(one, source.share) for one, source in zip(found, sources, strict=True) if source.share]
    means = {
        name: sum(one.get(name, 0.0) * share for one, share in counted)
        / sum(share for one, share in counted if name in one)
        for name in {name: None for one, _ in counted for name in one}
    }
    return means | {
        f"source/{source.name}/{name}": value
        for source, one in zip(sources, found, strict=True)
        for name, value in one.items()
    }


@torch.no_grad()
def held_out_readings(run: Run, rows: RowIndex, num_rows: int, read: ReadRows = read_rows) -> dict[str, float]:
    """Metrics over at most ``num_rows`` rows, corrupted identically every time; dropout is off.

    If the objective depends on the rows of a micro-batch, so do the metrics.
    """
    # Micro-batches as large as in training, whose memory is available.
    parts = run.processes.world_size * run.config.accumulation
    meter, share = Meter(), max(1, run.config.batch_size // parts)
    with eval_mode(run.module):
        for given in held_out_batches(rows, num_rows, share, run.processes, read):
            with run.autocast():
                batch = run.objective.corrupt(given.to(run.device))
                counts = run.objective.counts(batch)
                _, outcome = run.module(batch, counts)
            meter.add(outcome, counts)
    return meter.read(run.processes, run.objective.weights)
