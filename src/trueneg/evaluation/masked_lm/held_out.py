"""Evaluate a masked language model on held-out text: loss, mispredictions, and how many of them are false negatives."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import encode, flatten, override
from trueneg.config.options import PretrainConfig
from trueneg.config.validation import check_options_apply
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.detectors import make_detector
from trueneg.detectors.annotated import annotations_of
from trueneg.detectors.base import Detector
from trueneg.detectors.specification import check_forms_apply
from trueneg.errors import ConfigError, ModelError, TruenegWarning, unknown_name
from trueneg.evaluation.masked_lm.corrections import Correction, most_convincing
from trueneg.evaluation.masked_lm.false_negatives import find_false_negatives
from trueneg.evaluation.masked_lm.kept_checkpoints import CheckpointRef, checkpoints_of, load_checkpoint, run_config
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.files.whole import write_json
from trueneg.hardware import autocast
from trueneg.models.backbone import MaskedLanguageModel, check_length, check_packing
from trueneg.models.loading import load_masked_lm, resolve_checkpoint
from trueneg.objectives import with_objective
from trueneg.objectives.mlm import MaskedLM
from trueneg.terminal.progress import ProgressCallback, counted, no_progress
from trueneg.tokenizer import fingerprint, load_tokenizer
from trueneg.training.batches import held_out_batches, row_index
from trueneg.training.distributed import Processes, choose_device
from trueneg.training.folder import FALSE_NEGATIVES
from trueneg.version import __version__

SEQUENCES = ("documents", "packed", "lines")
"""Contents of a row: a document or a part of one; as many documents as fit; one line of a text."""


@dataclass(frozen=True)
class HeldOutResult:
    """Results of one checkpoint on one held-out text, with one detector."""

    checkpoint: str
    corpus: str
    """Fingerprint of the corpus."""
    num_rows: int
    readings: dict[str, float]
    corrections: list[Correction]
    """All corrections, the most probable first."""
    config: dict[str, Any]
    detector: str
    text: str
    """Path of the text."""
    sequences: str
    """One of ``SEQUENCES``."""
    step: int | None
    """Training step of the checkpoint; None unless all that a run kept are evaluated."""
    fraction: float | None
    """``step`` as a share of the run's steps."""
    counts: dict[str, int]
    """Positions ``masked``, ``mispredicted`` and ``corrected``, and ``rows_corrected``."""
    shares: dict[str, Interval | None]
    """``SHARES`` of :mod:`~trueneg.evaluation.masked_lm.false_negatives`, each with its interval."""

    def most_convincing(self, num: int) -> list[Correction]:
        """Choose the most probable corrections, using each pair of words and each sentence once."""
        return most_convincing(self.corrections, num)

    def summary(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"task": "false-negatives", "version": __version__, **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        _write(self.summary(), path)


@dataclass(frozen=True)
class HeldOutTable:
    """One result per checkpoint, text and detector, as in Table 2."""

    records: Sequence[HeldOutResult]
    arguments: Sequence[str] = ()
    """Arguments of ``trueneg evaluate masked-lm`` after the checkpoints."""

    def summary(self) -> dict[str, Any]:
        """Return plain data: all ``records``, and at the top level the fields of the first, for single evaluations.

        Only the top level has the whole configuration; a record's ``differs`` has the settings that differ.
        """
        first = self.records[0].summary()
        common = flatten(first["config"])
        records = []
        for record in self.records:
            data = dataclasses.asdict(record)
            settings = flatten(data.pop("config"))
            differs = {name: value for name, value in settings.items() if value != common[name]}
            records.append({**data, "differs": differs})
        return {**first, "records": records, "arguments": list(self.arguments), "versions": versions()}

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        _write(self.summary(), path)

    def save_in_runs(self) -> list[Path]:
        """Write the results of each run's last checkpoint into its folder, where ``trueneg report`` looks for them.

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
                HeldOutTable(last or of_run, self.arguments).save(path)
                written.append(path)
            except OSError as error:
                warnings.warn(
                    f"cannot write '{path}' ({error.strerror}): trueneg report will not show these results",
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
    progress: ProgressCallback = no_progress,
) -> HeldOutResult:
    """Evaluate a checkpoint on masked held-out rows, and count its false negatives (Zhang et al. 2023, Table 2).

    Args:
        checkpoint: A run folder (of an ELECTRA run, the generator is used), a Hugging Face folder or a hub name.
        corpus: A corpus with a held-out split, made with the checkpoint's tokenizer.
        detector: Specification of the detector.
        wordnet: WordNet's folder; empty to search the usual places.
        num_rows: Rows to read; 0 for all.
        length: Tokens per row; by default the run's, else 128.
        pack: Whether rows hold several documents; by default as in the run, else not.
        settings: Further options, such as ``objective.masking.rate=0.3``.
        verify: Compare the corpus's files with their checksums: see ``Corpus.open``.
        progress: Called with the number of rows read and the total.

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
    progress: ProgressCallback = no_progress,
) -> HeldOutTable:
    """Evaluate checkpoints on masked held-out rows with several detectors (Zhang et al. 2023, Table 2).

    Masks depend only on the rows and on the run's masking rates, so that checkpoints of a run can be compared; the
    prediction is the argmax. Each checkpoint reads a text once, whatever the number of detectors.

    Args:
        checkpoints: Run folders (of an ELECTRA run, the generator is used), Hugging Face folders or hub names.
        corpora: Corpora with a held-out split, made with the checkpoints' tokenizer.
        texts: Files or folders of text, all of it held out; tokenized on the fly with each checkpoint's tokenizer.
        sequences: Some of ``SEQUENCES``, each applied to each text; by default as in the run, else ``documents``.
        detectors: Specifications of detectors.
        over_training: Evaluate every kept checkpoint and model of the runs, not only the last.
        wordnet: WordNet's folder; empty to search the usual places.
        num_rows: Rows to read of each text; 0 for all.
        length: Tokens per row; by default the run's, else 128.
        settings: Further options, such as ``objective.masking.rate=0.3``.
        verify: Compare the corpora's files with their checksums: see ``Corpus.open``.
        say: Called with a line of progress.
        progress: Called with the number of rows of a text read and the total.

    Returns:
        Results, ordered by checkpoint, text, sequences, detector and step.

    Raises:
        TruenegError: if a checkpoint, a text, a detector or the lexicon cannot be used.
    """
    _check_arguments(checkpoints, corpora, texts, sequences, detectors)
    found: list[tuple[tuple[int, ...], HeldOutResult]] = []
    built: dict[tuple[str, ...], Path] = {}
    with TemporaryDirectory() as folder:
        for number, checkpoint in enumerate(checkpoints):
            run = run_config(checkpoint)
            refs: Sequence[CheckpointRef | None] = checkpoints_of(checkpoint) if over_training else [None]
            given = [f"corpus.length={length}"] if length else []
            configs = {name: _config(checkpoint, run, name, wordnet, [*given, *settings]) for name in detectors}
            _check_settings(configs.values(), settings)
            default = "packed" if configs[detectors[0]].corpus.is_packed else "documents"
            opened = {str(path): Corpus.open(path, "valid", verify=verify) for path in corpora}
            trials = _trials(checkpoint, opened, texts, sequences or (default,), built, Path(folder))
            evaluator = _Evaluator.of(trials, configs)
            for when, ref in enumerate(refs):
                model = evaluator.load(checkpoint, ref)
                for at, trial in enumerate(trials):
                    if len(refs) * len(trials) * len(checkpoints) > 1:
                        step = f" at step {ref.step:,}" if ref else ""
                        say(f"{checkpoint}{step}: {trial.sequences} of {trial.text}")
                    results = evaluator.evaluate(model, trial, checkpoint, ref, num_rows, progress)
                    found += [((number, at, who, when), result) for who, result in enumerate(results)]
    asked: dict[str, Sequence[object]] = {
        **{"corpus": corpora, "text": texts, "sequences": sequences, "detector": detectors, "set": settings},
        **{"wordnet": [wordnet], "rows": [num_rows], "length": [length]},
    }
    arguments = [word for name, each in asked.items() for one in each if one for word in (f"--{name}", str(one))]
    return HeldOutTable(
        [result for _, result in sorted(found, key=lambda item: item[0])],
        [*arguments, *(["--over-training"] if over_training else [])],
    )


