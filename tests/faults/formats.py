"""Every format of JSON that is read, with a file that the code or its authors made, and its public reader.

A new format is a line here: ``test_faults.py`` asks for one of every module that decodes JSON.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from faults.mutations import Reseal, as_text, mutated_bytes, mutated_value
from faults.world import WORDNET, World
from trueneg.attacks.attack_set import load_attack_set
from trueneg.attacks.word_substitution.neighbours import load_neighbours
from trueneg.cli.main import main
from trueneg.config.codec import load_config
from trueneg.config.finetune_options import TaskConfig
from trueneg.config.options import ModelConfig
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.sources import read_documents
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.detectors.scorers.calibrated import read_calibration
from trueneg.detectors.scorers.prototypes import Prototypes
from trueneg.errors import BusyError, CorpusError, TruenegError, TruenegWarning
from trueneg.evaluation.detectors.swords import read_benchmark
from trueneg.evaluation.encoders.similarity_record import read_similarity
from trueneg.evaluation.encoders.triplets import read_triplets
from trueneg.evaluation.masked_lm.corrections import load_false_negatives
from trueneg.evaluation.results.reproduction import load_table
from trueneg.evaluation.results.store import load_predictions, load_result
from trueneg.evaluation.results.trial import load_trial
from trueneg.files import arrays
from trueneg.files.digests import checksum, fingerprint_of
from trueneg.files.lock import locked
from trueneg.files.verified import Expected, verify
from trueneg.models.loading import load_masked_lm
from trueneg.models.origin import read_origin
from trueneg.models.sentence_modules import read_modules
from trueneg.recipes.plan import Job, Plan, Workspace
from trueneg.recipes.planted import Settings, load_results
from trueneg.recipes.reproduction import read_plan
from trueneg.recipes.scripts import read_seen
from trueneg.recipes.tables import output_of
from trueneg.recipes.trial_steps import read_chosen
from trueneg.reporting.glue_server import server_scores
from trueneg.reporting.html import write_report
from trueneg.reporting.sources import read_sources
from trueneg.runs.configuring import load_run_config
from trueneg.runs.finetuned_models import finetuned_task
from trueneg.runs.sweeps import read_selection
from trueneg.tasks import make_task
from trueneg.tasks.contrast_sets import read_contrast_set
from trueneg.tasks.records import read_records
from trueneg.tasks.squad_reading import read_squad
from trueneg.tokenizer import load_tokenizer
from trueneg.training.checkpoint import latest_checkpoint
from trueneg.training.log import read_metrics


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        name: What it is.
        modules: That decode it, under ``trueneg``.
        file: Where one lies in the world; its folder is what is copied.
        read: The public reader, of the file.
        lines: Whether it has a record a line.
        reseal: Puts in the checksum of what a record says now, as anybody can.
    """

    name: str
    modules: tuple[str, ...]
    file: str
    read: Callable[[Path], object]
    lines: bool = False
    reseal: Reseal | None = None
    cost: int = 1
    """How much less than others it is tried, as reading it is work."""


def _digest(record: dict[str, Any], *blank: str) -> dict[str, Any]:
    return record | {"fingerprint": fingerprint_of(record | dict.fromkeys((*blank, "fingerprint")))}


