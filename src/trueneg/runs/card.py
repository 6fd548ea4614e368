"""Model cards: what a checkpoint is, how it was made and how to load it, without details of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig
from trueneg.config.stages import Stage, stages_of
from trueneg.evaluation.encoders.similarity_record import SimilarityRecord, read_similarity
from trueneg.evaluation.results.store import Result
from trueneg.objectives import objective_kind
from trueneg.reporting.mixtures import changes, shares_of
from trueneg.reporting.tables import short_names
from trueneg.tasks import task_class
from trueneg.terminal.printable import printable, short_path
from trueneg.version import __version__

if TYPE_CHECKING:
    from trueneg.models.origin import Origin

CITATIONS = """```bibtex
@inproceedings{zhang2023truenegatives,
  title = {Language Model Pre-training on True Negatives},
  author = {Zhang, Zhuosheng and Zhao, Hai and Utiyama, Masao and Sumita, Eiichiro},
  booktitle = {AAAI},
  year = {2023}
}
```"""

PLACE = "path/to/this/folder"
_PIPELINES = {
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForTokenClassification": "token-classification",
    "AutoModelForQuestionAnswering": "question-answering",
}

_USES = {
    "drop": "are left out of the loss",
    "down_weight": "count less in the loss",
    "marginal": "count as right, too",
    "soft_targets": "are given a share of the target",
    "restrict": "are what label smoothing may give a share of the target",
}


@dataclass(frozen=True)
class Use:
    """How a checkpoint in some format is loaded.

    Attributes:
        library: Library that loads it.
        code: Python code that loads it.
        tags: Tags besides ``trueneg``.
        pipeline: Its ``pipeline_tag`` on the hub; empty for none.
    """

    library: str
    code: str
    tags: tuple[str, ...] = ()
    pipeline: str = ""


def run_card(config: PretrainConfig, run: Path, step: int, use: Use | None = None) -> str:
    """Write the card of a run's model from the files in the run's folder.

    Args:
        config: The run's.
        run: Its folder.
        step: Steps done.
        use: The format, if it is not the run's own ``hf/``.

    Raises:
        TruenegError: for a file of the run that is damaged.
    """
    from trueneg.models.origin import read_origin
    from trueneg.training.folder import METRICS, ORIGIN, SIMILARITY
    from trueneg.training.log import read_metrics

    path = run / METRICS
    records = [record for record in read_metrics(path) if record["step"] <= step] if path.is_file() else []
    origin, similarity = read_origin(run / ORIGIN, config.model.start_from), read_similarity(run / SIMILARITY)
    return pretraining_card(config, records, step, run.name, origin, similarity, use)


def pretraining_card(
    config: PretrainConfig,
    records: Sequence[Mapping[str, Any]],
    step: int,
    name: str,
    origin: Origin | None = None,
    similarity: SimilarityRecord | None = None,
    use: Use | None = None,
) -> str:
    """Write the card of a pre-trained encoder.

    Args:
        config: The run's configuration.
        records: Its ``metrics.jsonl``.
        step: Steps done.
        name: The run's name.
        origin: Of the checkpoint that it continued.
        similarity: Evaluation of its sentence vectors.
        use: The format; by default a Hugging Face folder with the run's own heads.
    """
    use = use or _hugging_face(config)
    start, stages = short_path(config.model.start_from), stages_of(config)
    facts = {
        "objective": config.objective.name,
        **({"corpora": shares_of(config, records)} if config.corpus.mixture else {}),
        **({"continued from": start} if start else {"architecture": config.model.architecture}),
        "steps": f"{step:,} of {config.train.steps:,}",
        "rows a step": _by_stage(stages, lambda of: f"{of.train.batch_size} of {of.corpus.length} tokens"),
        "hard correction": _by_stage(stages, _hard_correction),
        "soft regularization": _by_stage(stages, lambda of: of.objective.regularization.level or "none"),
        "seed": config.train.seed,
        "trueneg": __version__,
    }
    parts = [
        _front(use, origin),
        f"# {_text(name)}",
        _what_it_is(config, stages),
        _table(("", ""), facts.items()),
        _readings(records),
        _vectors(config, name, origin, similarity),
        f"```python\n{use.code}\n```",
        _licence(start, origin),
        CITATIONS,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def finetuning_card(
    config: FinetuneConfig, results: Sequence[Result], origin: Origin | None = None, use: Use | None = None
) -> str:
    """Write the card of a fine-tuned model.

    Args:
        config: The run's configuration.
        results: Its results, one per split.
        origin: Of the encoder.
        use: The format; by default a Hugging Face folder.
    """
    encoder = short_path(config.start_from)
    facts = {
        "task": config.task.name,
        "encoder": encoder,
        "settings": config.preset,
        "steps": f"{config.train.steps:,} of {config.train.batch_size} rows",
        "learning rate": config.optimizer.learning_rate,
        "seed": config.train.seed,
        "trueneg": __version__,
    }
    figures = [
        (result.split, metric, f"{value:.4f}", f"{result.num_examples:,}")
        for result in results
        for metric, value in result.metrics.items()
    ]
    auto_class = task_class(config.task.name).auto_class
    use = use or Use(
        "transformers", _transformers(("AutoTokenizer", auto_class)), pipeline=_PIPELINES.get(auto_class, "")
    )
    parts = [
        _front(use, origin),
        f"# {_text(config.task.name)}",
        _table(("", ""), facts.items()),
        _table(("split", "metric", "value", "examples"), figures),
        f"```python\n{use.code}\n```",
        _licence(encoder, origin),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain_card(name: str, origin: Origin, use: Use) -> str:
    """Write the card of a checkpoint whose training is not known."""
    what = f"`{_text(origin.name)}`, as {use.library} loads it, written by trueneg {__version__}."
    parts = [
        _front(use, origin),
        f"# {_text(name)}",
        what,
        f"```python\n{use.code}\n```",
        _licence(origin.name, origin),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(use: Use, origin: Origin | None) -> str:
    """Metadata for the hub (YAML front matter)."""
    lines = [f"library_name: {use.library}", f"tags: [{', '.join(('trueneg', *use.tags))}]"]
    if use.pipeline:
        lines.append(f"pipeline_tag: {use.pipeline}")
    if origin and origin.base_model:
        lines.append(f"base_model: {origin.base_model}")
    if origin and origin.license:
        lines.append(f"license: {origin.license}")
    return "\n".join(["---", *lines, "---"])


def _by_stage(stages: Sequence[Stage], value: Callable[[PretrainConfig], str]) -> str:
    """A fact of the whole run, or of each stage where they differ."""
    said = {stage.name: value(stage.config) for stage in stages}
    is_same = len({*said.values()}) == 1
    return next(iter(said.values())) if is_same else "; ".join(f"{name}: {text}" for name, text in said.items())


def _hard_correction(config: PretrainConfig) -> str:
    correction = config.objective.correction
    return f"{_detector(config)}, {correction.use}" if correction.detector else "none"


def _what_it_is(config: PretrainConfig, stages: Sequence[Stage]) -> str:
    kind = objective_kind(config.objective.name)
    made = "continued" if config.model.start_from else "pre-trained"
    # Each sentence is said once, however many stages it is true of.
    sentences = [f"A text encoder {made} {kind.card} with trueneg."]
    for objective, of_stage in ((stage.config.objective, stage.config) for stage in stages):
        if objective.correction.detector:
            sentences.append(
                f"Predictions that the detector `{_detector(of_stage)}` finds as good as the original token "
                f"{_USES[objective.correction.use]}."
            )
        if level := objective.regularization.level:
            sentences.append(f"Soft regularization at the level of {level.replace('+', ' and ')}.")
    if len(sentences) == 1 and kind.is_baseline:
        sentences.append("A baseline: every prediction but the original token is punished.")
    return " ".join(dict.fromkeys(sentences))


def _vectors(config: PretrainConfig, name: str, origin: Origin | None, similarity: SimilarityRecord | None) -> str:
    """Section on the quality of a continued sentence encoder's vectors."""
    is_sentence = origin is not None and origin.is_sentence_encoder
    if not is_sentence and similarity is None:
        return ""
    said = []
    if is_sentence:
        assert origin is not None
        said.append(
            f"`{_text(origin.name)}` is a sentence encoder, and this run continued it with another objective "
            f"({config.objective.name}), under which vectors lose what they knew of sentences."
        )
    if similarity is None:
        said.append(
            f"How much is not measured: run `trueneg evaluate encoder {_text(name)} --task sts --data GLUE`, "
            "and export again."
        )
        return " ".join(said)
    pooling = origin.pooling if origin is not None and origin.pooling in similarity.after else "mean"
    before = f"{100 * similarity.before[pooling]:.1f} before, " if pooling in similarity.before else ""
    said.append(
        f"{similarity.task} {similarity.split}, {similarity.num_pairs:,} pairs, Spearman x 100 of {pooling} vectors: "
        f"{before}{100 * similarity.after[pooling]:.1f} at step {similarity.step:,}."
    )
    return " ".join(said)