@dataclass(frozen=True)
class _Trial:
    """A corpus, and how its rows are made."""

    text: str
    corpus: Corpus
    sequences: str

    @property
    def options(self) -> list[str]:
        """Configuration settings for it."""
        return [f"corpus.path={self.text}", f"corpus.pack={self.sequences == 'packed'}"]


@dataclass(frozen=True)
class _Evaluator:
    """What all checkpoints of one run share: the tokenizer and the detectors, which are expensive to make."""

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
        """The first detector's configuration, for all that detectors share."""
        return next(iter(self.configs.values()))

    def load(self, checkpoint: str, ref: CheckpointRef | None) -> MaskedLanguageModel:
        config = self.config
        model = load_checkpoint(ref, self.tokenizer) if ref else load_masked_lm(config.model, self.tokenizer)
        check_length(model.model, config.corpus.length, "corpus.length", checkpoint)
        model.to(self.device)  # before a detector copies it
        for detector in self.detectors.values():
            detector.attach(model)  # the moving average of a model that is not trained is the model itself
        return model

    def evaluate(
        self,
        model: MaskedLanguageModel,
        trial: _Trial,
        checkpoint: str,
        ref: CheckpointRef | None,
        num_rows: int,
        progress: ProgressCallback,
    ) -> Iterator[HeldOutResult]:
        config = override(self.config, trial.options)
        if config.corpus.is_packed:
            check_packing(model)
        index = self._rows(trial, config)
        num_rows = min(num_rows or len(index), len(index))
        plain = override(config, ["objective.correction.detector="]).objective
        objective = MaskedLM.from_config(plain, self.tokenizer, model.vocab_size).to(self.device)
        at_once = config.train.batch_size
        sizes = [min(at_once, num_rows - start) for start in range(0, num_rows, at_once)]
        batches = counted(held_out_batches(index, num_rows, at_once, Processes()), sizes, num_rows, progress)
        with autocast(self.device, config.train.precision):
            found = find_false_negatives(model, objective, self.detectors, batches, self.tokenizer, self.device)
        for name, what in found.items():
            masked, mispredicted, corrected = what.counts.sum(0).tolist()
            yield HeldOutResult(
                checkpoint=checkpoint,
                corpus=trial.corpus.info.fingerprint,
                num_rows=num_rows,
                readings=what.readings,
                corrections=what.corrections,
                config=_as_evaluated(override(self.configs[name], trial.options)),
                detector=self.configs[name].objective.correction.detector,
                text=trial.text,
                sequences=trial.sequences,
                step=ref.step if ref else None,
                fraction=ref.fraction if ref else None,
                counts={
                    "masked": masked,
                    "mispredicted": mispredicted,
                    "corrected": corrected,
                    "rows_corrected": int((what.counts[:, 2] > 0).sum()),
                },
                shares=what.shares(),
            )

    def _rows(self, trial: _Trial, config: PretrainConfig) -> RowIndex:
        """Read the corpus's rows, with the annotations that a detector needs."""
        folders = {folder for other in self.configs.values() for folder in annotations_of(other)}
        if len(folders) > 1:
            named = ", ".join(sorted(map(str, folders)))
            raise ConfigError(f"detectors that read different annotations ({named}): evaluate them one at a time")
        annotated = next((other for other in self.configs.values() if annotations_of(other)), config)
        return row_index(override(annotated, trial.options), trial.corpus)