def _state_digest(record: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in record.items() if name != "digest"}
    return rest | {"digest": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def _of_folder(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """A reader of the file's folder, as one of the file."""
    return lambda path: read(path.parent)


def _corpus(path: Path) -> object:
    corpus = Corpus.open(path.parent)
    return corpus.verify(), [corpus.document(number) for number in range(3)]


def _annotations(path: Path) -> object:
    return Annotations.open(path.parent, Corpus.open(path.parents[1] / "corpus"))


def _build_on(path: Path) -> object:
    root = path.parents[1]
    given = ["--tokenizer", root / "tok", "--valid", 0.2, "--shard-tokens", 700, "--tag"]
    return _command("corpus", "build", (root / "text").resolve() / "text.txt", "--out", path.parent, *given)


def _annotate_on(path: Path) -> object:
    given = ["--detector", "lexical", "--length", 24, "--batch-size", 16, "--wordnet", WORDNET]
    return _command("corpus", "annotate", path.parents[1] / "corpus", "--out", path.parent, *given)


def _command(*words: object) -> None:
    """A command in this process."""
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["trueneg", *map(str, words)]),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise TruenegError(said.getvalue()) from ended


def _perspectrum(path: Path) -> object:
    return make_task(TaskConfig(name="perspectrum", data=str(path.parent))).read("train")


def _page_of_file(path: Path) -> object:
    """Write the page of a folder that holds this file alone."""
    folder = path.parent / "alone"
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(path.read_bytes())
    return write_report([folder], path.parent / "page.html")


def _page(path: Path) -> object:
    return write_report([path.parent], path.parent / "page.html")


def _tokenized(folder: Path) -> object:
    return load_tokenizer(folder)("We see a big film .")


def _model(path: Path) -> object:
    return load_masked_lm(ModelConfig(start_from=str(path.parent)), load_tokenizer(path.parents[2] / "tok"))


def _about(path: Path) -> object:
    """A table whose head says this, with its checksum."""
    original, made = path.parents[1] / "protos" / "p.safetensors", path.with_name("made.safetensors")
    with safe_open(str(original), framework="numpy") as file:
        texts = file.metadata()
    content, tensors = path.read_text(encoding="utf-8", errors="replace"), load_file(str(original))
    del texts["checksum"]
    texts["about"] = content
    texts["checksum"] = arrays._checksum(tensors, texts)
    save_file(tensors, str(made), texts)
    return Prototypes.load(made)


def _noted(path: Path) -> object:
    file = path.with_name("file")
    file.write_bytes(b"abc")
    shutil.copy(path, path.with_name(f"{fingerprint_of([str(file.absolute())])}.json"))
    return verify([Expected(file, checksum(file))], CorpusError, "make it again", path.parent)


def _lock(path: Path) -> object:
    """What another process wrote of itself is read while it holds the folder."""
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            with locked(path.parent, "this"):
                raise AssertionError("two hold it")
        except BusyError as refused:
            return refused


def _workspace(path: Path) -> Workspace:
    """One whose only job lies where the file does."""
    folder = path.parent / "jobs" / "job-key"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / path.name)
    return Workspace(path.parent, Plan({"job": Job("job", ("list",))}), {}, {"job": "key"})


def _job(path: Path) -> object:
    return _workspace(path).state("job"), _workspace(path).seconds("job")


def _job_output(path: Path) -> object:
    return output_of(_workspace(path), "job")


