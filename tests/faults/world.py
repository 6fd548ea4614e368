"""A small world that commands made (text, tokenizer, corpus, runs), and the verbs to hurt in it."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import safe_open

from faults.processes import Fault, run
from trueneg.evaluation.results.reproduction import Cell, Claim, ReproducedTable
from trueneg.evaluation.results.trial import Answer, Measure, Shown, Trial
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.recipes.plan import Finished
from trueneg.recipes.scripts import Seen
from trueneg.recipes.trial_steps import Chosen
from trueneg.runs.sweeps import Combination, Selection

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
SENTENCES = (
    "The {big} {beast} will {stay} near the {town} .",
    "We {see} a {big} {film} about the {town} .",
    "They {stay} in the {town} and {see} a {main} {film} .",
)
WORDS = {
    "big": ["large", "big", "small", "little"],
    "beast": ["animal", "beast", "mouse"],
    "stay": ["stay", "remain", "rest"],
    "town": ["city", "metropolis", "harbour"],
    "see": ["see", "notice", "cut"],
    "film": ["movie", "film", "picture"],
    "main": ["primary", "main", "chief"],
}
CPU = ("--set", "train.device=cpu")


@dataclass(frozen=True)
class World:
    """Things in a folder, each made when it is first asked for: ``world / "corpus"``."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """What commands run under."""
        return {"WNSEARCHDIR": str(WORDNET), "TRUENEG_CACHE": str(self.root / "cache")}

    def __truediv__(self, name: str) -> Path:
        path = self.root / name
        if not path.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            MAKERS[name](self, path)
        return path


@dataclass(frozen=True)
class Verb:
    """A command that is given again until it has finished."""

    name: str
    argv: Callable[[World, Path], list[object]]
    """The command that writes to a folder."""
    start_from: str = ""
    """What of the world the folder begins as."""
    cost: int = 1
    """How much less than others it is tried, as every process of its own imports everything anew."""

    def command(self, world: World, out: Path) -> list[str]:
        return [str(word) for word in self.argv(world, out)]

    def prepare(self, world: World, out: Path) -> None:
        """What lies in the folder before the command is given first."""
        if self.start_from:
            shutil.copytree(world / self.start_from, out)


def _make_text(world: World, path: Path) -> None:
    choose = random.Random(0)

    def sentence() -> str:
        return choose.choice(SENTENCES).format(**{kind: choose.choice(words) for kind, words in WORDS.items()})

    documents = [" ".join(sentence() for _ in range(choose.randint(2, 5))) for _ in range(160)]
    path.mkdir()
    (path / "text.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    (path / "words.txt").write_text("metropolitan\nharbourmaster\n")


def _make_reviews(world: World, path: Path) -> None:
    path.mkdir()
    for split, numbers in (("train", range(64)), ("dev", range(64, 84))):
        rows = [f"the {('large', 'small')[n % 2]} film number {n},{n % 2}" for n in numbers]
        (path / f"{split}.csv").write_text("\n".join(["text,label", *rows]) + "\n")


_INTERVAL = Interval(0.6, 0.2, 1.0, 5)
_CLAIM = Claim("HC", "base", "CoLA", 1.0, _INTERVAL, 0.01, "replicated", "the same direction")
_CELLS = [Cell("base", "CoLA", 56.8, {1: 10.0, 2: 12.0}), Cell("HC", "CoLA", None)]
_TABLE = ReproducedTable(
    *(
        "tn-table3",
        "GLUE",
        "Zhang et al. 2023, Table 3",
        "mini",
        ["base", "HC"],
        ["CoLA"],
        _CELLS,
        [_CLAIM],
        ["a note"],
    ),
    *({"corpus": "trueneg corpus build"}, {"glue": "0" * 64}, {"trueneg": "0"}),
)
_TRIAL = Trial(
    *(["my.txt"], "bert", {"baseline": "plain"}, [1, 2], 50, "timed", 60.0),
    [Measure("loss", "nats", {"baseline": {1: 2.0, 2: 2.1}}, "less")],
    [Answer("loss", "nats", "lexical", "baseline", _INTERVAL, 0.01, "hurts", "it does", "less")],
    [Shown("a", "big", "film", {"baseline": [("large", 0.5, True)]})],
    *(["a note"], ["a warning"], {"corpus": "trueneg corpus build"}, {"text": "0" * 64}, {"trueneg": "0"}),
)
_SELECTION = Selection(
    *("glue/rte", "held-out", "accuracy", "the highest mean", [1, 2]),
    [
        Combination(
            {"optimizer.learning_rate": 1e-5}, "sweep/lr", {1: 0.5, 2: 0.6}, 0.55, {"dev": {1: {"accuracy": 0.5}}}
        )
    ],
    selected=0,
)
_JOB = Finished("job", "key", ["trueneg", "list"], {"text": "0" * 64})


def _make_given(world: World, path: Path) -> None:
    """What others write and we read."""
    path.mkdir()
    films = "We see 25 films about the city in 1998 ."
    asked = {"id": "q0", "question": "How many films ?", "answers": [{"text": "25", "answer_start": 7}]}
    never = {"id": "q1", "question": "How many beasts ?", "answers": [], "is_impossible": True}
    turned = {"perturbed_q": "is a film small", "answer": "FALSE"}
    triplet = {"original": "a big film", "synonym": "a large film", "antonym": "a small film"}
    replaced = {"synonym_words": [["big", "large"]], "antonym_words": [["big", "small"]]}
    chosen = {"estimate": 0.5, "low": 0.4, "high": 0.6, "num": 9}
    layers = {"curve": [0.5, 0.75], "paper_layer": 1, "chosen_layer": 1, "chosen": chosen, "chosen_ties": 0.0}
    hits = {"checkpoint": "bert", "way": "cls", **layers}
    files: dict[str, object] = {
        "squad.json": {"data": [{"title": "films", "paragraphs": [{"context": films, "qas": [asked, never]}]}]},
        "swords.json": json.loads((WORDNET.parent / "swords" / "tiny.json").read_text()),
        "neighbours.json": {"film": [["movie", 0.9], ["picture", 0.5]], "big": [["large", 0.8]]},
        "boolq_perturbed.json": {
            "data": [
                {"question": "is a film big", "answer": "TRUE", "paragraph": films, "perturbed_questions": [turned]}
            ]
        },
        "sentence-similarity.json": {
            "task": "STS-B",
            "split": "dev",
            "num_pairs": 9,
            "step": 4,
            "after": {"cls": 0.5, "mean": 0.25},
            "before": {},
        },
        "glue-test.json": {"CoLA": 52.1, "SST-2": 93.5, "MNLI-m": 84.1},
        "table.json": asdict(_TABLE),
        "try.json": asdict(_TRIAL),
        "steps.json": asdict(Chosen(60, "given", 1.0, ["We see a big film ."])),
        "selection.json": asdict(_SELECTION),
        "job.json": asdict(_JOB),
        "seen.json": [asdict(Seen("text", "my.txt", [], "0123456789abcdef", "0123456789abcdef"))],
        "plan.json": {"job": asdict(_JOB)},
        "output.txt": {"arms": [{"name": "baseline", "ratio": 1.0}]},
        "hits.json": {"triplets": [hits, hits], "data": "triplets.jsonl", "versions": {"trueneg": "1"}},
        ".lock": {"pid": 1, "host": "here", "doing": "pretrain", "since": "2026-11-22 08:00:00"},
        "perspectrum_with_answers_v1.0.json": [
            {"cId": 1, "text": "Films are good", "perspectives": [{"pids": [1, 2], "stance_label_3": "SUPPORT"}]},
            {"cId": 2, "text": "Films are bad", "perspectives": [{"pids": [3], "stance_label_3": "UNDERMINE"}]},
        ],
        "dataset_split_v1.0.json": {"1": "train", "2": "train"},
        "perspective_pool_v1.0.json": [{"pId": n, "text": f"because of {n}"} for n in (1, 2, 3)],
    }
    lines: dict[str, list[object]] = {
        "triplets.jsonl": [triplet | replaced, triplet],
        "table.jsonl": [{"text": f"film number {n}", "label": n % 2, "score": n / 2} for n in range(5)],
        "text.jsonl": [{"text": f"the big film number {n}", "id": n} for n in range(5)],
    }
    for name, content in files.items():
        (path / name).write_text(json.dumps(content))
    for name, records in lines.items():
        (path / name).write_text("".join(json.dumps(record) + "\n" for record in records))


def _make(argv: Callable[[World, Path], list[object]], **environment: str) -> Callable[[World, Path], None]:
    """By a command that must succeed."""

    def make(world: World, path: Path) -> None:
        words = [str(word) for word in argv(world, path)]
        ended = run(words, path, **world.environment | environment)
        assert ended.code == 0, f"{words}: {ended.last_words}"

    return make


def _make_tables(world: World, path: Path) -> None:
    """The cache of a lexical and of a CLINE run."""
    for name, options in (("cline", CLINE), ("corrected", CORRECTED)):
        make = _make(pretraining(name, *options, steps=1), TRUENEG_CACHE=str(path))
        make(world, world.root / f"run of {name}")


def _make_about(world: World, path: Path) -> None:
    """What a file of arrays says of itself, out of its head."""
    path.mkdir()
    with safe_open(str(world / "protos" / "p.safetensors"), framework="numpy") as file:
        (path / "about.json").write_text(file.metadata()["about"])


def _make_indexed(world: World, path: Path) -> None:
    """Weights with an index beside them."""
    shutil.copytree(world / "bert" / "hf", path / "hf")
    with safe_open(str(path / "hf" / "model.safetensors"), framework="numpy") as file:
        index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(file.keys(), "model.safetensors")}
    (path / "hf" / "model.safetensors.index.json").write_text(json.dumps(index))


def _make_noted(world: World, path: Path) -> None:
    """What is noted of a file that was found whole."""
    path.mkdir()
    (path / "notes.json").write_text(json.dumps({"/somewhere/file": "3 1 1 1 1 sum rule"}))


def _make_attacked(world: World, path: Path) -> None:
    """A set of adversaries beside the answers, and the results under attack."""
    shutil.copytree(world / "ft", path)
    _make(attacking)(world, path)


def _leave_unfinished(name: str, journal: str) -> Callable[[World, Path], None]:
    """A folder as a kill leaves it, with some work in it."""

    def make(world: World, path: Path) -> None:
        verb, whole = RESUMABLE[name], world.root / f"whole {name}"
        event = run(verb.command(world, whole), whole, **world.environment).num_events * 3 // 4
        while not (path / journal).is_file() or not any(part.stat().st_size for part in path.glob("*/*.bin")):
            assert event > 0, f"no kill leaves a {journal}"
            shutil.rmtree(path, ignore_errors=True)
            run(verb.command(world, path), path, Fault(event, signal.SIGKILL), **world.environment)
            event -= 1

    return make


def building(world: World, out: Path, *options: object) -> list[object]:
    given = ["--valid", 0.2, "--shard-tokens", 700]
    return [
        "corpus",
        "build",
        world / "text" / "text.txt",
        "--tokenizer",
        world / "tok",
        "--out",
        out,
        *given,
        *options,
    ]


def pretraining(kind: str, *options: object, steps: int = 16) -> Callable[[World, Path], list[object]]:
    def argv(world: World, out: Path) -> list[object]:
        what = ["--from", world / "bert"] if kind == "from" else ["electra-tiny"]
        sizes = ["--steps", steps, "--length", 24, "--batch-size", 16]
        often = ["log_every=3", "eval_every=5", "save_every=3"]
        settings = [word for setting in often for word in ("--set", f"train.{setting}")]
        more = ["--set", "corpus.eval_rows=16", "--set", "model.dropout=0.1", *CPU]
        return ["pretrain", *what, "--corpus", world / "corpus", "--out", out, "--resume", *sizes, *settings, *more,
                *options]  # fmt: skip

    return argv


def staged(world: World, out: Path) -> list[object]:
    """A run of three stages, the second of longer rows, from a mixture of two corpora."""
    often = ["log_every=3", "eval_every=12", "save_every=3"]
    settings = [word for setting in often for word in ("--set", f"train.{setting}")]
    mixture = [
        word for name, share in (("corpus", 0.7), ("other", 0.3)) for word in ("--corpus", f"{world / name}:{share}")
    ]
    return ["pretrain", "electra-tiny", *mixture, "--stages", world / "stages" / "stages.toml", "--out", out,
            "--resume", *settings, "--set", "corpus.eval_rows=16", "--set", "model.dropout=0.1", *CPU]  # fmt: skip


def _make_stages(world: World, path: Path) -> None:
    stages = [("many-masks", 24, "objective.masking.rate = 0.3\ncorpus.length = 24\ntrain.batch_size = 16")]
    stages += [("longer", 18, "corpus.length = 32\ntrain.batch_size = 8\noptimizer.schedule = 'constant'")]
    stages += [("decay", 18, "corpus.length = 24\ntrain.batch_size = 16\noptimizer.schedule = '1-sqrt'")]
    path.mkdir()
    text = "".join(f"[[stage]]\nname = '{name}'\nsteps = {steps}\n{more}\n\n" for name, steps, more in stages)
    (path / "stages.toml").write_text(text)


def annotating(world: World, out: Path) -> list[object]:
    options = ["--detector", "lexical", "--length", 24, "--batch-size", 16]
    return ["corpus", "annotate", world / "corpus", "--out", out, *options]


def finetuning(*options: object) -> Callable[[World, Path], list[object]]:
    def argv(world: World, out: Path) -> list[object]:
        where = ["--task", "classification", "--data", world / "reviews", "--out", out, "--seed", 1, "--resume"]
        small = ["--length", 16, "--epochs", 4, "--batch-size", 16, "--set", "train.save_every=3", *CPU]
        return ["finetune", world / "bert", *where, *small, *options]

    return argv


def attacking(world: World, out: Path) -> list[object]:
    return ["attack", out / "reviews", "--attack", "typos", "--save", out / "set.jsonl", "--out", out / "figures.json"]


def reproducing(workers: int) -> Callable[[World, Path], list[object]]:
    def argv(world: World, out: Path) -> list[object]:
        settings = ("num_words=5", "steps=2", "eval_rows=8", "length=20")
        small = [word for setting in settings for word in ("--set", setting)]
        arms = ["--scale", "tiny", "--seeds", 2, "--arms", "marginal,baseline"]
        return ["reproduce", "planted", "--corpus", world / "corpus", "--out", out, "--workers", workers, *arms, *small]

    return argv


CORRECTED = ("--hard-correction", "lexical", "--soft-regularization", "token", "--wordnet", WORDNET)
CLINE = (
    "--objective",
    "cline",
    "--set",
    "model.architecture=bert",
    "--set",
    "cline.views.senses=first",
    "--wordnet",
    WORDNET,
)
RESUMABLE = {
    verb.name: verb
    for verb in (
        Verb("pretrain mlm", pretraining("mlm", "--objective", "mlm", "--set", "model.architecture=bert")),
        Verb("pretrain electra", pretraining("electra")),
        Verb("pretrain corrected", pretraining("corrected", *CORRECTED)),
        Verb("pretrain cline", pretraining("cline", *CLINE)),
        Verb("pretrain --from", pretraining("from", "--objective", "mlm")),
        Verb("pretrain --stages", staged),
        Verb("corpus build", lambda world, out: building(world, out, "--tag")),
        Verb("corpus build --workers 2", lambda world, out: building(world, out, "--workers", 2)),
        Verb("corpus build --part", lambda world, out: building(world, out, "--part", "1/1")),
        Verb("corpus finish", lambda world, out: ["corpus", "finish", out], start_from="part"),
        Verb("corpus annotate", annotating),
        Verb("finetune --select best", finetuning("--select", "best", "--set", "evals_per_epoch=2")),
        Verb("finetune freelb", finetuning("--adversarial", "freelb", "--set", "dropout=0.1")),
        Verb("reproduce planted", reproducing(1)),
        Verb("reproduce planted --workers 2", reproducing(2), cost=4),
        Verb("attack", attacking, start_from="ft"),
    )
}
"""Verbs that go on where they were."""


def _writing(*words: object, file: str = "") -> Callable[[World, Path], list[object]]:
    """A command of the world's things (``@bert``) that writes a file in its folder, or the folder itself."""

    def argv(world: World, out: Path) -> list[object]:
        given = [_in(world, word) if isinstance(word, str) else word for word in words]
        return [*given, out / file if file else out]

    return argv


