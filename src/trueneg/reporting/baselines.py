"""Choice of the baseline for each folder of results: same encoder, same pre-training text, same tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trueneg.config.codec import load_config
from trueneg.config.options import PretrainConfig
from trueneg.corpus.store import CorpusInfo
from trueneg.errors import ConfigError, TruenegError
from trueneg.evaluation.results.summary import Runs
from trueneg.training.folder import CONFIG, METRICS

Key = tuple[str, str]
"""Task and split."""


@dataclass(frozen=True)
class Lineage:
    """An encoder's origin and its pre-training text, as far as known; an empty field is unknown."""

    encoder: str = ""
    """The checkpoint that pre-training started from, or the architecture if it started from random weights."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Identifier of each text used in pre-training, mapped to the folder of its corpus."""

    def why_other(self, than: Lineage) -> str:
        """Return why the two cannot be compared, or an empty string if they can.

        One may have been trained on more text than the other, e.g. a run that continues it.

        Example:
            >>> Lineage("bert").why_other(Lineage("roberta"))
            'another encoder: bert, and not roberta'
        """
        if self.encoder and than.encoder and self.encoder != than.encoder:
            return f"another encoder: {self.encoder}, and not {than.encoder}"
        ours, theirs = self.texts.keys(), than.texts.keys()
        if not (ours <= theirs or theirs <= ours):
            return f"pre-trained on other text: {_listed(self.texts)}, and not {_listed(than.texts)}"
        return ""

    def joined(self, other: Lineage) -> Lineage:
        """Merge with another lineage, whose encoder takes precedence if known."""
        return Lineage(other.encoder or self.encoder, {**self.texts, **other.texts})


_DEEPEST = 9
"""Maximum number of runs to trace back, since folders that were moved could form a cycle."""


def lineage_of(config: PretrainConfig, depth: int = 0) -> Lineage:
    """Trace a run back to its initial checkpoint or architecture, through the runs that it continues."""
    texts = {_text_of(source.path): source.path for source in config.corpus.sources if source.path}
    model = config.model
    if not model.start_from:
        return Lineage(f"{model.architecture} of {model.num_layers} layers of {model.hidden_size}, from nothing", texts)
    before = lineage_of_checkpoint(model.start_from, depth + 1)
    return Lineage(before.encoder or _short(model.start_from), {**before.texts, **texts})


def lineage_of_checkpoint(place: str, depth: int = 0) -> Lineage:
    """Trace a checkpoint that is a run or lies inside one; the lineage of any other checkpoint is empty."""
    for folder in (Path(place), *Path(place).parents[:3]):
        if depth < _DEEPEST and (folder / CONFIG).is_file() and (folder / METRICS).is_file():
            try:
                return lineage_of(load_config(PretrainConfig, folder / CONFIG), depth)
            except ConfigError:
                return Lineage()  # fine-tuned, or written by another version: its encoder is unknown
    return Lineage()


def _short(place: str) -> str:
    return "/".join(Path(place).parts[-2:])


def _text_of(corpus: str) -> str:
    """Identify the text of a corpus by its source files, or by the corpus's path if these are unknown.

    The same text may be built into several corpora, e.g. with and without tags.
    """
    try:
        sources = CorpusInfo.read(corpus).sources
    except TruenegError:
        sources = ()
    files = sorted(f"{one.name if one.num_bytes is None else Path(one.name).name} {one.num_bytes}" for one in sources)
    return ", ".join(files) or os.path.normpath(corpus)


def _listed(texts: Mapping[str, str]) -> str:
    return " and ".join(map(_short, texts.values()))


