"""The report in a browser: what it shows, what can be done with it, and that hostile text stays text."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from made_up_results import write_model
from trueneg.config.codec import override, save_config
from trueneg.config.options import PretrainConfig
from trueneg.reporting.correction_rows import ROWS
from trueneg.reporting.html import write_report

HOSTILE = [
    "</script><script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    '"><svg onload="window.owned = 1">',
    "<!-- <script> ]]>",
    "\u202eright to left\u2066",
    "=HYPERLINK(1)",
    "{{ 7 * 7 }} ${1} \\u003c & &lt;",
]
GOLD = ["primary", "big", "stay", "autumn", "car", "buy", *HOSTILE]
PREDICTED = ["main", "large", "remain", "fall", "automobile", "purchase", *HOSTILE[::-1]]
PARTS = ["adjective", "adjective", "verb", "noun", "noun", "verb", *[HOSTILE[0]] * len(HOSTILE)]
Open = Callable[..., Page]
NUM = 600
NUM_PAIRS = 10  # whichever of both words was gold


def corrections() -> list[dict[str, Any]]:
    """Of few pairs of words, each many times, in sentences of their own."""
    return [
        {
            **{"gold": GOLD[n % 13], "predicted": PREDICTED[n % 13], "part_of_speech": PARTS[n % 13]},
            **{"probability": round(0.99 - n / 1000, 4), "gold_probability": 0.01, "credit": 0.5 + n % 5 / 10},
            **{"before": f"sentence {n} {HOSTILE[n % 7]}", "after": "and so on " * (n % 40)},
        }
        for n in range(NUM)
    ]


def make_run(folder: Path, seed: int, loss: float, *settings: str) -> Path:
    folder.mkdir(parents=True)
    options = [f"train.seed={seed}", "train.steps=40", *settings]
    save_config(override(PretrainConfig(preset="electra-tiny"), options), folder / "config.json")
    records = [
        {"step": step, "kind": kind, "gold_loss": loss + 1 / step, "accuracy": 0.25, "seconds": 9.0}
        for step in (10, 20, 40)
        for kind in ("train", "eval")
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    runs = [make_run(folder / f"base-{seed}", seed, 3.0 + seed / 100) for seed in (1, 2, 3)]
    better = "objective.correction.detector=lexical"
    runs += [make_run(folder / f"hc-{seed}", seed, 2.5 + seed / 90, better) for seed in (1, 2, 3)]
    found = {"readings": {"mispredicted": 0.5, "corrected": 0.1}, "num_rows": 9, "text": HOSTILE[0]}
    records = [{**found, "detector": name, "corrections": corrections()} for name in ("lexical", HOSTILE[1])]
    (runs[-1] / "false-negatives.json").write_text(json.dumps({**records[0], "records": records}))
    results = [write_model(folder / name, share) for name, share in (("plain", 0.7), (HOSTILE[1], 0.85))]
    layers = {"way": "mean", "paper_layer": 1, "chosen_layer": 1, "chosen_ties": 0.0}
    ends = {"low": 0.3, "high": 0.9, "num": 9}
    hits = [
        {"checkpoint": name, "curve": [0.4, top], "chosen": {"estimate": top, **ends}, **layers}
        for name, top in (("a", 0.5), (HOSTILE[2], 0.6))
    ]
    (folder / "hits.json").write_text(json.dumps({"triplets": hits}))
    return write_report([*runs, *results, folder / "hits.json"], folder / "report.html")


def cells(page: Page, column: str) -> list[str]:
    return page.locator(f"#corrections-table td:nth-child({column})").all_inner_texts()


def count(page: Page, wanted: str) -> None:
    page.wait_for_function("text => document.querySelector('#corrections-count').textContent === text", arg=wanted)


def test_the_first_screen_says_what_helped_and_what_is_not_known(show: Open, path: Path) -> None:
    page = show(path)
    helped = page.locator(".better").inner_text()
    assert "hc against base, held-out text" in helped and "nats" in helped
    assert f"{HOSTILE[1]} against plain, glue/rte" in helped
    assert "Hits" in page.locator("section.open").inner_text()
    forest = page.locator("figure.forest svg").first
    assert forest.is_visible() and forest.bounding_box()["y"] < 900  # type: ignore[index]
    assert page.evaluate("window.owned") is None
    assert page.locator("main img, main svg[onload], main script:not([type])").count() == 0


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_runs_off_the_screen(show: Open, path: Path, width: int) -> None:
    page = show(path, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".forest .narrow").is_visible() == (width == 400)
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure svg text')].filter(t => t.getClientRects().length)"
        ".map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) > 10  # letters that can be read


def test_corrections_are_searched_filtered_and_sorted(show: Open, path: Path) -> None:
    page = show(path)
    all_rows = 2 * NUM
    count(page, f"1–{NUM_PAIRS} of {NUM_PAIRS} chosen, of {all_rows:,}")  # each pair of words once
    page.get_by_label("Each pair of words").uncheck()
    count(page, f"1–{ROWS} of {all_rows:,}")
    shown = [float(cell) for cell in cells(page, "3")]
    assert shown == sorted(shown, reverse=True) and len(shown) == ROWS
    page.get_by_label("Search").fill("SENTENCE 517 ")
    count(page, f"1–2 of 2 chosen, of {all_rows:,}")
    page.get_by_role("combobox", name="Detector").select_option("lexical")
    count(page, f"1–1 of 1 chosen, of {all_rows:,}")
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Each pair of words").uncheck()
    page.get_by_role("combobox", name="Part of speech").select_option(label="verb")
    verbs = 2 * sum(PARTS[n % 13] == "verb" for n in range(NUM))
    count(page, f"1–{ROWS} of {verbs:,} chosen, of {all_rows:,}")
    assert set(cells(page, "1")) == {"stay", "buy"}
    page.get_by_label("Credit from").fill("0.9")
    strong = 2 * sum(PARTS[n % 13] == "verb" and n % 5 == 4 for n in range(NUM))
    count(page, f"1–{strong:,} of {strong:,} chosen, of {all_rows:,}")
    page.get_by_label("p(predicted) from").fill("2")
    count(page, f"none of {all_rows:,}: change what is asked for")


def test_on_a_phone_which_shows_no_headings_the_same_columns_sort(show: Open, path: Path) -> None:
    page = show(path, viewport={"width": 400, "height": 800})
    page.get_by_label("Each pair of words").uncheck()
    count(page, f"1–{ROWS} of {2 * NUM:,}")
    sort = page.get_by_role("combobox", name="Sort by")
    assert sort.is_visible() and not page.locator("#corrections-table th").first.is_visible()
    columns = page.locator("#corrections-table th[data-column]").evaluate_all("all => all.map(th => th.dataset.column)")
    options = sort.locator("option").evaluate_all("all => all.map(one => one.value)")
    assert sorted(options) == sorted(f"{name} {order}" for name in columns for order in ("ascending", "descending"))
    shown = "document.querySelector('#corrections-table td:nth-child(%d)').textContent"
    sort.select_option(label="p(predicted), lowest first")
    page.wait_for_function(f"{shown % 3} < 0.5")
    lowest = [float(cell) for cell in page.locator("#corrections-table td:nth-child(3)").all_text_contents()]
    assert lowest == sorted(lowest) and len(lowest) == ROWS
    sort.focus()  # and without a pointer
    page.keyboard.type("gold, Z")
    page.wait_for_function(f"{shown % 1} === 'stay'")
    page.get_by_role("button", name="Reset").click()
    count(page, f"1–{NUM_PAIRS} of {NUM_PAIRS} chosen, of {2 * NUM:,}")
    assert sort.input_value() == "probability descending"


def test_headings_and_the_form_say_the_same_order(show: Open, path: Path) -> None:
    page = show(path)
    sort, heading = page.locator("select[name=sort]"), page.locator("th[data-column=credit]")
    assert not sort.is_visible() and sort.input_value() == "probability descending"
    for order in ("descending", "ascending"):  # of numbers the highest first
        heading.get_by_role("button").click()
        assert (heading.get_attribute("aria-sort"), sort.input_value()) == (order, f"credit {order}")


def test_it_is_worked_by_keyboard(show: Open, path: Path) -> None:
    page = show(path)
    page.get_by_label("Each pair of words").focus()
    page.keyboard.press("Space")
    count(page, f"1–{ROWS} of {2 * NUM:,}")
    heading = page.locator("th[data-column=gold]")
    heading.get_by_role("button").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert set(cells(page, "1")) == {"stay"}
    page.get_by_role("button", name="Last page").focus()
    page.keyboard.press("Enter")
    count(page, f"{2 * NUM - ROWS + 1:,}–{2 * NUM:,} of {2 * NUM:,}")
    chart = page.locator("figure[data-name=curve-1]")
    chart.locator("svg").focus()
    for key in ("End", "ArrowLeft"):
        page.keyboard.press(key)
    said = chart.locator("output").inner_text()
    assert said.startswith("steps 20: base-1 3.06 · base-1 (held out) 3.06 · base-2 3.07")


def test_steps_are_read_out_as_they_are_drawn(show: Open, tmp_path: Path) -> None:
    """Precision at a recall between two points is that of the next one; past the end there is none."""
    row = {"num_items": 9, "num_targets": 3, "chance": 0.1, "is_fitted": False, "threshold_from": "own"}
    curves = {"few": ([0.5, 0.9], [0.8, 0.6]), "many": ([0.2, 0.7, 1.0], [0.9, 0.7, 0.4])}
    measured = [
        {"detector": name, "curve": {"recall": recall, "precision": precision, "threshold": recall}, "differences": {}}
        for name, (recall, precision) in curves.items()
    ]
    made = {"task": "substitution", "rows": [row | {"detector": name} for name in curves], "measured": measured}
    (tmp_path / "substitution.json").write_text(
        json.dumps({**made, "data": {}, "options": {"precision": None, "folds": 2}})
    )
    page = show(write_report([tmp_path / "substitution.json"], tmp_path / "report.html"))
    chart = page.locator("figure:has(output)")
    chart.locator("svg").focus()
    said = []
    for key in ("Home", *["ArrowRight"] * 5):
        page.keyboard.press(key)
        said.append(chart.locator("output").inner_text())
    assert said == [
        *("recall 0: few 0.8 · many 0.9", "recall 0.2: few 0.8 · many 0.9", "recall 0.5: few 0.8 · many 0.7"),
        *("recall 0.7: few 0.6 · many 0.7", "recall 0.9: few 0.6 · many 0.4", "recall 1: many 0.4"),
    ]


def test_a_pair_of_words_is_shown_once_whatever_its_case(show: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1, 3.0)
    pairs = [("Big", "large"), ("large", "big"), ("BIG", "Large"), ("big", "great")]
    told = [
        {**corrections()[0], "gold": gold, "predicted": predicted, "before": f"sentence {n}"}
        for n, (gold, predicted) in enumerate(pairs)
    ]
    found = {"readings": {"mispredicted": 0.5, "corrected": 0.1}, "corrections": told, "detector": "lexical"}
    (run / "false-negatives.json").write_text(json.dumps(found))
    page = show(write_report([run], tmp_path / "report.html"))
    count(page, "1–2 of 2 chosen, of 4")


def test_colours_follow_the_system_and_the_reader(show: Open, path: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page = show(path, color_scheme="dark")
    dark = page.evaluate(background)
    page.get_by_label("light").check()
    light = page.evaluate(background)
    page.get_by_label("dark").check()
    assert light == "rgb(255, 255, 255)" and page.evaluate(background) == dark != light
    other = show(path, color_scheme="light")
    assert other.evaluate(background) == light
    other.get_by_label("dark").check()
    assert other.evaluate(background) == dark


def test_pictures_and_tables_are_saved(show: Open, path: Path, tmp_path: Path) -> None:
    page = show(path, color_scheme="dark")

    def saved(button: Any) -> str:
        with page.expect_download() as download:
            button.click()
        download.value.save_as(tmp_path / "saved")
        return (tmp_path / "saved").read_text(encoding="utf-8")

    buttons = page.locator("figure .tools button", has_text="SVG").all()
    assert len(buttons) == page.locator("figure").count() == 4
    for button in buttons:
        picture = saved(button)
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in picture and "currentColor" not in picture and "rgb(" in picture
    curve = list(csv.DictReader(saved(page.get_by_label("CSV: save curve-1")).splitlines()))
    assert (curve[0]["name"], float(curve[0]["steps"]), float(curve[0]["value"])) == ("base-1", 10, 3.11)
    links = page.locator("a[download]")
    rows = list(csv.reader(saved(links.first).splitlines()))
    assert rows[0][0] == "model" and rows[1][0] == "plain"
    for address in links.evaluate_all("all => all.map(one => one.href)"):  # a browser saves ten files a second at most
        kind, _, content = address.partition(",")
        assert kind == "data:text/csv;charset=utf-8" and len(list(csv.reader(unquote(content).splitlines()))) > 1
    page.get_by_label("Search").fill("sentence 551")
    count(page, f"1–1 of 1 chosen, of {2 * NUM:,}")
    (row,) = csv.DictReader(saved(page.locator("#corrections-csv")).splitlines())
    assert row["gold"] == "buy" and row["before"] == "sentence 551 =HYPERLINK(1)"
    page.get_by_label("Search").fill("sentence 505")
    page.wait_for_function("document.querySelector('#corrections-table td.gold').textContent.startsWith('=')")
    (row,) = csv.DictReader(saved(page.locator("#corrections-csv")).splitlines())
    assert row["gold"] == "'=HYPERLINK(1)"  # no formula


def test_hostile_text_is_shown_and_does_nothing(show: Open, path: Path) -> None:
    page = show(path)
    shown = "\n".join(cells(page, "1") + cells(page, "2"))
    for text in HOSTILE:
        assert text.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066") in shown
    for name, text in (("Detector", HOSTILE[1]), ("Part of speech", HOSTILE[0])):
        assert text in page.get_by_role("combobox", name=name).locator("option").all_inner_texts()
    assert page.evaluate("window.owned") is None and "\u202e" not in path.read_text(encoding="utf-8")
    assert page.locator("#corrections-table :is(img, svg, script)").count() == 0


def test_it_prints_and_reads_without_scripts(show: Open, path: Path) -> None:
    page = show(path)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#corrections-filters").is_visible() and page.locator("#corrections-table").is_visible()
    assert len(page.pdf()) > 10_000
    plain = show(path, java_script_enabled=False)
    assert plain.locator("#corrections-table tbody tr").count() == NUM_PAIRS
    assert plain.locator("figure svg").first.is_visible()


def test_a_hundred_thousand_corrections_do_not_freeze_the_page(show: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1, 3.0)
    pairs = [(f"word{n % 3000}", f"word{n % 3000 * 7 % 3000}") for n in range(100_000)]
    others = {"part_of_speech": "noun", "credit": 1.0, "gold_probability": 0.1, "after": "after it " * 9}
    many = [
        {"gold": gold, "predicted": predicted, "probability": n % 997 / 997, "before": f"{n} before", **others}
        for n, (gold, predicted) in enumerate(pairs)
    ]
    found = {"readings": {"mispredicted": 0.5, "corrected": 0.1}, "corrections": many, "detector": "lexical"}
    (run / "false-negatives.json").write_text(json.dumps(found))
    page = show(write_report([run], tmp_path / "report.html"))
    count(page, f"1–{ROWS} of {len(set(map(frozenset, pairs))):,} chosen, of 100,000")
    took = page.evaluate(
        """async () => {
            const input = document.querySelector('[name=search]'), count = document.querySelector('#corrections-count');
            input.value = 'word17';
            const before = count.textContent, started = performance.now();
            input.dispatchEvent(new Event('input', { bubbles: true }));
            while (count.textContent === before) await new Promise(requestAnimationFrame);
            return performance.now() - started;
        }"""
    )
    assert took < 3000  # 120 ms of them wait for the next letter
