"""``export``: a trained model in the formats of other libraries: transformers, sentence-transformers, ONNX."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from torch import nn
from transformers import AutoModel, PreTrainedTokenizerFast

from trueneg.config.codec import load_config
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig
from trueneg.errors import BusyError, ConfigError, ModelError, TruenegWarning, unknown_name
from trueneg.evaluation.encoders.similarity_record import SimilarityRecord
from trueneg.evaluation.results.store import find_results, load_result
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.whole import replace_folder, write_whole
from trueneg.models.backbone import max_length
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import config_of, from_pretrained, resolve_checkpoint, without_pooler
from trueneg.models.onnx_export import export_onnx
from trueneg.models.origin import Origin, modules_folder, origin_of, read_origin
from trueneg.models.sentence_modules import copy_modules, write_mean_pooling
from trueneg.objectives import objective_kind
from trueneg.runs.card import PLACE, Use, finetuning_card, plain_card, run_card
from trueneg.tokenizer import load_tokenizer
from trueneg.training.checkpoint import kept_checkpoints, latest_checkpoint, write_error
from trueneg.training.folder import CHECKPOINTS, CONFIG, HUGGING_FACE, METRICS, ORIGIN, SIMILARITY
from trueneg.training.log import read_metrics
from trueneg.training.saved_model import saved_model, saved_tokenizer

RECIPE = "docs/sentence-encoders.md"
"""How to continue a sentence encoder without losing its quality."""


@dataclass(frozen=True)
class Exported:
    """An export, and how it is loaded."""

    path: Path
    format: str
    head: str
    """Head of an ONNX graph; empty for other formats."""
    load: str
    """Line of Python that loads it."""


def save_run_model(
    model: nn.Module, tokenizer: PreTrainedTokenizerFast, config: PretrainConfig, run: Path, step: int, target: Path
) -> None:
    """Write a run's model as a Hugging Face folder, with its card and its origin's sentence-encoder modules.

    Args:
        model: Its state at ``step``.
        tokenizer: The corpus's.
        config: The run's.
        run: Its folder.
        step: Steps done.
        target: A new folder.
    """
    objective_kind(config.objective.name).save(model, tokenizer, target, run_card(config, run, step))
    copy_modules(run / ORIGIN, target)


def export(
    checkpoint: str,
    format: str = "hf",
    out: str | Path | None = None,
    *,
    head: str = "auto",
    step: int | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write a checkpoint in the format of another library.

    Args:
        checkpoint: A run folder, a Hugging Face folder or a hub name.
        format: ``hf``, ``sentence-transformers`` or ``onnx``.
        out: An empty or new folder; by default one named like the format within the checkpoint's folder (a run's
            existing ``hf`` is returned; if it is missing, it is written again from the last checkpoint).
        head: For ``onnx``: see ``models.onnx_export.export_onnx``.
        step: For a run: the checkpoint of this step instead of the last one.
        overwrite: Replace an existing export in ``out``.

    Raises:
        ConfigError: for an unknown format or head, a step that is not kept, a folder that is not empty, or a hub name
            without ``out``.
        ModelError: if the checkpoint cannot be used.
        CheckpointError: if every checkpoint of a run is damaged.
        MissingExtraError: if the format needs a package that is not installed.
    """
    if format not in _WRITERS:
        raise ConfigError(unknown_name("format", format, _WRITERS))
    if head != "auto" and format != "onnx":
        raise ConfigError(f"--head {head}: only --format onnx chooses a head; the others hold all of the model")
    if out is None and not Path(checkpoint).is_dir() and format != "hf":
        # A folder of that name would be mistaken for the checkpoint later.
        raise ConfigError(f"'{checkpoint}' is no folder that an export could be written into: give --out")
    run = _run_of(checkpoint)
    if step is not None and run is None:
        raise ConfigError(f"--step {step}: '{checkpoint}' is no pre-training run with checkpoints")
    if format == "hf" and out is None and step is None:
        place = _own_folder(checkpoint, run)
        return Exported(place, "hf", "", f'AutoModel.from_pretrained("{place}")')
    name = format if step is None else f"{format}-step-{step}"
    target = Path(out) if out is not None else Path(checkpoint) / name
    _check_target(target, overwrite)
    with _source_of(checkpoint, run, step) as source:
        written = dict[str, Exported]()

        def fill(new: Path) -> None:
            written["done"] = _WRITERS[format](source, new, target, head)

        try:
            replace_folder(target.absolute(), fill)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"cannot write '{target}': {write_error(error)}: make room, or name another --out"
            ) from error
    return written["done"]


