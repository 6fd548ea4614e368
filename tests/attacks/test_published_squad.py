"""Jia and Liang's adversarial SQuAD: several versions of a question, of which the worst counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trueneg.attacks.published import read_published_squad
from trueneg.attacks.scores import squad_predictions
from trueneg.errors import TaskError

FIRST, SECOND = "56be4db0acb8001400a502ec", "56be4db0acb8001400a502ed"
CONTEXT = "Denver met Carolina in 2016."


def paragraph(key: str, added: str = "") -> dict[str, Any]:
    context = CONTEXT + added
    answers = [{"text": "Carolina", "answer_start": context.index("Carolina")}]
    return {"context": context, "qas": [{"id": key, "question": "Who did Denver meet?", "answers": answers}]}


def write(path: Path, *paragraphs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"data": [{"title": "Super_Bowl_50", "paragraphs": list(paragraphs)}]}))
    return path


def test_versions_stand_with_their_question_and_one_without_counts_as_it_is(tmp_path: Path) -> None:
    path = write(
        tmp_path / "addsent.json",
        paragraph(FIRST),
        paragraph(f"{FIRST}-high-conf-turk0", " Boston met Jeff Dean in 1996."),
        paragraph(SECOND),
        paragraph(f"{FIRST}-high-conf-turk1", " Boston met Jeff Dean."),
    )
    first, again, alone = read_published_squad(path)
    assert [example.original.key for example in (first, again, alone)] == [FIRST, FIRST, SECOND]
    assert first.original == again.original and first.original.context == CONTEXT
    assert first.adversarial.context.endswith("in 1996.") and again.adversarial.context.endswith("Jeff Dean.")
    assert (first.adversarial.key, first.adversarial.group) == (FIRST, first.original.group), "one group in intervals"
    assert first.adversarial.answers == first.original.answers
    assert [example.notes.get("version") for example in (first, again, alone)] == [
        "high-conf-turk0",
        "high-conf-turk1",
        None,
    ]
    assert (first.outcome, alone.outcome) == ("changed", "failed") and alone.adversarial == alone.original

    def predicted(key: str, f1: float) -> dict[str, Any]:
        return {"key": key, "group": "g", "predicted": str(f1), "exact": int(f1 == 1), "f1": f1}

    before = [predicted(FIRST, 1.0), predicted(FIRST, 1.0), predicted(SECOND, 0.0)]
    after = [predicted(FIRST, 1.0), predicted(FIRST, 0.5), predicted(SECOND, 0.0)]
    worst, same = squad_predictions([first, again, alone], before, after)
    assert (worst["key"], worst["f1"], worst["exact"], worst["f1_before"]) == (FIRST, 0.5, 0, 1.0)
    assert (same["key"], same["f1"], same["outcome"]) == (SECOND, 0.0, "failed")
    (turned, _) = squad_predictions([first, again, alone], before, [after[1], after[0], after[2]])
    assert turned["f1"] == 0.5


@pytest.mark.parametrize(
    ("paragraphs", "named"),
    [
        ([paragraph(FIRST)], "no adversarial SQuAD"),
        ([paragraph(SECOND), paragraph(f"{FIRST}-high-conf-turk0")], f"{FIRST}-high-conf-turk0"),
        ([paragraph(FIRST), paragraph(FIRST)], "make ids unique"),
    ],
)
def test_what_is_no_adversarial_squad_is_refused(paragraphs: list[dict[str, Any]], named: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=named) as caught:
        read_published_squad(write(tmp_path / "none.json", *paragraphs))
    assert "none.json" in str(caught.value)
