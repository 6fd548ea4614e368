"""Every ``trueneg …`` that the documentation, a docstring or a message names is one that the program takes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from trueneg.cli.main import app
from trueneg.config.codec import full_name
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError
from trueneg.recipes.planted_arms import PlantedConfig

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
SOURCES = sorted((ROOT / "src").rglob("*.py"))

PROGRAM: Any = typer.main.get_command(app)
SETTINGS = {"pretrain": PretrainConfig, "finetune": FinetuneConfig, "planted": PlantedConfig}
"""Whose options ``--set`` of a verb, or of an experiment, names."""

LEFT_OUT = "…"
"""Stands for what a command has besides: what it needs may be there."""

START = r"(?:[A-Z_]+=\S+\s)*(?:torchrun [^`\n]*?-m )?trueneg\s"
FENCED = re.compile(r"^ *```\w*[^\n`]*\n(.*?)^ *```\s*$", re.S | re.M)
LINE = re.compile(rf"^\s*({START}.*)$", re.M)
SPAN = re.compile(rf"(`+)({START}[^`]+)\1")
QUOTED = re.compile(rf"'({START}[^']+)'|  ({START}[a-z][^,;]*?)(?:  | ,|$)")


def in_markdown(text: str) -> Iterator[str]:
    """Commands in blocks, one a line, and in spans, those in tables among them."""
    for block in FENCED.finditer(text):
        joined = re.sub(r"\\\n\s*", "", block[1])
        yield from (found[1] for found in LINE.finditer(joined))
    for found in SPAN.finditer(FENCED.sub("", text)):
        yield " ".join(found[2].replace(r"\|", "|").split())


def in_source(text: str) -> Iterator[str]:
    """Commands in docstrings, help and messages; what an f-string fills in is ``X``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            whole = node.value
        else:
            continue
        for found in [*SPAN.finditer(whole), *QUOTED.finditer(whole)]:
            yield " ".join(next(filter(None, reversed(found.groups()))).split())


def faults(command: str) -> list[str]:
    """What the program would say against a command; nothing is run.

    Words in capitals stand for whatever belongs there, ``…`` for what is left out. ``[…]`` encloses what may be left
    out, ``a|b`` what may be chosen. A verb by itself is its name.
    """
    words = shlex.split(re.sub(r"(?<= )\[(.*?)\](?= |$)", _optional, command), comments=True)
    words = words[words.index("trueneg") + 1 :]
    is_whole = not any(LEFT_OUT in word for word in words)
    words = [word for at, word in enumerate(words) if word != LEFT_OUT or words[at - 1].startswith("-")]
    if words[0] == "evaluate":  # the one verb whose kind may be left out
        words[1:] = PROGRAM.commands["evaluate"].completed(words[1:])
    verb = PROGRAM
    while (verbs := getattr(verb, "commands", {})) and words and not words[0].startswith("-"):
        name, *words = words
        if is_placeholder(name):
            return []
        if name not in verbs:
            return [f"no verb '{name}'"]
        verb = verbs[name]
    if not words or "--help" in words:
        return []
    problems = _unknown_settings(SETTINGS.get(verb.name) or SETTINGS.get(words[0]), words)
    problem = _refusal(verb, words)
    if problem and any(map(is_placeholder, words)):
        # What stands for a number is none.
        problem = _refusal(verb, ["1" if is_placeholder(word) else word for word in words])
    if problem.startswith("Missing") and not is_whole:
        problem = ""
    return problems + [problem] * bool(problem)


def _optional(found: re.Match[str]) -> str:
    return found[1] if found[1].startswith("-") else ""


def is_placeholder(word: str) -> bool:
    """Whether a word stands for others."""
    return LEFT_OUT in word or re.search(r"\b[A-Z][A-Z_]*\b", word) is not None


