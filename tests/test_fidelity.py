"""docs/fidelity.md names every item of both papers once, with a verdict, and tests and options that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.objective_options import TripletConfig
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/fidelity.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([AB]\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.M)
TEST = re.compile(r"`([\w/.]*)::(test_\w+)`")
SETTING = re.compile(r"`([a-z_.]+=[^ `]+)`")
VERDICTS = ("as in the paper", "ours by default", "differs: ")


def missing_tests(text: str) -> list[str]:
    """Tests that a text names, the file left out where it is that of the one before, and that do not exist."""
    file, missing = "", []
    for found in TEST.finditer(text):
        file = found[1] or file
        if found[2] not in functions_of(ROOT / "tests" / file):
            missing.append(f"{file}::{found[2]}")
    return missing


@cache
def functions_of(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def is_setting(setting: str) -> bool:
    """Whether some verb takes it."""
    for config in (PretrainConfig(), FinetuneConfig(), TripletConfig()):
        try:
            override(config, [setting])
        except ConfigError:
            continue
        return True
    return False


def test_every_item_has_its_row() -> None:
    expected = [f"{paper}{number + 1}" for paper, items in (("A", 48), ("B", 44)) for number in range(items)]
    assert [row[1] for row in ROW.finditer(PAGE)] == expected
    assert len(re.findall(r"^\| [AB]\d+ ", PAGE, re.M)) == len(expected)


def test_every_verdict_is_one_of_three_and_what_is_ours_names_its_option() -> None:
    verdicts = {row[1]: row[3] for row in ROW.finditer(PAGE)}
    assert not {name: verdict for name, verdict in verdicts.items() if not verdict.startswith(VERDICTS)}
    without = {name for name, verdict in verdicts.items() if verdict.startswith(VERDICTS[1]) and "`" not in verdict}
    assert without <= {"B24"}, "where the contrast sets lie is no option"
    differ = {name for name, verdict in verdicts.items() if verdict.startswith(VERDICTS[2])}
    assert set(re.findall(r"[AB]\d+", PAGE.partition("## What differs")[2])) == differ


def test_every_row_says_how_it_was_checked_and_every_test_is_there() -> None:
    rows = {row[1]: row[4] for row in ROW.finditer(PAGE)}
    assert not [name for name, how in rows.items() if not re.search(r"`|\]\(|[AB]\d+|the same", how)]
    assert len(TEST.findall(PAGE)) > 80
    assert missing_tests(PAGE) == []


def test_every_option_is_taken() -> None:
    settings = SETTING.findall(PAGE)
    assert len(settings) > 20
    assert [setting for setting in settings if not is_setting(setting)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`test_fidelity.py::test_every_option_is_taken`, `::test_nothing`", ["test_fidelity.py::test_nothing"]),
        ("`nowhere.py::test_x`", ["nowhere.py::test_x"]),
    ],
)
def test_a_test_that_is_not_there_is_found(text: str, missing: list[str]) -> None:
    assert missing_tests(text) == missing
    assert not is_setting("cline.original=cleen") and is_setting("cline.original=clean")
