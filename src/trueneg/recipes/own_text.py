"""``trueneg try`` (does it help on my text?): the request, checked before anything is trained."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trueneg.config.codec import full_name, override
from trueneg.config.fields import option
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import ModelConfig, PretrainConfig
from trueneg.corpus.remote import is_remote
from trueneg.corpus.sources import source_files
from trueneg.errors import ConfigError, LexiconError, TruenegWarning, unknown_name
from trueneg.evaluation.results.trial import BASELINE
from trueneg.lexicon.wordnet_location import find_wordnet
from trueneg.models.backbone import check_length
from trueneg.models.loading import config_of, load_masked_lm, resolve_checkpoint
from trueneg.models.sentence_modules import is_sentence_encoder
from trueneg.recipes.plan import Argument, Input, digest
from trueneg.runs.configuring import configure
from trueneg.runs.configuring_finetuning import check_finetuning
from trueneg.runs.finetuning_tasks import configure_tasks
from trueneg.tasks import make_task
from trueneg.tokenizer import load_tokenizer

ARMS: Mapping[str, str] = {
    "lexical": "hard correction: what WordNet's table accepts is not punished",
    "in-context": "the target spread over gold and what prototypes of the checkpoint accept in the sentence",
    "in-context-drop": "hard correction: what prototypes of the checkpoint accept in the sentence is not punished",
    "regularization": "soft regularization: predictions are drawn towards the vectors of gold",
}
"""Ways of training that are compared with plain masked language modelling."""
RECOMMENDED = ("lexical", "in-context", "regularization")
IN_CONTEXT = ("in-context", "in-context-drop")


@dataclass(frozen=True)
class Asked:
    """What identifies a folder's trial once its steps are chosen; seeds may be added later."""

    text: str
    text_digest: str
    checkpoint: str
    checkpoint_digest: str
    arms: str
    corpus: str
    """Arguments of ``corpus build``."""
    settings: str
    probe: str = option("", resume="free")
    """Task and data of the probe, and of STS-B: for the record, as their jobs have keys of their own."""


@dataclass(frozen=True)
class OwnText:
    """A requested trial, checked as far as possible without training."""

    texts: tuple[Argument, ...]
    checkpoint: Argument
    arms: tuple[str, ...]
    """Without the baseline."""
    seeds: tuple[int, ...]
    minutes: float
    corpus: tuple[str, ...]
    """Further arguments of ``corpus build``."""
    settings: tuple[str, ...]
    """Options of all runs."""
    steps: int
    """Given instead of the time; 0 to derive them from measurements."""
    glue: Input | None
    """GLUE's folder, if STS-B is to be measured."""
    task: str
    probe: tuple[Argument, ...]
    """Arguments of ``finetune`` besides the checkpoint, seed and folder; none without labelled data."""
    wordnet: tuple[str, ...]
    config: PretrainConfig
    """Configuration of the baseline's runs."""
    is_head_new: bool
    is_sentence_encoder: bool

    @property
    def all_arms(self) -> tuple[str, ...]:
        """Every way of training, the baseline first."""
        return (BASELINE, *self.arms)

    @property
    def is_in_context(self) -> bool:
        """Whether an arm needs the corpus annotated."""
        return any(arm in IN_CONTEXT for arm in self.arms)

    @property
    def asked(self) -> Asked:
        """What identifies the folder's trial."""
        inputs = [text for text in self.texts if isinstance(text, Input)]
        start = self.checkpoint
        return Asked(
            " ".join(str(text.path) if isinstance(text, Input) else str(text) for text in self.texts),
            " ".join(map(digest, inputs)),
            str(start.path) if isinstance(start, Input) else str(start),
            digest(start) if isinstance(start, Input) else "",
            ",".join(self.arms),
            " ".join(self.corpus),
            " ".join([*self.settings, *self.wordnet]),
            " ".join(str(one.path) if isinstance(one, Input) else str(one) for one in (*self.probe, self.glue or "")),
        )


_OURS = {
    "train.seed": "--seeds says which",
    "train.max_minutes": "all runs take the same steps: --minutes says how long",
    "model.start_from": "--from names it",
    "corpus.path": "it is built of the text",
    "corpus.mixture": "the corpus is built of the text",
    "objective.name": "every arm is masked language modelling",
    "objective.correction.detector": "--arms names what is compared",
    "objective.regularization.level": "--arms names what is compared",
}