@dataclass(frozen=True)
class _Run:
    """A pre-training run's folder."""

    folder: Path
    config: PretrainConfig

    @property
    def origin(self) -> Origin:
        """Origin of the checkpoint that it continued."""
        return read_origin(self.folder / ORIGIN, self.config.model.start_from)

    def checkpoint(self, step: int | None) -> tuple[Path, int]:
        """Find an undamaged checkpoint and its step."""
        place = self.folder / CHECKPOINTS
        if step is None:
            found = latest_checkpoint(place)
            if found is None:
                raise ModelError(f"'{self.folder}' has no checkpoint yet: continue with --resume")
            return found[0], found[1].step
        kept = {state.step: path for path, state in kept_checkpoints(place)}
        if step not in kept:
            known = ", ".join(str(number) for number in kept) or "none"
            raise ConfigError(f"--step {step}: '{self.folder}' keeps the steps {known} (train.keep says how many)")
        return kept[step], step


@dataclass(frozen=True)
class _Source:
    """The model to export: a Hugging Face folder or hub name, and the run that it comes from."""

    path: str
    name: str
    run: _Run | None = None
    step: int = 0

    def card(self, use: Use) -> str:
        """Write the card of this checkpoint in a format."""
        if self.run is not None:
            return run_card(self.run.config, self.run.folder, self.step, use)
        origin = origin_of(self.path)
        folder = Path(self.path).parent
        if (folder / CONFIG).is_file() and (results := list(find_results(folder))):
            config = load_config(FinetuneConfig, folder / CONFIG)
            return finetuning_card(config, [load_result(path) for path in results], origin, use)
        return plain_card(self.name, origin, use)


def _run_of(checkpoint: str) -> _Run | None:
    """The pre-training run in a folder; None for anything else."""
    folder = Path(checkpoint)
    if not ((folder / CONFIG).is_file() and (folder / CHECKPOINTS).is_dir()):
        return None
    config = read_record(dict[str, object], folder / CONFIG, ConfigError, "give the run's own config.json")
    if "task" in config:
        if not (folder / HUGGING_FACE).is_dir():
            raise ModelError(f"'{folder}' is fine-tuned, but not to its end: continue with --resume")
        return None
    return _Run(folder, load_config(PretrainConfig, folder / CONFIG))


def _own_folder(checkpoint: str, run: _Run | None) -> Path:
    """A checkpoint's own Hugging Face folder; a run's is restored if it is missing, and its card updated."""
    if run is None:
        path = Path(resolve_checkpoint(checkpoint))
        if not path.is_dir():
            raise ModelError(f"no checkpoint at '{checkpoint}': give a run folder or a Hugging Face folder")
        return path
    place = run.folder / HUGGING_FACE
    with locked(run.folder, "export"):
        if (place / "config.json").is_file():
            write_whole(place / "README.md", run_card(run.config, run.folder, last_step(run.folder)))
        else:
            path, step = run.checkpoint(None)
            replace_folder(place, lambda new: _rebuild(run, path, step, new))
    return place


def _rebuild(run: _Run, path: Path, step: int, target: Path) -> None:
    with warnings.catch_warnings():
        # Warnings of randomly initialized heads, whose weights are then loaded from the checkpoint.
        warnings.simplefilter("ignore", TruenegWarning)
        model = saved_model(run.folder, run.config, path)
    save_run_model(model, saved_tokenizer(run.folder, run.config), run.config, run.folder, step, target)


@contextmanager
def _source_of(checkpoint: str, run: _Run | None, step: int | None) -> Iterator[_Source]:
    name = Path(checkpoint).name
    if run is None:
        yield _Source(resolve_checkpoint(checkpoint), name)
    elif step is None and (run.folder / HUGGING_FACE / "config.json").is_file():
        yield _Source(str(run.folder / HUGGING_FACE), name, run, last_step(run.folder))
    else:
        path, found = run.checkpoint(step)
        with tempfile.TemporaryDirectory(prefix="trueneg-") as folder:
            _rebuild(run, path, found, Path(folder) / "hf")
            yield _Source(str(Path(folder) / "hf"), name, run, found)


def sentence_source(checkpoint: str) -> str:
    """The sentence encoder that a run continues, if it still exists; empty for anything else."""
    run = _run_of(checkpoint)
    if run is None or not run.origin.is_sentence_encoder or not Path(run.config.model.start_from).exists():
        return ""
    return run.config.model.start_from


def note_similarity(
    checkpoint: str, split: str, num_pairs: int, after: dict[str, float], before: dict[str, float]
) -> None:
    """Save a run's evaluation on STS-B in its folder, and write it into its card.

    Args:
        checkpoint: The run; for anything else nothing is saved.
        split: Of STS-B.
        num_pairs: Number of pairs evaluated.
        after: Spearman's correlation by pooling, of the run's ``hf/``.
        before: The same of the checkpoint that the run continues; empty if it was not measured.
    """
    run = _run_of(checkpoint)
    if run is None:
        return
    step = last_step(run.folder)
    SimilarityRecord("STS-B", split, num_pairs, step, after, before).save(run.folder / SIMILARITY)
    # A run that is still training writes its card with every checkpoint.
    with suppress(BusyError), locked(run.folder, "evaluate"):
        if (run.folder / HUGGING_FACE).is_dir():
            write_whole(run.folder / HUGGING_FACE / "README.md", run_card(run.config, run.folder, step))


