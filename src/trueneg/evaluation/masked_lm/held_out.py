"""A masked model on held-out text: its loss, its mispredictions, and how many of them are none."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import encode, flatten, override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.detectors import make_detector
from trueneg.detectors.base import Detector
from trueneg.errors import ConfigError, ModelError, TruenegWarning, unknown_name
from trueneg.evaluation.masked_lm.checkpoint_sweep import CheckpointRef, checkpoints_of, load_moment, run_config
from trueneg.evaluation.masked_lm.corrections import Correction, most_convincing
from trueneg.evaluation.masked_lm.false_negatives import find_false_negatives
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.whole import write_json
from trueneg.models.backbone import MaskedLanguageModel, check_length, check_packing
from trueneg.models.loading import load_masked_lm, resolve_checkpoint
from trueneg.objectives import with_objective
from trueneg.objectives.mlm import MaskedLM
from trueneg.terminal.progress import Tell, counted, untold
from trueneg.tokenizer import fingerprint, load_tokenizer
from trueneg.training.data import annotations_of, held_out_batches, row_index
from trueneg.training.distributed import Processes, choose_device
from trueneg.training.folder import FALSE_NEGATIVES
from trueneg.version import __version__

SEQUENCES = ("documents", "packed", "lines")
"""What a row is: a document or a piece of it; as many documents as fit; a line of a text."""


@dataclass(frozen=True)
class HeldOutResult:
    """What a checkpoint does with held-out text, and what a detector says of it."""

    checkpoint: str
    corpus: str
    """The corpus's fingerprint."""
    num_rows: int
    readings: dict[str, float]
    corrections: list[Correction]
    """All of them, the most probable first."""
    config: dict[str, Any]
    detector: str
    text: str
    """Where the text lies."""
    sequences: str
    """One of ``SEQUENCES``."""
    step: int | None
    """Steps of training done; None unless a run's kept checkpoints are gone through."""
    fraction: float | None
    """The same as a share of the run's steps."""
    counts: dict[str, int]
    """``masked``, ``mispredicted``, ``corrected`` positions, and ``rows_corrected``."""
    shares: dict[str, Interval | None]
    """Corrections as shares of masked and of mispredicted positions, and rows with one, each with its interval."""

    def most_convincing(self, num: int) -> list[Correction]:
        """The surest corrections, each pair of words and each sentence once."""
        return most_convincing(self.corrections, num)

    def summary(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"task": "false-negatives", "version": __version__, **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        _write(self.summary(), path)


@dataclass(frozen=True)
class HeldOutTable:
    """One result for each checkpoint, text and detector: Table 2."""

    records: Sequence[HeldOutResult]

    def summary(self) -> dict[str, Any]:
        """Plain data: all ``records``; the first one's fields stand on top too, for who asked one question.

        The configuration stands on top only; records have the settings in which theirs ``differs``.
        """
        first = self.records[0].summary()
        usual = flatten(first["config"])
        records = []
        for record in self.records:
            data = dataclasses.asdict(record)
            settings = flatten(data.pop("config"))
            differs = {name: value for name, value in settings.items() if value != usual[name]}
            records.append({**data, "differs": differs})
        return {**first, "records": records}

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        _write(self.summary(), path)

    def save_in_runs(self) -> list[Path]:
        """Write what was found of each run, as it is in the end, into its folder, where ``report`` looks for it.

        Warns:
            TruenegWarning: if a run's folder cannot be written into.
        """
        written = []
        for checkpoint in dict.fromkeys(record.checkpoint for record in self.records):
            path = Path(checkpoint) / FALSE_NEGATIVES
            of_run = [record for record in self.records if record.checkpoint == checkpoint]
            last = [record for record in of_run if record.step == max(other.step or 0 for other in of_run)]
            if run_config(checkpoint) is None:
                continue
            try:
                HeldOutTable(last or of_run).save(path)
                written.append(path)
            except OSError as error:
                warnings.warn(
                    f"cannot write '{path}' ({error.strerror}): trueneg report will not show what was found",
                    TruenegWarning,
                    stacklevel=2,
                )
        return written


def evaluate_held_out(
    checkpoint: str,
    corpus: str | Path,
    *,
    detector: str = "lexical",
    wordnet: str = "",
    num_rows: int = 0,
    length: int | None = None,
    pack: bool | None = None,
    settings: Sequence[str] = (),
    verify: bool = True,
    progress: Tell = untold,
) -> HeldOutResult:
    """Mask held-out rows and see what a checkpoint predicts (Zhang et al. 2023, Table 2).

    Args:
        checkpoint: A run folder (of an ELECTRA run the generator), a Hugging Face folder or a hub name.
        corpus: With a held-out split, made with the checkpoint's tokenizer.
        detector: Who judges mispredictions.
        wordnet: WordNet's folder; empty to look in the usual places.
        num_rows: Rows to read; 0 for all.
        length: Tokens a row; by default as a run had it, else 128.
        pack: Whether rows hold several documents; by default as a run had it, else not.
        settings: Further options, such as ``objective.masking.rate=0.3``.
        verify: Compare the corpus's files with their checksums before: see ``Corpus.open``.
        progress: Told how many rows are read, of how many.

    Raises:
        TruenegError: if the checkpoint, the corpus, the detector or the lexicon cannot be used.
    """
    table = evaluate_table(
        [checkpoint],
        corpora=[corpus],
        sequences=() if pack is None else ["packed" if pack else "documents"],
        detectors=[detector],
        wordnet=wordnet,
        num_rows=num_rows,
        length=length,
        settings=settings,
        verify=verify,
        progress=progress,
    )
    return table.records[0]


def evaluate_table(
    checkpoints: Sequence[str],
    *,
    corpora: Sequence[str | Path] = (),
    texts: Sequence[str | Path] = (),
    sequences: Sequence[str] = (),
    detectors: Sequence[str] = ("lexical",),
    over_training: bool = False,
    wordnet: str = "",
    num_rows: int = 0,
    length: int | None = None,
    settings: Sequence[str] = (),
    verify: bool = True,
    say: Callable[[str], None] = lambda _: None,
    progress: Tell = untold,
) -> HeldOutTable:
    """Mask held-out rows and see what checkpoints predict, and what detectors make of it (Zhang et al. 2023, Table 2).

    Masks depend on the rows and the rates only, which are a run's own, so that its checkpoints can be compared; the
    prediction is the argmax. A checkpoint reads a text once, whatever the number of detectors.

    Args:
        checkpoints: Run folders (of an ELECTRA run the generator), Hugging Face folders or hub names.
        corpora: With a held-out split, made with the checkpoints' tokenizer.
        texts: Files or folders of text, all of it held out; tokenized for the occasion with each checkpoint's own
            tokenizer.
        sequences: Of ``SEQUENCES``, each tried on each text; by default as a run had it, else ``documents``.
        detectors: Specifications of who judges mispredictions.
        over_training: Evaluate every kept checkpoint of the runs, not the last state only.
        wordnet: WordNet's folder; empty to look in the usual places.
        num_rows: Rows to read of each text; 0 for all.
        length: Tokens a row; by default as a run had it, else 128.
        settings: Further options, such as ``objective.masking.rate=0.3``.
        verify: Compare the corpora's files with their checksums before: see ``Corpus.open``.
        say: Told what is going on.
        progress: Told how many rows of a text are read, of how many.

    Returns:
        Results ordered by checkpoint, text, kind of sequences, detector and step.

    Raises:
        TruenegError: if a checkpoint, a text, a detector or the lexicon cannot be used.
    """
    _check(checkpoints, corpora, texts, sequences, detectors)
    found: list[tuple[tuple[int, ...], HeldOutResult]] = []
    built: dict[tuple[str, ...], Path] = {}
    with TemporaryDirectory() as folder:
        for number, checkpoint in enumerate(checkpoints):
            run = run_config(checkpoint)
            moments: Sequence[CheckpointRef | None] = checkpoints_of(checkpoint) if over_training else [None]
            given = [f"corpus.length={length}"] if length else []
            configs = {name: _config(checkpoint, run, name, wordnet, [*given, *settings]) for name in detectors}
            usual = "packed" if configs[detectors[0]].corpus.pack else "documents"
            opened = {str(path): Corpus.open(path, "valid", verify=verify) for path in corpora}
            trials = _trials(checkpoint, opened, texts, sequences or (usual,), built, Path(folder))
            evaluator = _Evaluator.of(trials, configs)
            for when, moment in enumerate(moments):
                model = evaluator.load(checkpoint, moment)
                for place, trial in enumerate(trials):
                    if len(moments) * len(trials) * len(checkpoints) > 1:
                        step = f" at step {moment.step:,}" if moment else ""
                        say(f"{checkpoint}{step}: {trial.sequences} of {trial.text}")
                    results = evaluator.evaluate(model, trial, checkpoint, moment, num_rows, progress)
                    found += [((number, place, who, when), result) for who, result in enumerate(results)]
    return HeldOutTable([result for _, result in sorted(found, key=lambda item: item[0])])


@dataclass(frozen=True)
class _Trial:
    """A corpus, read in one way."""

    text: str
    corpus: Corpus
    sequences: str

    @property
    def options(self) -> list[str]:
        """What a configuration says of it."""
        return [f"corpus.path={self.text}", f"corpus.pack={self.sequences == 'packed'}"]


@dataclass(frozen=True)
class _Evaluator:
    """What all checkpoints of one run share: the tokenizer and the detectors, which are dear to make."""

    configs: Mapping[str, PretrainConfig]
    detectors: Mapping[str, Detector]
    tokenizer: PreTrainedTokenizerFast
    device: torch.device

    @classmethod
    def of(cls, trials: Sequence[_Trial], configs: Mapping[str, PretrainConfig]) -> _Evaluator:
        first = next(iter(configs.values()))
        tokenizer = trials[0].corpus.load_tokenizer()
        device = choose_device(first.train.device)
        detectors = {
            name: make_detector(config.objective.correction, tokenizer).to(device) for name, config in configs.items()
        }
        return cls(configs, detectors, tokenizer, device)

    @property
    def config(self) -> PretrainConfig:
        """What is common to all detectors' configurations."""
        return next(iter(self.configs.values()))

    def load(self, checkpoint: str, moment: CheckpointRef | None) -> MaskedLanguageModel:
        config = self.config
        model = load_moment(moment) if moment else load_masked_lm(config.model, self.tokenizer)
        check_length(model.model, config.corpus.length, "corpus.length", checkpoint)
        for detector in self.detectors.values():
            detector.attach(model)  # a moving average of the model begins, and here ends, with the model itself
        return model.to(self.device)

    def evaluate(
        self,
        model: MaskedLanguageModel,
        trial: _Trial,
        checkpoint: str,
        moment: CheckpointRef | None,
        num_rows: int,
        progress: Tell,
    ) -> Iterator[HeldOutResult]:
        config = override(self.config, trial.options)
        if config.corpus.pack:
            check_packing(model)
        index = self._rows(trial, config)
        wanted = min(num_rows or len(index), len(index))
        plain = override(config, ["objective.correction.detector="]).objective
        objective = MaskedLM.from_config(plain, self.tokenizer, model.vocab_size).to(self.device)
        at_once = config.train.batch_size
        sizes = [min(at_once, wanted - start) for start in range(0, wanted, at_once)]
        batches = counted(held_out_batches(index, wanted, at_once, Processes()), sizes, wanted, progress)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=config.train.precision == "bf16"):
            found = find_false_negatives(model, objective, self.detectors, batches, self.tokenizer, self.device)
        for name, what in found.items():
            masked, mispredicted, corrected = what.counts.sum(0).tolist()
            yield HeldOutResult(
                checkpoint=checkpoint,
                corpus=trial.corpus.info.fingerprint,
                num_rows=wanted,
                readings=what.readings,
                corrections=what.corrections,
                config=_as_evaluated(override(self.configs[name], trial.options)),
                detector=self.configs[name].objective.correction.detector,
                text=trial.text,
                sequences=trial.sequences,
                step=moment.step if moment else None,
                fraction=moment.fraction if moment else None,
                counts={
                    "masked": masked,
                    "mispredicted": mispredicted,
                    "corrected": corrected,
                    "rows_corrected": int((what.counts[:, 2] > 0).sum()),
                },
                shares=what.shares(),
            )

    def _rows(self, trial: _Trial, config: PretrainConfig) -> RowIndex:
        """The corpus's rows, with the annotations that a detector reads."""
        folders = {annotations_of(other) for other in self.configs.values()} - {None}
        if len(folders) > 1:
            named = ", ".join(sorted(map(str, folders)))
            raise ConfigError(f"detectors that read different annotations ({named}): evaluate them one at a time")
        annotated = next((other for other in self.configs.values() if annotations_of(other)), config)
        return row_index(override(annotated, trial.options), trial.corpus)


