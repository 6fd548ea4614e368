"""Sources of a report: any mix of folders and files, recognized by their content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from trueneg.config.codec import load_config
from trueneg.config.options import PretrainConfig
from trueneg.errors import TaskError, TruenegError
from trueneg.evaluation.encoders.similarity_record import SimilarityRecord, read_similarity
from trueneg.evaluation.masked_lm.corrections import FalseNegativeRecord, load_false_negatives
from trueneg.evaluation.results.provenance import Provenance
from trueneg.evaluation.results.reproduction import TABLE, ReproducedTable, load_table
from trueneg.evaluation.results.store import find_results
from trueneg.evaluation.results.trial import TRIAL, Trial, load_trial
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.names import distinct_names
from trueneg.files.records import read_record
from trueneg.reporting.baselines import lineage_of
from trueneg.reporting.planted import PLANTED, PlantedResults
from trueneg.training.folder import CONFIG, FALSE_NEGATIVES, METRICS, PROVENANCE, SIMILARITY
from trueneg.training.log import read_metrics

KNOWN = (
    "a run (with metrics.jsonl), results of fine-tuning or attacks, the folder of a recipe (with table.json), "
    "of a trial (try.json) or of reproduce planted (results.json), or a .json that detect benchmark or evaluate "
    "wrote with --out"
)
_REMEDY = "make it again, or leave it out"


@dataclass(frozen=True)
class RunFiles:
    """The result files of a run."""

    name: str
    config: PretrainConfig
    records: Sequence[Mapping[str, Any]]
    found: Sequence[FalseNegativeRecord]
    folder: Path = field(default_factory=Path)
    similarity: SimilarityRecord | None = None
    provenance: Provenance = field(default_factory=Provenance)

    def last(self, kind: str) -> Mapping[str, Any]:
        """Find the last record of a kind, ``train`` or ``eval``; empty if there is none."""
        return next((record for record in reversed(self.records) if record.get("kind") == kind), {})

    @cached_property
    def encoder(self) -> str:
        """Its initial checkpoint or architecture, traced back through the runs that it continues."""
        return lineage_of(self.config).encoder

    @property
    def step(self) -> int:
        """The last step that it has a record of."""
        return max((record["step"] for record in self.records), default=0)


@dataclass(frozen=True)
class MeasuredOn:
    """The examples that encoders were measured on, as the file records them; empty if it does not."""

    data: str = ""
    split: str = ""
    examples: str = ""
    """Their fingerprint."""

    def __str__(self) -> str:
        return " ".join(part for part in (self.data, self.split) if part) or "data that the file does not name"

    def is_other(self, than: MeasuredOn) -> bool:
        """Whether these are different examples, as far as both files record them.

        Example:
            >>> MeasuredOn("STS-B", "dev").is_other(MeasuredOn("STS-B", "test"))
            True
        """
        if self.examples and than.examples:
            return self.examples != than.examples
        ours, theirs = ((os.path.normpath(one.data) if one.data else "", one.split) for one in (self, than))
        return any(left and right and left != right for left, right in zip(ours, theirs, strict=True))


@dataclass(frozen=True)
class Layers:
    """Hits of one encoder by one similarity: what ``trueneg evaluate encoder`` writes for triplets."""

    checkpoint: str
    way: str
    curve: list[float]
    """Hits at each layer, starting with the embeddings."""
    paper_layer: int
    chosen_layer: int
    chosen: Interval
    """Hits at ``chosen_layer``, on sentences not used to choose it."""
    chosen_ties: float
    form: str = "not said"
    """How many words the triplets replace."""
    settings: list[str] = field(default_factory=list)
    """Settings with which the triplets were made from sentences."""
    on: MeasuredOn = field(default_factory=MeasuredOn)

    @property
    def triplets(self) -> str:
        """Identifies the kind of triplets: Hits are compared only within one kind."""
        return ", ".join([self.form, *self.settings])


@dataclass(frozen=True)
class Similarity:
    """Spearman's correlation of one encoder, by one pooling."""

    checkpoint: str
    pooling: str
    spearman: float
    interval: tuple[float, float]
    num_examples: int
    on: MeasuredOn = field(default_factory=MeasuredOn)


@dataclass(frozen=True)
class Gain:
    """A detector's figures that a report shows."""

    detector: str
    curve: dict[str, list[float]]
    differences: dict[str, Interval]


@dataclass(frozen=True)
class _Hits:
    triplets: list[Layers]
    data: str = ""
    split: str = ""
    rows: int = 0
    """Number of rows read, drawn at random; 0 for all."""
    examples: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Similarity:
    sts: list[Similarity]
    data: str = ""
    split: str = ""
    rows: int = 0
    examples: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Detectors:
    rows: list[dict[str, Any]]
    measured: list[Gain]
    data: dict[str, str]
    options: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HeldOut(FalseNegativeRecord):
    """One checkpoint, text and detector of a file of ``trueneg evaluate masked-lm``."""

    sequences: str
    fraction: float | None
    shares: dict[str, Interval | None]

    def row(self) -> dict[str, Any]:
        """Return the content of a row of Table 2."""
        shares = {name: share and vars(share) for name, share in self.shares.items()}
        return {**vars(self), "shares": shares}