def last_step(run: Path) -> int:
    """Training step of a run's ``hf/``: that of its last checkpoint, or of its last log record."""
    saved = sorted((run / CHECKPOINTS).glob("step-*"))
    if saved:
        return int(saved[-1].name.removeprefix("step-"))
    records = read_metrics(run / METRICS) if (run / METRICS).is_file() else []
    return int(records[-1]["step"]) if records else 0


def _check_target(target: Path, overwrite: bool) -> None:
    if target.exists() and not target.is_dir():
        raise ConfigError(f"'{target}' is a file: name a folder as --out")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not overwrite:
        raise ConfigError(f"'{target}' is not empty: give another --out, or pass --overwrite")
    is_export = (target / "config.json").is_file() and (target / "tokenizer_config.json").is_file()
    if not is_export or (target / CHECKPOINTS).exists():
        raise ConfigError(f"--overwrite: '{target}' holds something else than an export: give another --out")


def _write_hugging_face(source: _Source, new: Path, target: Path, head: str) -> Exported:
    path = Path(source.path)
    if not path.is_dir():
        raise ModelError(f"'{source.path}' is a hub name: it is in Hugging Face's format already")
    shutil.copytree(path, new, dirs_exist_ok=True)
    if source.run is not None:
        (new / "README.md").write_text(run_card(source.run.config, source.run.folder, source.step), encoding="utf-8")
    return Exported(target, "hf", "", f'AutoModel.from_pretrained("{target}")')


def _write_sentence_transformers(source: _Source, new: Path, target: Path, head: str) -> Exported:
    """Write the encoder with its origin's modules; without these, with mean pooling."""
    hf = config_of(source.path)
    encoder, _ = from_pretrained(AutoModel, source.path, hf, "eager", without_pooler(hf))
    save_hugging_face(encoder, load_tokenizer(source.path), new)
    # A run of an earlier version has no copy of the modules.
    earlier = source.run.config.model.start_from if source.run else ""
    if not (copy_modules(modules_folder(source.path), new) or (earlier and copy_modules(Path(earlier), new))):
        longest = min(max_length(encoder), encoder.config.max_position_embeddings)
        write_mean_pooling(new, encoder.config.hidden_size, longest)
    _warn_of_lost_vectors(source)
    code = f'from sentence_transformers import SentenceTransformer\n\nencoder = SentenceTransformer("{PLACE}")'
    tags = ("sentence-transformers", "sentence-similarity", "feature-extraction")
    card = source.card(Use("sentence-transformers", code, tags, "sentence-similarity"))
    (new / "README.md").write_text(card, encoding="utf-8")
    return Exported(target, "sentence-transformers", "", f'SentenceTransformer("{target}")')


def _write_onnx(source: _Source, new: Path, target: Path, head: str) -> Exported:
    graph = export_onnx(source.path, new, head)
    if graph.head == "sentence":
        _warn_of_lost_vectors(source)
    inputs, outputs = ", ".join(graph.inputs), ", ".join(graph.outputs)
    code = f"""import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{PLACE}")
session = onnxruntime.InferenceSession("{PLACE}/model.onnx")
# {inputs} -> {outputs}
outputs = session.run(None, dict(tokenizer(["a text", "another"], padding=True, return_tensors="np")))"""
    (new / "README.md").write_text(source.card(Use("onnx", code, ("onnx",))), encoding="utf-8")
    load = f'onnxruntime.InferenceSession("{target / "model.onnx"}")  # {inputs} -> {outputs}'
    return Exported(target / "model.onnx", "onnx", graph.head, load)


_WRITERS: Mapping[str, Callable[[_Source, Path, Path, str], Exported]] = {
    "hf": _write_hugging_face,
    "sentence-transformers": _write_sentence_transformers,
    "onnx": _write_onnx,
}


def _warn_of_lost_vectors(source: _Source) -> None:
    """Warn that a sentence encoder's vectors have degraded, and whether this was measured."""
    if source.run is None or not source.run.origin.is_sentence_encoder:
        return
    name = source.run.folder
    measured = (name / SIMILARITY).is_file()
    command = f"trueneg evaluate encoder {name} --task sts --data GLUE"
    what = "its card says" if measured else f"it is not measured: run  {command} "
    warnings.warn(
        f"'{name}' continued a sentence encoder with the objective {source.run.config.objective.name}, under which its "
        f"vectors lose what they knew of sentences; how much {what} (a recipe that keeps them: {RECIPE})",
        TruenegWarning,
        stacklevel=2,
    )
