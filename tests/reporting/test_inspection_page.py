"""The page of an inspection, and names that fit into it."""

from __future__ import annotations

from typing import Any

import pytest
from page_reader import Page

from trueneg.reporting.inspection import standing, write_inspection
from trueneg.reporting.tables import short_names


def predicted(text: str, probability: float, *scores: float | None, is_correctable: bool = True) -> dict[str, Any]:
    verdicts = [{"score": score, "is_accepted": (score or 0) >= 0.5} for score in scores]
    return {
        "text": text,
        "pieces": [text],
        "probability": probability,
        "is_gold": not scores,
        "is_correctable": is_correctable,
        "verdicts": verdicts,
    }


def word(start: int, gold: str, *predictions: dict[str, Any], **others: Any) -> dict[str, Any]:
    fields = {"pieces": [gold], "gold_probability": 0.125, "gold_rank": 1234, "synonyms": ["chief"], "note": ""}
    return {"start": start, "end": start + len(gold), "gold": gold, "predictions": predictions} | fields | others


TEXT = "whose primary <b>function</b> was"
WORDS = [
    word(0, "whose", predicted("the", 0.5, 0.9, is_correctable=False), synonyms=None, note="a stop word"),
    word(6, "primary", predicted("main", 0.31, 0.75), predicted("##s", 0.0000021, None)),
    word(
        17, "function", predicted("<i>", 0.2, 0.25), predicted("function", 0.1), gold_rank=None, pieces=["func", "tion"]
    ),
    word(30, "was", predicted("was", 0.9), synonyms=[]),
]
SUMMARY = {
    "checkpoint": "runs/hc",
    "text": TEXT,
    "detectors": ["contextual:/models/minilm/model@0.5"],
    "thresholds": [0.5],
    "words": WORDS,
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_inspection(SUMMARY, tmp_path_factory.mktemp("new") / "folder" / "page.html").read_text())


def test_the_page_shows_words_predictions_verdicts_and_synonyms(page: Page) -> None:
    for shown in (TEXT, "main", "31.0%", "2.1e-06", "✓ 0.75", "✗ 0.25", "(✓ 0.90)", "no word", "1,234", "a stop word"):
        assert shown in page.words, shown
    assert "in the vocabulary: chief" in page.words
    assert "in the vocabulary: none" in page.words
    assert "pieces func tion" in page.words
    assert "Predictions of runs/hc" in page.words
    assert "contextual:minilm/model@0.5" in page.words and "/models" not in page.words


def test_text_stays_text_and_nothing_is_fetched(page: Page) -> None:
    assert not set(page.tags) & {"script", "link", "img", "b", "i"}
    words = [f"word-{number}" for number in range(1, 5)]
    assert page.links == [f"#{word}" for word in words]
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == words


def test_the_overview_marks_what_training_makes_of_each_word(page: Page) -> None:
    marks = [attrs["class"] for tag, attrs in page.elements if tag == "a"]
    assert marks == [f"word {standing(word)}" for word in WORDS]
    assert [standing(word) for word in WORDS] == ["wrong", "accepted", "wrong", "right"]


def test_names_are_shortened_where_they_stay_distinct() -> None:
    long = ["contextual:/a/b/enc[layer=4]@0.62 & !antonym", "neighbours:vectors/glove.txt", "teacher:owner/bert"]
    short = ["contextual:b/enc[layer=4]@0.62 & !antonym", "neighbours:glove.txt", "teacher:owner/bert"]
    assert list(short_names(long).values()) == ["contextual:b/enc[layer=4]@0.62 & !antonym", *short[1:]]
    same = ["neighbours:a/glove.txt", "neighbours:b/glove.txt"]
    assert list(short_names(same).values()) == same