FORMATS = {
    each.name: each
    for each in (
        Format("corpus.json", ("corpus.files",), "corpus/corpus.json", _corpus, reseal=lambda r: _digest(r, "sources")),
        Format("tags.json", ("corpus.files",), "corpus/tags.json",
               _of_folder(lambda folder: Tags.open(Corpus.open(folder))), reseal=_digest),
        Format("annotations.json", ("corpus.files",), "notes/annotations.json", _annotations, reseal=_digest),
        Format("journal of a build", ("corpus.build", "corpus.journal"), "building/build.json", _build_on, cost=20),
        Format("journal of annotations", ("corpus.journal",), "annotating/annotating.json", _annotate_on, cost=20),
        Format("config.json of a run", ("config.codec",), "bert/config.json", load_run_config),
        Format("config.json of a fine-tuned model", ("config.codec",), "ft/reviews/seed-1/config.json",
               _of_folder(finetuned_task)),
        Format("state.json", ("training.checkpoint",), "bert/checkpoints/step-000000016/state.json",
               lambda path: latest_checkpoint(path.parents[1]), reseal=_state_digest),
        Format("metrics.jsonl", ("training.log",), "bert/metrics.jsonl", read_metrics, lines=True),
        Format("a run's page: readings", ("training.log",), "bert/metrics.jsonl", _page, lines=True, cost=15),
        Format("a run's page: options", ("config.codec", "runs.exporting"), "bert/config.json", _page, cost=15),
        Format("result", ("evaluation.results.store",), "attacked/reviews/seed-1/dev.json", load_result),
        Format("predictions", ("evaluation.results.store",), "attacked/reviews/seed-1/dev.predictions.jsonl",
               lambda path: load_predictions(path.with_name("dev.json")), lines=True),
        Format("attack set", ("attacks.attack_set",), "attacked/set.jsonl", load_attack_set, lines=True),
        Format("planted: settings", ("config.codec",), "planted/settings.json",
               lambda path: load_config(Settings, path)),
        Format("planted: run", ("recipes.planted",), "planted/runs/marginal.seed1.json",
               lambda path: load_results(path.parents[1])),
        Format("calibrated detector", ("detectors.scorers.calibrated",), "calibrated/c.json",
               lambda path: read_calibration(str(path))),
        Format("neighbours", (), "given/neighbours.json", load_neighbours),
        Format("triplets", ("evaluation.encoders.triplets",), "given/triplets.jsonl", read_triplets, lines=True),
        Format("SQuAD", (), "given/squad.json", lambda path: read_squad(path, "dev", with_impossible=True)),
        Format("SWORDS", (), "given/swords.json", read_benchmark),
        Format("BoolQ's contrast set", (), "given/boolq_perturbed.json",
               _of_folder(lambda folder: read_contrast_set("boolq", folder, "test"))),
        Format("PERSPECTRUM", (), "given/perspectrum_with_answers_v1.0.json", _perspectrum),
        Format("table of JSON lines", ("tasks.records",), "given/table.jsonl", read_records, lines=True),
        Format("text as JSON lines", (), "given/text.jsonl", lambda path: list(read_documents(str(path))), lines=True),
        Format("tokenizer.json", ("lexicon.surface", "corpus.tokenizer_training"), "tok/tokenizer.json",
               _of_folder(_tokenized), cost=4),
        Format("tokenizer_config.json", ("tokenizer",), "tok/tokenizer_config.json", _of_folder(_tokenized), cost=4),
        Format("index of weights", ("models.loading",), "indexed/hf/model.safetensors.index.json", _model, cost=10),
        Format("config.json of transformers", ("models.loading",), "bert/hf/config.json", _model, cost=10),
        Format("origin of a run", ("models.origin",), "continued/origin/origin.json",
               _of_folder(lambda folder: read_origin(folder, ""))),
        Format("sentence-similarity.json", ("evaluation.encoders.similarity_record",), "given/sentence-similarity.json",
               read_similarity),
        Format("planted: results", ("reporting.sources",), "planted/results.json", _page, cost=15),
        Format("a trial's page", ("evaluation.results.trial",), "given/try.json", _page_of_file, cost=15),
        Format("measurements of a report", ("reporting.sources",), "given/hits.json",
               lambda path: read_sources([path])),
        Format("modules.json", ("models.sentence_modules",), "sentences/modules.json", _of_folder(read_modules)),
        Format("false-negatives.json", ("evaluation.masked_lm.corrections",), "judged/false-negatives.json",
               load_false_negatives),
        Format("server's scores", ("reporting.glue_server",), "given/glue-test.json", _of_folder(server_scores)),
        Format("table.json of a recipe", ("evaluation.results.reproduction",), "given/table.json",
               _of_folder(load_table)),
        Format("try.json", ("evaluation.results.trial",), "given/try.json", _of_folder(load_trial)),
        Format("steps.json of a trial", ("recipes.trial_steps",), "given/steps.json", _of_folder(read_chosen)),
        Format("selection.json of a sweep", ("runs.sweeps",), "given/selection.json", _of_folder(read_selection)),
        Format("job.json", ("recipes.plan",), "given/job.json", _job),
        Format("plan.json of recipes", ("recipes.reproduction",), "given/plan.json", _of_folder(read_plan)),
        Format("data of a scripted job", ("recipes.scripts",), "given/seen.json",
               lambda path: read_seen(path.read_bytes().decode(errors="replace"))),
        Format("what a job wrote", ("recipes.tables",), "given/output.txt", _job_output),
        # Options of a table of replacements are in such a head, too.
        Format("head of a file of arrays", ("files.arrays", "corruption.views.rows"), "about/about.json", _about),
        Format("notes of what was verified", ("files.verified",), "noted/notes.json", _noted),
        Format("lock", ("files.lock",), "given/.lock", _lock),
    )
}  # fmt: skip
"""By name. Provenance in the head of safetensors (prototypes) has no file of its own: faults.flips changes it."""