@dataclass(frozen=True)
class _HeldOut:
    records: list[HeldOut]
    arguments: list[str] = field(default_factory=list)
    """Arguments of the command after the checkpoints; empty in files of versions that did not record them."""
    version: str = ""
    versions: dict[str, str] = field(default_factory=dict)


Kind = Literal["hits", "similarity", "detectors", "held_out", "planted"]

_FILES: Mapping[Kind, tuple[type[Any], str, Any]] = {
    "hits": (_Hits, "triplets", None),
    "similarity": (_Similarity, "sts", None),
    "detectors": (_Detectors, "task", "substitution"),
    "held_out": (_HeldOut, "task", "false-negatives"),
    "planted": (PlantedResults, "recipe", "planted"),
}
"""Kind of file to its dataclass, the key that identifies it, and that key's value if other kinds have it, too."""


@dataclass(frozen=True)
class Measurement:
    """A file of measurements."""

    name: str
    path: Path
    read: Any
    """The part that was validated."""
    data: Mapping[str, Any]
    """All of it."""


@dataclass
class Sources:
    """Everything that was found, by kind, each in the order in which it was named."""

    runs: list[RunFiles] = field(default_factory=list)
    results: dict[str, Path] = field(default_factory=dict)
    """Folders of results of fine-tuning and of attacks, by the name of the model."""
    tables: dict[str, ReproducedTable] = field(default_factory=dict)
    """Reproduced tables of papers, by the name of their folder."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """Trials on the user's own text, likewise."""
    files: dict[Kind, list[Measurement]] = field(default_factory=lambda: {kind: [] for kind in _FILES})

    @property
    def num(self) -> int:
        """Number of items found."""
        found = (self.runs, self.results, self.tables, self.trials, *self.files.values())
        return sum(map(len, found))


def read_sources(places: Sequence[str | Path]) -> Sources:
    """Read folders and files; a folder may hold several kinds.

    Raises:
        TruenegError: for a place that holds none of these, is named twice, or is damaged.
    """
    found = Sources()
    for name, place in zip(distinct_names(places), map(Path, places), strict=True):
        if (place / TABLE).is_file():  # the runs and results below it belong to it
            found.tables[name] = load_table(place)
            continue
        if (place / TRIAL).is_file():  # likewise
            found.trials[name] = load_trial(place)
            continue
        before = found.num
        for table in sorted(place.glob(f"*/{TABLE}")):  # the folder of several recipes
            found.tables[f"{name}/{table.parent.name}"] = load_table(table.parent)
        if before != found.num:
            continue
        if (place / METRICS).is_file() and not place.name.startswith("seed-"):
            found.runs.append(read_run(place, name))
        if place.is_dir() and any(find_results(place)):
            found.results[name] = place
        _read_files(place, name, found)
        if not place.exists():
            raise TruenegError(f"no such file or folder: '{place}': name {KNOWN}")
        if before == found.num:
            raise TruenegError(f"'{place}' holds no run and no results: name {KNOWN}")
    return found


def is_experiment(place: Path) -> bool:
    """Return whether a place is that of one or several recipes, a trial, or the planted experiment."""
    if (place / TRIAL).is_file() or (place / TABLE).is_file() or any(place.glob(f"*/{TABLE}")):
        return True
    path = place if place.is_file() else place / PLANTED
    return (
        path.name == PLANTED
        and path.is_file()
        and _is_of(read_record(dict[str, Any], path, TaskError, _REMEDY), "planted")
    )


def _is_of(data: Mapping[str, Any], kind: Kind) -> bool:
    _, key, value = _FILES[kind]
    return key in data and value in (None, data[key])


def _read_files(place: Path, name: str, found: Sources) -> None:
    """Read the measurements in a file, or in files directly inside a folder."""
    paths = [place] if place.is_file() else sorted(place.glob("*.json"))
    read: list[tuple[Kind, Path, Any, Mapping[str, Any]]] = []
    for path in paths:
        if place.is_dir() and path.name in (CONFIG, FALSE_NEGATIVES, SIMILARITY, PROVENANCE):
            continue
        data = read_record(dict[str, Any], path, TaskError, _REMEDY)
        for kind, (shape, *_) in _FILES.items():
            if _is_of(data, kind):
                read.append((kind, path, read_record(shape, path, TaskError, _REMEDY, ignores_others=True), data))
    for kind, path, checked, whole in read:
        called = name if len(read) == 1 else f"{name}/{path.stem}"
        found.files[kind].append(Measurement(called, path, checked, whole))


def read_run(folder: Path, name: str) -> RunFiles:
    """Read a run's result files; ``name`` is what the page calls it.

    Warns:
        TruenegWarning: if lines of its ``metrics.jsonl`` are damaged.

    Raises:
        TruenegError: if one is damaged.
    """
    found, made = folder / FALSE_NEGATIVES, folder / PROVENANCE
    return RunFiles(
        name,
        config=load_config(PretrainConfig, folder / CONFIG),
        records=read_metrics(folder / METRICS),
        found=load_false_negatives(found) if found.is_file() else [],
        folder=folder,
        similarity=read_similarity(folder / SIMILARITY),
        provenance=read_record(Provenance, made, TaskError, _REMEDY) if made.is_file() else Provenance(),
    )