def ask(
    texts: Sequence[str],
    checkpoint: str,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    minutes: float = 60,
    arms: Sequence[str] = (),
    lines: bool = False,
    text_field: str = "text",
    data: str = "",
    task: str = "",
    columns: Sequence[str] = (),
    wordnet: str = "",
    settings: Sequence[str] = (),
) -> OwnText:
    """Check that a trial has what it needs.

    Args:
        texts: Files, folders, globs or hub data sets, as ``corpus build`` takes them.
        checkpoint: Checkpoint to continue.
        seeds: Seeds of every arm.
        minutes: Time limit for everything; not used if the settings have ``train.steps``.
        arms: Names from ``ARMS``; by default ``RECOMMENDED``.
        lines: Whether every line is a document.
        text_field: Field or column of the text.
        data: The probe's labelled data; without a task, GLUE's folder, for STS-B.
        task: The probe's task, as for ``finetune``.
        columns: Further arguments of ``finetune``.
        wordnet: WordNet's folder; empty to look in the usual places.
        settings: ``key=value`` for all runs; ``finetune.key=value`` for the probe.

    Raises:
        TruenegError: for a text, checkpoint, arm, lexicon or option that does not exist or cannot be used.
    """
    if not texts:
        raise ConfigError("no text to try it on: name a file or a folder")
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes {minutes:g}: must be above 0")
    chosen = tuple(dict.fromkeys(arms or RECOMMENDED))
    for arm in chosen:
        if arm not in ARMS:
            raise ConfigError(unknown_name("arm", arm, ARMS))
    sources = tuple(found for text in texts for found in _source(text))
    _check_wordnet(wordnet)
    source = resolve_checkpoint(checkpoint)
    config_of(source)
    of_runs = tuple(one.removeprefix("pretrain.") for one in settings if not one.startswith("finetune."))
    of_probe = [one.removeprefix("finetune.") for one in settings if one.startswith("finetune.")]
    steps, of_runs = _without_steps(of_runs)
    _check_probe_settings(of_probe)
    config = configure(start_from=source, objective="mlm", settings=of_runs)
    glue, probe = _measured_on(data, task, columns, of_probe)
    if task:
        _check_probe(source, task, data, columns, of_probe)
    return OwnText(
        texts=sources,
        checkpoint=Input(Path(source), f"checkpoint {Path(source).name}") if Path(source).exists() else source,
        arms=chosen,
        seeds=tuple(seeds),
        minutes=minutes,
        corpus=(*(("--lines",) if lines else ()), *(("--text-field", text_field) if text_field != "text" else ())),
        settings=of_runs,
        steps=steps,
        glue=glue,
        task=task,
        probe=probe,
        wordnet=("--wordnet", wordnet) if wordnet else (),
        config=config,
        is_head_new=_is_head_new(source, config.corpus.length),
        is_sentence_encoder=is_sentence_encoder(source),
    )


def _source(text: str) -> list[Argument]:
    files = None if is_remote(text) else source_files(text)
    if files is None:
        return [text]
    if Path(text).exists():
        return [Input(Path(text), f"text {Path(text).name}")]
    return [Input(path, f"text {path.name}") for path in files if isinstance(path, Path)]


def _check_wordnet(wordnet: str) -> None:
    try:
        find_wordnet(wordnet or None)
    except LexiconError as error:
        raise LexiconError(f"{error} (every trial counts what WordNet accepts)") from error


def _without_steps(settings: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Extract ``train.steps`` from the settings of runs, and refuse settings that the trial itself controls."""
    steps, kept = 0, []
    for setting in settings:
        key, equals, _ = setting.partition("=")
        name = full_name(PretrainConfig(), key.strip()) if equals else ""
        if name in _OURS:
            raise ConfigError(f"--set {setting}: not in a trial: {_OURS[name]}")
        if name == "train.steps":
            steps = override(PretrainConfig(), [setting]).train.steps
            if steps < 1:
                raise ConfigError(f"--set {setting}: must be at least 1; leave it out to have --minutes choose")
        else:
            kept.append(setting)
    return steps, tuple(kept)


def _check_probe_settings(settings: Sequence[str]) -> None:
    """Refuse settings of the probe that do not exist, or that the trial itself controls."""
    config = FinetuneConfig()
    override(config, settings)
    for setting in settings:
        name = full_name(config, setting.partition("=")[0].strip())
        if name in _OURS:
            raise ConfigError(f"--set finetune.{setting}: not in a trial: {_OURS[name]}")


def _measured_on(
    data: str, task: str, columns: Sequence[str], settings: Sequence[str]
) -> tuple[Input | None, tuple[Argument, ...]]:
    """Return GLUE's folder if it has STS-B, and the arguments of the probe."""
    if not data:
        if task or columns or settings:
            raise ConfigError(f"--task {task}: a probe needs labelled data: give --data".replace("--task :", "probe:"))
        return None, ()
    path = Path(data)
    glue = None
    if (path / "STS-B").is_dir():
        glue = Input(path, "STS-B", ("STS-B",), source="gluebenchmark.com/tasks")
    if not task:
        if glue is None:
            raise ConfigError(
                f"--data {data}: without --task it is GLUE's folder, for sentence similarity, and has no STS-B/: name "
                f"that folder, or what to learn, as --task classification"
            )
        if columns or settings:
            raise ConfigError("columns and finetune.OPTION are of a probe: name it with --task, or leave them out")
        return glue, ()
    place: Argument = Input(path, f"probe {path.name}") if path.exists() else data
    if not path.exists() and not data.startswith("hub:"):
        raise ConfigError(f"--data {data}: is not there")
    sets = (word for setting in settings for word in ("--set", setting))
    return glue, ("--task", task, "--data", place, *columns, *sets)


def _check_probe(source: str, task: str, data: str, columns: Sequence[str], settings: Sequence[str]) -> None:
    """Check what ``finetune`` would refuse only after everything is trained: the task, its options and its data."""
    names = [flag.removeprefix("--").replace("-", "_") for flag in columns[::2]]
    named = [f"task.{name}={value}" for name, value in zip(names, columns[1::2], strict=True)]
    for config in configure_tasks(source, task, settings=[f"task.data={data}", *named, *settings]):
        check_finetuning(config)
        probe = make_task(config.task)
        for split in (probe.train_split, *probe.dev_splits):
            probe.read(split)


def _is_head_new(source: str, length: int) -> bool:
    """Return whether the masked-LM head would start from random weights; raise if rows are too long for the model."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TruenegWarning)
        model = load_masked_lm(ModelConfig(start_from=source), load_tokenizer(source))
    check_length(model.model, length, "corpus.length", source)
    return any("start at random" in str(warning.message) for warning in caught)