def _as_evaluated(config: PretrainConfig) -> dict[str, Any]:
    """Encode a configuration, leaving out what the checkpoint's own files say about its model."""
    model = {name: getattr(config.model, name) for name in ("start_from", "attention")}
    return encode(config) | {"model": model}


def _check_arguments(
    checkpoints: Sequence[str],
    corpora: Sequence[str | Path],
    texts: Sequence[str | Path],
    sequences: Sequence[str],
    detectors: Sequence[str],
) -> None:
    if not checkpoints or not detectors:
        raise ConfigError("nothing to evaluate: name at least one checkpoint and one detector")
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


def _check_settings(configs: Collection[PretrainConfig], settings: Sequence[str]) -> None:
    """Refuse a setting that has no effect with any of the detectors."""
    for setting in settings:
        refused = []
        for config in configs:
            try:
                check_options_apply(config, [setting])
                check_forms_apply(config, [setting])
            except ConfigError as error:
                refused.append(error)
        if refused and len(refused) == len(configs):
            raise refused[0]


def _config(
    checkpoint: str, run: PretrainConfig | None, detector: str, wordnet: str, settings: Sequence[str]
) -> PretrainConfig:
    """Configure rows, masks and forms of synonyms as in the run.

    A generator trained without random tokens would mistake them for gold.
    """
    base = with_objective(PretrainConfig(), "mlm")
    if run is not None:
        forms = replace(base.objective.correction, forms=run.objective.correction.forms)
        objective = replace(base.objective, masking=run.objective.masking, correction=forms)
        corpus = replace(run.corpus, mixture="", temperature=1.0)  # the text to read is given here
        base = replace(base, corpus=corpus, objective=objective)
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
    """List what a checkpoint reads; ``built`` holds the texts tokenized for previous checkpoints."""
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
        raise ModelError(f"{names}: corpora of different tokenizers cannot both belong to '{checkpoint}': name one")
    return trials


def _write(data: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, data)