def _in(world: World, word: str) -> str:
    """``@name`` is a thing of the world."""
    before, sign, place = word.partition("@")
    return f"{before}{world / Path(place).parts[0]}{place[len(Path(place).parts[0]) :]}" if sign else word


SWORDS = WORDNET.parent / "swords"
AT_ONCE = {
    verb.name: verb
    for verb in (
        Verb("tokenizer train", _writing("tokenizer", "train", "@text/text.txt", "--vocab-size", 120, "--out")),
        Verb("tokenizer extend", _writing("tokenizer", "extend", "@tok", "--words", "@text/words.txt", "--out")),
        Verb("lexicon build", _writing("lexicon", "build", "--tokenizer", "@tok", "--out", file="t.safetensors")),
        Verb(
            "detect prototypes",
            _writing("detect", "prototypes", "--encoder", "@bert", "--corpus", "@corpus", "--min-count", 2, "--length",
                     24, "--out", file="p.safetensors"),
        ),
        Verb(
            "detect calibrate",
            _writing("detect", "calibrate", "--data", SWORDS, "--detector", "prototypes:@protos/p.safetensors",
                     "--folds", 2, "--best-f1", "--out", file="c.json"),
        ),
        Verb("export hf", _writing("export", "@bert", "--out")),
        Verb("export sentence-transformers", _writing("export", "@bert", "--format", "sentence-transformers", "--out")),
        Verb("report of a run", _writing("report", "@bert", "--out", file="page.html")),
        Verb("report of results", _writing("report", "@ft", "--format", "markdown", "--out", file="table.md")),
        Verb("compare", _writing("compare", "@ft", "@attacked", "--format", "csv", "--out", file="table.csv")),
        Verb("evaluate", _writing("evaluate", "@bert", "--corpus", "@corpus", "--out", file="found.json")),
        Verb("inspect", _writing("inspect", "@bert", "We see a big film .", "--html", file="page.html")),
    )
}  # fmt: skip
"""Verbs that write what they make in one go."""
VERBS = RESUMABLE | AT_ONCE

