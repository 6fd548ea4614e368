"""What holds for every verb: help with an example, one JSON object, quiet, exit codes, few imports, launchers."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import typer
from command_line import (
    WORDNET,
    World,
    contents,
    finetuned,
    in_process,
    pretrain_options,
    similar,
    start,
    trueneg,
    verbs,
    works,
)

from fake_hub import running_hub
from made_up_results import write_result
from trueneg import __version__
from trueneg.cli.main import app
from trueneg.objectives import OBJECTIVES
from trueneg.runs import demo

Arguments = list[object]
program = importlib.import_module("trueneg.cli.main")
ANSWERS = {"gold": [0, 1, 1, 0], "predicted": [0, 1, 0, 0]}


VERBS = dict(verbs(typer.main.get_command(app)))

JUDGED: Arguments = ["--data", WORDNET.parent / "swords" / "tiny.json", "--detector", "lexical", "--folds", 5]


def adversaries(out: Path) -> Path:
    path = out / "adversaries.tsv"
    path.write_text("original\tadversarial\tlabel\nthe happy film\tthe glad film\t0\nthe small film\tthe film\t1\n")
    return path


def prototypes_of(world: World, out: Path) -> Path:
    """Prototypes of the world's encoder."""
    from trueneg.corpus.store import Corpus
    from trueneg.detectors.scorers.prototypes import learn_prototypes

    learn_prototypes(str(world.run), Corpus.open(world.corpus), min_count=1).save(out / "p.safetensors")
    return out / "p.safetensors"


def contrast_set(world: World, out: Path) -> Arguments:
    """A model of snli, and a contrast set of two originals."""
    pairs = [("the film", "a film", "entailment"), ("the town", "a beast", "neutral"), ("we see", "I", "contradiction")]
    names = ("sentence1", "sentence2", "gold_label")
    for split in ("train", "dev", "test"):
        lines = [json.dumps({**dict(zip(names, pair, strict=True)), "pairID": str(n)}) for n, pair in enumerate(pairs)]
        (out / f"snli_{split}.jsonl").write_text("\n".join(lines) + "\n")
    for kind, times in (("original", 1), ("revised_premise", 2), ("revised_hypothesis", 2)):
        rows = [row for row in pairs[:2] for _ in range(times)]
        folder = out / "counterfactually-augmented-data" / "NLI" / kind
        folder.mkdir(parents=True)
        (folder / "test.tsv").write_text("\n".join("\t".join(row) for row in [names, *rows]) + "\n")
    works(
        *("finetune", world.run, "--task", "snli", "--data", out, "--seed", 1, "--quiet", "--out", out / "results"),
        *("--length", 16, "--set", "train.steps=2"),
    )
    return [out / "results" / "snli", "--data", out]


def corpus_in_parts(world: World, out: Path) -> Arguments:
    works("corpus", "build", world.text, "--tokenizer", world.tokenizer, "--out", out / "parts", "--part", "1/1")
    return [out / "parts"]


