"""Which rows a step sees: a function of (seed, step), whatever was read before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.permutation import rows_at
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.detectors.specification import leaves, parse
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.objectives import objective_kind
from trueneg.training.distributed import Processes
from trueneg.training.order import BatchLoader

EVALUATION_SEED = 0x5EED
"""Held-out rows are masked alike in every run, so that their losses can be compared."""


def annotations_of(config: PretrainConfig) -> Path | None:
    """The folder of annotations that a run's detector reads; None if it reads none.

    Raises:
        ConfigError: if it names several.

    Example:
        >>> from trueneg.config.options import PretrainConfig
        >>> from trueneg.config.codec import override
        >>> annotations_of(override(PretrainConfig(), ["correction.detector=annotated:notes@0.6&!antonym"])).name
        'notes'
    """
    detector = config.objective.correction.detector
    folders = _folders(detector)
    if len(folders) > 1:
        raise ConfigError(
            f"objective.correction.detector={detector}: a run reads one folder of annotations: annotate the corpus "
            f"with the combination of detectors instead"
        )
    return Path(folders.pop()) if folders else None


def without_folders(detector: str) -> str:
    """What a detector is, wherever its annotations lie.

    Example:
        >>> without_folders("annotated:some/notes@0.6 & !antonym"), without_folders('annotated:"R & D/notes"')
        ('annotated:@0.6 & !antonym', 'annotated:')
    """
    for folder in _folders(detector):
        for written in (f'"{folder}"', folder):
            detector = detector.replace(f"annotated:{written}", "annotated:")
    return detector


def movable(config: PretrainConfig) -> PretrainConfig:
    """The same run, wherever its annotations lie: their fingerprint is compared."""
    return override(config, [f"objective.correction.detector={without_folders(config.objective.correction.detector)}"])


def _folders(detector: str) -> set[str]:
    named = [leaf for leaf in leaves(parse(detector)) if leaf.name == "annotated"] if detector else []
    for leaf in named:
        leaf.check(argument=True, what="FOLDER")
    return {leaf.argument for leaf in named}


def row_index(config: PretrainConfig, corpus: Corpus) -> RowIndex:
    """Number a corpus's rows as a run reads them.

    With annotations if its detector names some, with tags if its objective needs them. A warning says so if the
    annotations cover a part of the corpus only.

    Raises:
        CorpusError: if the corpus does not fill a row, lacks tags, or the annotations cannot be used with it.
    """
    folder = annotations_of(config)
    annotations = None if folder is None else Annotations.open(folder, corpus)
    if annotations is not None and annotations.counts.share < 1:
        warnings.warn(
            f"the annotations '{folder}' cover {annotations.counts.share:.2%} of the split '{corpus.split}': "
            f"in the rest nothing is corrected",
            TruenegWarning,
            stacklevel=2,
        )
    tags = Tags.open(corpus) if objective_kind(config.objective.name).needs_tags else None
    return RowIndex(corpus, config.corpus.length, pack=config.corpus.pack, annotations=annotations, tags=tags)


def fingerprint_of(index: RowIndex) -> str:
    """What tells rows from others: the fingerprints of the corpus, and of its annotations and tags."""
    beside = [extra.info.fingerprint for extra in (index.annotations, index.tags) if extra is not None]
    return "+".join([index.corpus.info.fingerprint, *beside])


class CorpusBatches(BatchLoader[Any]):
    """The micro-batches of any step, of a corpus's rows.

    Example i of step s stands at position ``s * batch_size + i`` of an endless stream of epochs, each a seeded
    permutation of all rows. Processes take contiguous shares of a step, micro-batches contiguous shares of those.

    Raises:
        ConfigError: if the batch size does not divide among processes and micro-batches.
    """

    def __init__(self, index: RowIndex, config: TrainConfig, processes: Processes, read: ReadRows = read_rows) -> None:
        super().__init__(config, processes)
        self._index = index
        self._read = read

    @property
    def tokens_per_step(self) -> float:
        """Tokens that are not padding, on average."""
        return self.config.batch_size * self._index.length * self._index.mean_fill

    def micro_batches(self, step: int) -> list[Any]:
        """Rows of one optimizer step, as many as ``accumulation``."""
        size, seed = self.config.batch_size, self.config.seed
        positions = np.arange(step * size, (step + 1) * size, dtype=np.int64)
        return [
            self._read(self._index, rows_at(seed, own, len(self._index)), seed, own)
            for own in self.own_parts(positions)
        ]


def check_shares(num_rows: int, processes: Processes) -> None:
    """Make sure that every process has held-out rows: one without any would leave the others waiting for its sums.

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
