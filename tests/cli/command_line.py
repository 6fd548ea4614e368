"""The program as a user runs it: in this process for speed, in another one where that makes a difference."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from trueneg.cli.main import main

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def trueneg(*arguments: object) -> Said:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["trueneg", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as error:
            code = error.code
    return Said(int(code or 0), out.getvalue(), err.getvalue())


def works(*arguments: object) -> Said:
    """Run a command that must succeed."""
    said = trueneg(*arguments)
    assert said.code == 0, said.err
    return said


def fails(*arguments: object) -> str:
    """Run a command that must fail through its user's fault; return the one line it says."""
    said = trueneg(*arguments)
    assert said.code == 1, (said.code, said.err)
    assert said.out == ""
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said.err.splitlines()[-1] == errors[0]
    assert "Traceback" not in said.err
    return errors[0]


def verbs(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb of the program but those of former versions, with the words that call it."""
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from verbs(command, (*words, name))
        elif not command.hidden:
            yield (*words, name), command


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command in another process."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def in_process(*arguments: object, **environment: str) -> Said:
    """Run ``python ARGUMENTS`` to its end."""
    process = start(*arguments, env=os.environ | environment)
    out, err = process.communicate(timeout=120)
    return Said(process.returncode, out, err)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


@dataclass(frozen=True)
class World:
    """What the fixtures made, and what was said meanwhile."""

    text: Path
    tokenizer: Path
    corpus: Path
    run: Path
    reviews: Path
    """A table of labelled texts."""
    said: dict[str, Said]


def write_text(path: Path, num_documents: int, seed: int = 0) -> Path:
    choose = random.Random(seed)

    def sentence() -> str:
        return choose.choice(SENTENCES).format(**{kind: choose.choice(words) for kind, words in WORDS.items()})

    documents = [" ".join(sentence() for _ in range(choose.randint(2, 5))) for _ in range(num_documents)]
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


def pretrain_options(world: World, out: Path) -> list[object]:
    return ["pretrain", "electra-tiny", "--corpus", world.corpus, "--out", out, "--steps", 6, "--length", 24]


def finetuned(world: World, out: Path) -> Path:
    """A model that was fine-tuned for two steps."""
    works(
        *("finetune", world.run, "--task", "classification", "--data", world.reviews, "--seed", 1, "--quiet"),
        *("--out", out / "results", "--length", 16, "--set", "train.steps=2"),
    )
    return out / "results" / world.reviews.stem


def similar(out: Path) -> Path:
    """Pairs of sentences with their similarity, as STS-B has them."""
    rows = [f"{n}\tthe large film\tthe {('big', 'small', 'large')[n % 3]} film\t{n % 5}.0" for n in range(15)]
    (out / "dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    return out