CALLS: dict[tuple[str, ...], Callable[[World, Path], Arguments]] = {
    ("doctor",): lambda world, out: [out],
    ("list",): lambda world, out: ["presets"],
    ("demo",): lambda world, out: [
        *("--out", out / "demo", "--wordnet", WORDNET, "--set", "train.steps=1", "--set", "corpus.length=16"),
        *("--set", "train.precision=fp32"),
    ],
    ("tokenizer", "train"): lambda world, out: [world.text, "--vocab-size", 5000, "--out", out / "tok"],
    ("tokenizer", "extend"): lambda world, out: [world.tokenizer, "--words", out / "words", "--out", out / "tok"],
    ("corpus", "build"): lambda world, out: [world.text, "--tokenizer", world.tokenizer, "--out", out / "corpus"],
    ("corpus", "finish"): corpus_in_parts,
    ("corpus", "info"): lambda world, out: [world.corpus],
    ("corpus", "annotate"): lambda world, out: [world.corpus, "--detector", "lexical", "--out", out / "notes"],
    ("lexicon", "fetch"): lambda world, out: ["--out", WORDNET],
    ("lexicon", "build"): lambda world, out: ["--tokenizer", world.tokenizer, "--out", out / "t.safetensors"],
    ("lexicon", "show"): lambda world, out: ["large", "--tokenizer", world.tokenizer],
    ("detect", "benchmark"): lambda world, out: [*JUDGED, "--out", out / "results"],
    ("detect", "calibrate"): lambda world, out: [*JUDGED, "--best-f1", "--out", out / "detector.json"],
    ("pretrain",): lambda world, out: [*pretrain_options(world, out / "run")[1:], "--set", "log_every=2"],
    ("evaluate", "masked-lm"): lambda world, out: [world.run, "--corpus", world.corpus, "--rows", 4],
    ("evaluate", "substitution"): lambda world, out: [world.run, *JUDGED[:2], "--out", out / "results"],
    ("evaluate", "task"): lambda world, out: [finetuned(world, out)],
    ("evaluate", "contrast-set"): contrast_set,
    ("evaluate", "encoder"): lambda world, out: [world.run, "--task", "sts", "--data", similar(out)],
    ("finetune",): lambda world, out: [
        *(world.run, "--task", "classification", "--data", world.reviews, "--seed", 1, "--out", out / "results"),
        *("--length", 16, "--set", "train.steps=2", "--set", "train.log_every=1"),
    ],
    ("compare",): lambda world, out: [
        *(write_result(out / name, "glue/rte", 1, ANSWERS).parents[2] for name in ("base", "hc")),
        *("--resamples", 50),
    ],
    ("attack",): lambda world, out: [finetuned(world, out), "--load", adversaries(out)],
    ("views",): lambda world, out: [
        *("The large beast will stay .", "--corpus", world.corpus, "--set", "senses=all", "-n", 2)
    ],
    ("inspect",): lambda world, out: [world.run, "The large beast will stay .", "--html", out / "page.html"],
    ("detect", "prototypes"): lambda world, out: [
        *("--encoder", world.run, "--corpus", world.corpus, "--min-count", 1, "--out", out / "p.safetensors")
    ],
    ("detect", "bigrams"): lambda world, out: ["--corpus", world.corpus, "--out", out / "b.safetensors"],
    ("detect", "distil"): lambda world, out: [
        *("--teacher", "contextual:" + str(world.run) + "@0.3", "--prototypes", prototypes_of(world, out)),
        *("--corpus", world.corpus, "--out", out / "distilled.safetensors"),
    ],
    ("reproduce",): lambda world, out: [
        *("planted", "--scale", "tiny", "--seeds", 1, "--arms", "baseline,set", "--corpus", world.corpus),
        *("--out", out / "planted", "--set", "num_words=5", "--set", "steps=2", "--set", "length=16"),
        *("--set", "eval_rows=4"),
    ],
    ("try",): lambda world, out: [
        *(
            world.text,
            "--from",
            world.run,
            "--out",
            out / "try",
            "--dry-run",
            "--set",
            "train.steps=60",
            "--set",
            "corpus.length=24",
        )
    ],
    ("report",): lambda world, out: [world.run, "--out", out / "report.html"],
    ("merge",): lambda world, out: [world.run, world.run, "--out", out / "merged"],
    ("push",): lambda world, out: [world.run, "me/encoder"],
    ("export",): lambda world, out: [world.run, "--out", out / "exported"],
    ("bench",): lambda world, out: ["--preset", "electra-tiny", "--corpus", world.corpus, "--rounds", 1],
}
"""A call of each verb that works; those that train or tokenize have something to say on the way."""


@pytest.fixture
def call(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Arguments]]:
    (tmp_path / "words").write_text("metropolitan\n")
    monkeypatch.setattr(demo, "find_encoder", lambda: world.run / "hf" / "generator")
    with monkeypatch.context() as patch, ExitStack() as stack:

        def made(verb: tuple[str, ...]) -> Arguments:
            if verb == ("push",):
                stack.enter_context(running_hub(patch))
            return [*verb, *CALLS[verb](world, tmp_path)]

        yield made


def test_every_verb_is_tried_below() -> None:
    assert VERBS.keys() == CALLS.keys()


def test_help_names_every_objective() -> None:
    (option,) = (one for one in VERBS["pretrain",].params if one.name == "objective")
    assert all(name in option.help for name in OBJECTIVES)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_has_an_example(verb: tuple[str, ...]) -> None:
    shown = works(*verb, "--help").out
    assert f"Example: trueneg {' '.join(verb)}" in " ".join(shown.split())
    assert "--json" in shown
    assert "--quiet" in shown


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_json_is_one_object_and_quiet_is_silent(verb: tuple[str, ...], call: Callable[..., Arguments]) -> None:
    said = works(*call(verb), "--json", "--quiet")
    assert said.data
    assert said.out.count("\n") == 1
    assert said.err == ""


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_results_alone_are_on_standard_output(verb: tuple[str, ...], call: Callable[..., Arguments]) -> None:
    said = works(*call(verb))
    assert said.out
    assert not any(line in said.out for line in said.err.splitlines() if line)
    speaking = {
        *["pretrain", "finetune", "demo", "bench", "reproduce", "export", "try", "push"],
        "evaluate masked-lm",
        "evaluate substitution",
        "detect benchmark",
    }
    has_progress = " ".join(verb) in speaking
    # detect distil tells how far it is where it takes seconds.
    assert bool(said.err) is has_progress or said.err.startswith(("warning: ", "asking"))