def _refusal(verb: Any, words: list[str]) -> str:
    """Why a verb would not take its arguments; empty if it would."""
    try:
        verb.make_context(verb.name, list(words))
    except Exception as error:  # typer may come with a click of its own, whose errors have another class
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return ""


def _unknown_settings(kind: type[Any] | None, words: list[str]) -> list[str]:
    problems = []
    for option, setting in pairwise(words):
        # stages.NAME.KEY is an option of a stage, of which two are its own.
        name = re.sub(r"^stages\.[\w-]+\.(?:(?:steps|keep)$)?", "", setting.partition("=")[0])
        if name and kind is not None and option == "--set" and not is_placeholder(name):
            try:
                full_name(kind(), name)
            except ConfigError as error:
                problems.append(str(error))
    return problems


SAID = {
    **{str(page.relative_to(ROOT)): list(in_markdown(page.read_text(encoding="utf-8"))) for page in PAGES},
    **{str(path.relative_to(ROOT)): list(in_source(path.read_text(encoding="utf-8"))) for path in SOURCES},
}


@pytest.mark.parametrize("place", [place for place, said in SAID.items() if said])
def test_the_program_takes_what_is_said(place: str) -> None:
    assert {said: found for said in SAID[place] if (found := faults(said))} == {}


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("trueneg pretain electra-mini", "pretain"),
        ("trueneg corpus make x", "make"),
        ("trueneg compare a b --metrc accuracy", "--metrc"),
        ("trueneg corpus build text.txt --tokenizer tok/", "--out"),
        ("trueneg pretrain electra-mini --steps many --seed N --out RUN", "--steps"),
        ("trueneg lexicon show", ""),
        ("trueneg inspect RUN one two three", "three"),
        ("trueneg pretrain electra-mini --out runs/x --set objective.corection.use=marginal", "corection"),
        ("trueneg pretrain electra-mini --out runs/x --set stages.decay.steps=5 --set stages.decay.rat=0.1", "'rat'"),
        ("OMP_NUM_THREADS=1 torchrun -m trueneg pretrain … --stepz 5", "--stepz"),
    ],
)
def test_what_the_program_would_not_take_is_found(command: str, fault: str) -> None:
    found = faults(command)
    assert (not found) if not fault else fault in " ".join(found)


MARKDOWN = r"""
Inline `trueneg doctor`, `OMP_NUM_THREADS=1 trueneg
bench overhead`, and not trueneg itself.

| cell | `trueneg list presets\|tasks` |

```text
trueneg report A \
    B
echo trueneg
```
"""


def test_commands_are_found_wherever_they_stand() -> None:
    assert list(in_markdown(MARKDOWN)) == [
        "trueneg report A B",
        "trueneg doctor",
        "OMP_NUM_THREADS=1 trueneg bench overhead",
        "trueneg list presets|tasks",
    ]
    source = (
        'def f(x):\n    "Example: `trueneg doctor`"\n    raise E(f"say \'trueneg export {x}\', or run  trueneg demo")'
    )
    assert set(in_source(source)) == {"trueneg doctor", "trueneg export X", "trueneg demo"}


def test_every_verb_has_its_line_in_the_list() -> None:
    page = (ROOT / "docs/verbs.md").read_text(encoding="utf-8")
    table = page[page.index("| verb |") :].partition("\n\n")[0]
    rows = " ".join(line.split(" | ")[0] for line in table.splitlines()[2:])
    listed = re.findall(r"`([^`]+)`", rows)
    assert {name: found for name in listed if (found := faults(f"trueneg {name} …"))} == {}
    verbs = set(_verbs(PROGRAM))
    assert {verb for verb in verbs if not any(f"{name} ".startswith(f"{verb} ") for name in listed)} == set()


def _verbs(group: Any, before: str = "") -> Iterator[str]:
    for name, verb in group.commands.items():
        if not verb.hidden:
            yield from _verbs(verb, f"{before}{name} ") if hasattr(verb, "commands") else [before + name]