@dataclass(frozen=True)
class Tuned:
    """Results of one fine-tuned model, with the lineage of its encoder."""

    runs: Runs
    lineage: Lineage
    parameters: Mapping[str, set[int]]
    """Numbers of parameters by task, with the task head: equal for the same encoder."""

    @classmethod
    def of(cls, runs: Runs) -> Tuned:
        """Trace the lineage of the model that results are from."""
        results = [(task, result) for (task, _), seeds in runs.items() for _, result in seeds.values()]
        lineage = Lineage()
        for model in dict.fromkeys(result.model for _, result in results):
            lineage = lineage.joined(lineage_of_checkpoint(model))
        parameters: dict[str, set[int]] = {}
        for task, result in results:
            parameters.setdefault(task, set()).update(filter(None, [result.train.get("parameters")]))
        return cls(runs, lineage, parameters)

    def labelled(self) -> list[Key]:
        """List the tasks and splits that have metrics."""
        return [key for key, seeds in self.runs.items() if all(result.metrics for _, result in seeds.values())]

    def why_other(self, than: Tuned, key: Key) -> str:
        """Return why the two cannot be compared on a split, or an empty string if they can."""
        ours, theirs = self.parameters[key[0]], than.parameters[key[0]]
        if ours and theirs and ours != theirs:
            told = [" and ".join(f"{number:,}" for number in sorted(side)) for side in (ours, theirs)]
            return f"another encoder: {told[0]} parameters, and not {told[1]}"
        return self.lineage.why_other(than.lineage)


@dataclass(frozen=True)
class Groups:
    """Which models are compared with which baseline, and on which splits."""

    contenders: Mapping[str, Mapping[str, Sequence[Key]]]
    """Baseline to the models that are compared with it, each with its splits."""
    apart: Sequence[tuple[str, str, str]]
    """Model, the baseline that it is not compared with, and why."""
    unlike: Mapping[tuple[str, str], str]
    """Contender and baseline that are compared only because the user asked for it, to the objection."""


def group(tuned: Mapping[str, Tuned], forced: str = "") -> Groups:
    """Assign each model, on each split, the first preceding model that it can be compared with.

    Args:
        tuned: Models by name; a baseline precedes the models that are compared with it.
        forced: Baseline of all models, whatever their encoder and text; empty for none.
    """
    contenders: dict[str, dict[str, list[Key]]] = {}
    unlike: dict[tuple[str, str], str] = {}
    apart: dict[tuple[str, str], str] = {}
    for number, (name, model) in enumerate(tuned.items()):
        others, left = list(tuned)[:number], set(model.labelled())
        reasons: dict[str, str] = {}
        for other in [forced] if forced in others else others:
            for key in [key for key in tuned[other].labelled() if key in left]:
                why = model.why_other(tuned[other], key)
                if why and other != forced:
                    reasons.setdefault(other, why)
                    continue
                if why:
                    unlike[name, other] = why
                contenders.setdefault(other, {}).setdefault(name, []).append(key)
                left.discard(key)
        if others and not any(name in of_baseline for of_baseline in contenders.values()):
            other, why = next(iter(reasons.items()), (forced or others[0], _NOTHING))
            apart[name, other] = why
    return Groups(contenders, [(*pair, why + _remedy(pair, why, contenders)) for pair, why in apart.items()], unlike)


def _remedy(pair: tuple[str, str], why: str, contenders: Mapping[str, Mapping[str, object]]) -> str:
    name, other = pair
    if name in contenders:
        return f"; it is the baseline of {' and '.join(contenders[name])}"
    return "" if why == _NOTHING else f"; to compare them all the same, name the folder of {other} with --baseline"


_NOTHING = "it has no labelled task and split in common with the baseline: fine-tune and evaluate both alike"


def put_first(folders: Sequence[str | Path], baselines: Sequence[str | Path]) -> list[str | Path]:
    """Put baselines before all other folders, in the order in which they were named.

    Raises:
        ConfigError: for a baseline that is not among the folders.
    """
    known = {Path(folder).resolve(): folder for folder in folders}
    for baseline in baselines:
        if Path(baseline).resolve() not in known:
            raise ConfigError(f"--baseline {baseline}: not among the folders of the report: name it there, too")
    first = list(dict.fromkeys(Path(baseline).resolve() for baseline in baselines))
    return [known[path] for path in first] + [folder for folder in folders if Path(folder).resolve() not in first]