MAKERS: dict[str, Callable[[World, Path], None]] = {
    "text": _make_text,
    "reviews": _make_reviews,
    "given": _make_given,
    "tok": _make(AT_ONCE["tokenizer train"].argv),
    "corpus": _make(lambda world, out: building(world, out, "--tag")),
    "other": _make(lambda world, out: building(world, out, "--seed", 1)),
    "part": _make(lambda world, out: building(world, out, "--part", "1/1")),
    "stages": _make_stages,
    "bert": _make(pretraining("bert", "--objective", "mlm", "--set", "model.architecture=bert")),
    "indexed": _make_indexed,
    "continued": _make(pretraining("from", "--objective", "mlm", steps=2)),
    "sentences": _make(AT_ONCE["export sentence-transformers"].argv),
    "judged": _make(
        _writing(
            "evaluate",
            "@bert",
            "--task",
            "false-negatives",
            "--corpus",
            "@corpus",
            "--length",
            24,
            "--out",
            file="false-negatives.json",
        )
    ),
    "about": _make_about,
    "noted": _make_noted,
    "notes": _make(annotating),
    "planted": _make(reproducing(1)),
    "protos": _make(AT_ONCE["detect prototypes"].argv),
    "calibrated": _make(AT_ONCE["detect calibrate"].argv),
    "ft": _make(finetuning("--set", "train.save_every=0")),
    "attacked": _make_attacked,
    "tables": _make_tables,
    "building": _leave_unfinished("corpus build", "build.json"),
    "annotating": _leave_unfinished("corpus annotate", "annotating.json"),
}
"""What a world holds, with how it is made."""