def _as_evaluated(config: PretrainConfig) -> dict[str, Any]:
    """A configuration without what a checkpoint's own files say of its model."""
    model = {name: getattr(config.model, name) for name in ("start_from", "attention")}
    return encode(config) | {"model": model}


def _check(
    checkpoints: Sequence[str],
    corpora: Sequence[str | Path],
    texts: Sequence[str | Path],
    sequences: Sequence[str],
    detectors: Sequence[str],
) -> None:
    if not checkpoints or not detectors:
        raise ConfigError("nothing to evaluate: name a checkpoint and a detector")
    if not corpora and not texts:
        raise ConfigError("nothing to read: give --corpus a folder made by 'trueneg corpus build', or --text a file")
    for kind in sequences:
        if kind not in SEQUENCES:
            raise ConfigError(unknown_name("kind of sequences", kind, SEQUENCES))
    if corpora and "lines" in sequences:
        raise ConfigError(
            f"--sequences lines: the corpus '{corpora[0]}' keeps no lines: give the text itself with --text, or build "
            f"a corpus with --lines and read its documents"
        )


def _config(
    checkpoint: str, run: PretrainConfig | None, detector: str, wordnet: str, settings: Sequence[str]
) -> PretrainConfig:
    """Rows and masks as a run had them: a generator that saw no random tokens takes them for gold."""
    base = with_objective(PretrainConfig(), "mlm")
    if run is not None:
        base = replace(base, corpus=run.corpus, objective=replace(base.objective, masking=run.objective.masking))
    chosen = (
        f"objective.correction.detector={detector}",
        f"objective.correction.wordnet={wordnet}",
        f"model.start_from={checkpoint}",
    )
    return override(base, [*chosen, *settings])


def _trials(
    checkpoint: str,
    corpora: Mapping[str, Corpus],
    texts: Sequence[str | Path],
    sequences: Sequence[str],
    built: dict[tuple[str, ...], Path],
    folder: Path,
) -> list[_Trial]:
    """Everything that a checkpoint is to read; ``built`` remembers what was tokenized for another one."""
    trials = [_Trial(path, corpus, kind) for path, corpus in corpora.items() for kind in sequences]
    if texts:
        tokenizer = load_tokenizer(resolve_checkpoint(checkpoint))
        for text in map(str, texts):
            for kind in sequences:
                key = (text, fingerprint(tokenizer), "lines" if kind == "lines" else "documents")
                if key not in built:
                    built[key] = folder / str(len(built))
                    build_corpus([text], resolve_checkpoint(checkpoint), built[key], lines=kind == "lines")
                trials.append(_Trial(text, Corpus.open(built[key]), kind))
    if len({trial.corpus.info.tokenizer_fingerprint for trial in trials}) > 1:
        names = ", ".join(dict.fromkeys(trial.text for trial in trials))
        raise ModelError(f"{names}: corpora of different tokenizers cannot both be of '{checkpoint}': name one")
    return trials


def _write(data: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, data)