def test_without_quiet_a_warning_is_shown(world: World, tmp_path: Path) -> None:
    options = ("tokenizer", "train", world.text, "--vocab-size", 5000)
    assert works(*options, "--out", tmp_path / "loud").err.startswith("warning: ")
    assert works(*options, "--out", tmp_path / "quiet", "--quiet").err == ""


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (["pretrian"], "'pretrain'"),
        (["pretrain", "--step", "3"], "--steps"),
        (["pretrain", "--steps", "many"], "'--steps': Input should be a valid integer"),
        (["tokenizer", "train"], "Missing argument"),
        (["corpus", "biuld"], "'build'"),
        (["evaluate", "run", "--corpus", "c", "--rows", "-1"], "'--rows'"),
        (["bench", "--rounds", "0"], "'--rounds'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors(arguments: list[str], hint: str) -> None:
    said = trueneg(*arguments)
    assert said.code == 2
    assert hint in said.err
    assert said.out == ""


def test_version_and_the_module_as_a_program() -> None:
    assert in_process("-m", "trueneg", "--version").out == f"trueneg {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["list", "presets"], ["pretrain", "--help"]], ids=" ".join)
def test_light_verbs_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        f"sys.argv = ['trueneg', *{arguments!r}]; from trueneg.cli import main; main()"
    )
    said = in_process("-c", code)
    assert said.code == 0
    assert {"torch", "transformers", "datasets", "matplotlib", "numpy"} & set(said.err.split()) == set()
    assert "typer" in said.err.split()


def test_exit_codes_of_the_program(world: World) -> None:
    missing = in_process("-m", "trueneg", "list", "preset")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("error: unknown list 'preset': did you mean 'presets'?")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on_and_does(world: World, tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    options: Arguments = [*pretrain_options(world, run), "--steps", 400, "--json", "--set", "train.save_every=0"]
    process = start("-m", "trueneg", *options, "--set", "log_every=1")
    metrics = run / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    last = err.splitlines()[-1]
    assert last.startswith("stopped: saved step ")
    assert last.endswith(f"of 400 in '{run}': continue with --resume")
    again = works(*options, "--resume").data
    assert (again["reason"], again["step"]) == ("finished", 400)


def test_one_command_on_two_processes_speaks_once(world: World, tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = in_process(*launcher, "-m", "trueneg", *pretrain_options(world, tmp_path / "two"), "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["step"] == 6
    assert said.err.count("training: electra") == 1
    alone = works(*pretrain_options(world, tmp_path / "one"), "--json")
    assert alone.data["num_parameters"] == json.loads(said.out)["num_parameters"]
    assert contents(tmp_path / "one").keys() == contents(tmp_path / "two").keys()


@pytest.mark.parametrize("columns", ["40", "200"])
def test_tables_lose_nothing_at_any_width(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    entries = json.loads(works("list", "options", "--json").out)["options"]
    shown = "".join(works("list", "options").out.split())
    assert len(entries) > 50
    assert max(map(len, works("list", "options").out.splitlines())) <= int(columns)
    assert all(name in shown for name in entries)
    assert all("".join(option["about"].split()) in shown for option in entries.values())


def test_options_are_not_broken_within_a_word_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = works("list", "options").out.splitlines()
    assert set(works("list", "options", "--json").data["options"]) <= set(lines)


def test_list_alone_shows_the_lists() -> None:
    kinds = works("list", "--json").data["lists"]
    assert "presets" in kinds and all(kind in works("list").out for kind in kinds)
    assert all(works("list", kind).out for kind in kinds)


def test_ctrl_c_before_the_verb_begins_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["trueneg.cli.main"], "app", stopped)
    said = trueneg("doctor")
    assert (said.code, said.out) == (130, "")
    assert said.err.startswith("stopped: ") and "Traceback" not in said.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "arguments", "imported", "is_told"),
    [
        (Terminal, ["doctor"], "torch", True),
        (Terminal, ["doctor"], "json.tool", False),
        (Terminal, ["doctor", "-q"], "torch", False),
        (io.StringIO, ["doctor"], "torch", False),
    ],
    ids=["loads torch", "light", "quiet", "log"],
)
def test_a_terminal_is_told_that_torch_is_loaded(
    stderr: type[io.StringIO], arguments: list[str], imported: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stderr()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(sys, "argv", ["trueneg", *arguments])
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(program, "app", lambda prog_name: importlib.util.find_spec(imported))  # as an import begins
    finders = list(sys.meta_path)
    program.main()
    assert ("loading torch" in said.getvalue()) is is_told
    assert sys.meta_path == finders
