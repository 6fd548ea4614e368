"""The public API: typed for those who check, with the command line's defaults, in Python's words."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import trueneg
from trueneg.cli import attack, compare, corpus, evaluate_masked_lm, lexicon, runs, tokenizer
from trueneg.errors import CheckpointError, ConfigError

ROOT = Path(__file__).parents[1]
Verb = Callable[..., Any]
main = importlib.import_module("trueneg.cli.main")


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    tree = ast.parse(inspect.getsource(trueneg))
    seen = {
        alias.asname: f"{node.module}:{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("trueneg.")
        for alias in node.names
        if alias.asname  # what is imported for type checkers alone
    }
    assert seen == trueneg._PUBLIC
    assert sorted(["__version__", *seen]) == sorted(trueneg.__all__) == sorted(dir(trueneg))
    assert all(getattr(trueneg, name) is not None for name in trueneg.__all__)
    with pytest.raises(AttributeError, match="pretrian"):
        trueneg.pretrian  # type: ignore[attr-defined]  # noqa: B018


RIGHT = """
import trueneg

config = trueneg.configure("electra-mini", settings=["train.steps=10"])
print(trueneg.pretrain(config, "runs/x", resume=True).step + 1)
"""
WRONG = [
    ("trueneg.pretrian(config, 'runs/x')", "attr-defined"),
    ("trueneg.pretrain(config, 'runs/x', nonsense=3)", "call-arg"),
    ("trueneg.pretrain(config, 5)", "arg-type"),
    ("trueneg.evaluate('runs/x', 'corpus').reading", "attr-defined"),
]


@pytest.mark.slow
def test_a_type_checker_finds_wrong_calls_and_only_these(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(RIGHT + "".join(f"{line}\n" for line, _ in WRONG))
    # In the repository's root, whose cache of checked modules is warm after `make lint`.
    done = subprocess.run([sys.executable, "-m", "mypy", str(program)], cwd=ROOT, capture_output=True, text=True)
    first = RIGHT.count("\n") + 1
    errors = [line.removeprefix(str(program)) for line in done.stdout.splitlines() if ": error: " in line]
    found = [(int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]")) for line in errors]
    assert found == [(first + number, code) for number, (_, code) in enumerate(WRONG)], done.stdout


NAMES = {"num_rows": "rows", "detectors": "detector"}
CALLS: list[tuple[Verb, Verb]] = [
    (evaluate_masked_lm.masked_lm, trueneg.evaluate),
    (runs.bench, trueneg.bench_overhead),
    (runs.bench, trueneg.bench_step),
    (runs.pretrain, trueneg.configure),
    (runs.pretrain, trueneg.pretrain),
    (corpus.build, trueneg.build_corpus),
    (corpus.info, trueneg.describe_corpus),
    (compare.compare, trueneg.compare),
    (attack.attack, trueneg.run_attacks),
    (lexicon.fetch, trueneg.fetch_wordnet),
    (lexicon.build, trueneg.cached_table),
    (main.doctor, trueneg.diagnose),
    (main.demo, trueneg.run_demo),
    (tokenizer.train, trueneg.train_tokenizer),
]


def defaults(function: Verb) -> Mapping[str, Any]:
    """Defaults by name; what stands for "nothing said" is None, and paths are texts."""
    found = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    return {
        name: str(value) if isinstance(value, Path) else None if value in ("", (), 0) else value
        for name, value in found.items()
        if value is not inspect.Parameter.empty
    }


@pytest.mark.parametrize(("verb", "function"), CALLS, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_calls_have_the_defaults_of_their_verbs(verb: Verb, function: Verb) -> None:
    of_verb, of_function = defaults(verb), defaults(function)
    same = [(name, NAMES.get(name, name)) for name in of_function if NAMES.get(name, name) in of_verb]
    assert same
    differing = {name for name, theirs in same if of_function[name] != of_verb[theirs]}
    # The verb lists detectors, lexical if there are none; its switch can only say yes, and None is as the run had it.
    assert differing <= ({"detector", "pack"} if verb is evaluate_masked_lm.masked_lm else set())


def test_an_error_says_in_a_traceback_what_options_are_in_python() -> None:
    error = CheckpointError("'x' already holds a run: continue it with --resume, or give another --out")
    assert "Python" not in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "resume=True for --resume" in shown and "out=… for --out" in shown
    with pytest.raises(ConfigError) as raised:
        trueneg.configure("electra-mini", settings=["correction.use=marginal"])
    assert any("objective.correction.detector=" in note for note in raised.value.__notes__)
    assert not hasattr(ConfigError("unknown option 'x'"), "__notes__")