@dataclass
class Tally:
    """What became of a format."""

    inputs: int = 0
    refused: int = 0
    accepted: int = 0
    faults: list[str] = field(default_factory=list)


class Place:
    """A file of a format in a folder of its own, to be written over and read again and again."""

    def __init__(self, world: World, format: Format, folder: Path) -> None:
        self.format = format
        self.path = folder / format.file
        top, original = folder / Path(format.file).parts[0], world / Path(format.file).parts[0]
        # What the reader needs besides lies around it, as it does in the world, and was made before it.
        folder.mkdir(parents=True)
        for beside in filter(Path.is_dir, world.root.iterdir()):
            if beside.name != top.name:
                (folder / beside.name).symlink_to(beside)
        shutil.copytree(original, top)
        self.top, self.original, self.environment = top, original, world.environment
        self.content = self.path.read_bytes()

    def check(self) -> None:
        """The file is taken as it is, and resealed it is itself."""
        if self.format.reseal is not None:
            record = json.loads(self.content)
            assert self.format.reseal(record) == record, f"{self.format.name}: another checksum than the code's"
        assert self.read(self.content) == "accepted", f"{self.format.name}: {self.read(self.content)}"

    def mutated(self, choose: random.Random) -> bytes:
        """Another content."""
        if choose.random() < 0.3:
            return mutated_bytes(self.content, choose)
        if not self.format.lines:
            return self._sealed(mutated_value(json.loads(self.content), choose), choose)
        lines = self.content.splitlines()
        at = choose.randrange(len(lines))
        line = as_text(mutated_value(json.loads(lines[at]), choose))
        return b"\n".join([*lines[:at], *([line] * choose.choice((1, 1, 1, 2))), *lines[at + 1 :]]) + b"\n"

    def _sealed(self, record: Any, choose: random.Random) -> bytes:
        if self.format.reseal is None or not isinstance(record, dict) or choose.random() < 0.1:
            return as_text(record)
        seal = self.format.reseal(record)
        name = next(key for key in ("fingerprint", "digest") if key in seal)
        # What cannot be written by this library is not sealed, and refused for that: a few of many.
        return as_text(record | {name: seal[name]})

    def read(self, content: bytes) -> str:
        """``accepted``, ``refused``, or what else came of it."""
        if self.format.name.startswith("journal"):  # reading it writes, too
            shutil.rmtree(self.top)
            shutil.copytree(self.original, self.top)
        self.path.write_bytes(content)
        try:
            with warnings.catch_warnings(), mock.patch.dict(os.environ, self.environment):
                warnings.simplefilter("ignore", TruenegWarning)
                self.format.read(self.path)
        except TruenegError:
            return "refused"
        except Exception as error:
            return f"{type(error).__name__}: {error!s:.120}"
        return "accepted"


def mutate_all(world: World, place: Path, each: int, seed: int) -> Iterator[tuple[str, Tally]]:
    """Feed ``each`` mutations of a file of every format to its reader."""
    for number, (name, format) in enumerate(FORMATS.items()):
        choose, tally = random.Random(f"{seed} {name}"), Tally()
        files = Place(world, format, place / f"format-{number}")
        files.check()
        for _ in range(max(1, each // format.cost)):
            content = files.mutated(choose)
            found = files.read(content)
            tally.inputs += 1
            tally.refused += found == "refused"
            tally.accepted += found == "accepted"
            if found not in ("refused", "accepted"):
                tally.faults.append(f"{found} <- {content[:200]!r}")
        yield name, tally