def _licence(start: str, origin: Origin | None) -> str:
    if origin and origin.license:
        return ""
    if not start:
        return "No licence is stated: choose one before you share this."
    return f"The licence of `{_text(start)}` is not known here: look it up, and state it, before you share this."


def _hugging_face(config: PretrainConfig) -> Use:
    kind = objective_kind(config.objective.name)
    folder = f"{PLACE}/{kind.masked_lm_folder}".rstrip("/")
    code = _transformers(("AutoModel", "AutoTokenizer", kind.auto_class, "pipeline"))
    pipeline = "feature-extraction" if kind.masked_lm_folder else "fill-mask"
    return Use("transformers", f'{code}\nfill = pipeline("fill-mask", "{folder}")', (kind.tag,), pipeline)


def _transformers(names: Sequence[str]) -> str:
    variables = {"AutoTokenizer": "tokenizer", "AutoModel": "encoder"}
    loaded = [
        f'{variables.get(name, "model")} = {name}.from_pretrained("{PLACE}")' for name in names if name != "pipeline"
    ]
    return "\n".join([f"from transformers import {', '.join(names)}", "", *loaded])


def _detector(config: PretrainConfig) -> str:
    detector = config.objective.correction.detector
    return _text(short_names([detector])[detector])


def _readings(records: Sequence[Mapping[str, Any]]) -> str:
    evaluations = [record for record in records if record.get("kind") == "eval"]
    if not evaluations:
        return "There was no held-out text to measure it on."
    last = evaluations[-1]
    shown = [
        (name, f"{value:.4g}") for name, value in last.items() if isinstance(value, float) and "source/" not in name
    ]
    table = f"On held-out text, at step {last['step']:,}:\n\n{_table(('reading', 'value'), shown)}"
    by_source = [f"- {_text(change)}" for change in changes(records)]
    return "\n".join([table, "", *by_source]) if by_source else table


def _table(heading: Sequence[str], rows: Any) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(_text(str(cell)) for cell in row)} |" for row in lines)


def _text(value: str) -> str:
    """Escape external text into one line without markup."""
    return printable(value).replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
