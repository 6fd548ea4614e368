"""Attacks kept in files, and those that others have published."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trueneg.attacks.attack_set import AttackSet, load_attack_set, save_attack_set
from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.published import read_published
from trueneg.errors import TaskError, TruenegWarning
from trueneg.evaluation.results.store import Result, load_predictions, save_result
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample
from trueneg.tasks.text import TextExample

LABELS = ("negative", "positive")
RESULT = Result("mr", "test", 1, {"accuracy": 0.5}, 2, "encoder", "last", 1)


def make_set() -> AttackSet:
    good = TextExample("0", "A good – “fine” film.", None, 1, "g")
    bad = TextExample("1", "A bad film.", "second", 0)
    question = SquadExample("q", "t/0", "Who?", "It was Ann.", (SquadAnswer("Ann", 7), SquadAnswer("ann", None)))
    moved = replace(question, context="So it was Ann.", answers=(SquadAnswer("Ann", 10), SquadAnswer("ann", None)))
    return AttackSet(
        {"name": "some", "profile": "default", "seed": 3},
        "mr",
        "test",
        LABELS,
        [
            AdversarialExample(good, replace(good, text="A big film."), "succeeded", 7, {"changed": [[1, "a", "b"]]}),
            AdversarialExample(bad, bad, "skipped", 1),
            AdversarialExample(question, moved, "changed", 0, {"is_valid": True}),
        ],
    )


def test_a_set_comes_back_as_it_was_and_in_the_same_bytes(tmp_path: Path) -> None:
    made = make_set()
    save_attack_set(made, tmp_path / "deep" / "a.jsonl")
    again = load_attack_set(tmp_path / "deep" / "a.jsonl")
    assert again == made and again.name == "some"
    assert load_attack_set(edited(tmp_path, 2, original__label="positive")) == made, "a label by its name"
    with pytest.raises(TaskError, match="nowhere"):
        load_attack_set(tmp_path / "nowhere.jsonl")
    save_attack_set(again, tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "deep" / "a.jsonl").read_bytes()


@pytest.mark.parametrize("separator", ["\x85", "\u2028"])
def test_a_text_may_hold_what_looks_like_the_end_of_a_line(tmp_path: Path, separator: str) -> None:
    example = TextExample("0", f"A film{separator} that was liked.", None, 1)
    made = replace(make_set(), examples=[AdversarialExample(example, example, "failed")])
    save_attack_set(made, tmp_path / "a.jsonl")
    assert load_attack_set(tmp_path / "a.jsonl") == made
    answers = [{"key": f"a{separator}b", "predicted": 1}, {"key": "c", "predicted": 0}]
    assert load_predictions(save_result(RESULT, answers, tmp_path)) == answers


def edited(tmp_path: Path, line: int, **changes: Any) -> Path:
    """A set of which a line says something else; a key that becomes ... is left out."""
    path = tmp_path / "a.jsonl"
    save_attack_set(make_set(), path)
    lines = path.read_text(encoding="utf-8").splitlines()
    content = json.loads(lines[line - 1])
    for place, value in changes.items():
        *groups, key = place.split("__")
        inner = content
        for group in groups:
            inner = inner[group]
        inner[key] = value
        if value is ...:
            del inner[key]
    lines[line - 1] = json.dumps(content)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (1, {"schema": 7}, "no attack set of schema 1"),
        (1, {"attack": "textfooler"}, "'attack'"),
        (1, {"attack__name": ...}, "'attack.name'"),
        (1, {"attack__name": "../up"}, "'attack.name'"),
        (1, {"attack__profile": 3}, "'attack.profile'"),
        (1, {"attack__victim": "/tmp/x"}, "'attack.victim'"),
        (1, {"labels": ["a", 1]}, "'labels.1'"),
        (1, {"num_adversaries": "3"}, "'num_adversaries'"),
        (1, {"num_adversaries": 20}, "holds 3 examples, and its first line says 20"),
        (2, {"outcome": "won"}, "line 2, .*'outcome'"),
        (2, {"notes": ["a"]}, "line 2, .*'notes'"),
        (2, {"original__txt": ""}, "line 2, .*'txt'"),
        *((2, {"original__label": label}, f"line 2, has the label {label}") for label in (None, 99, -1, 1.5)),
        (2, {"original__label": "pos"}, "line 2, "),
        (2, {"adversarial__label": 2}, "line 2, has the label 2"),
        (4, {"original__answers": [{"text": "Ann"}]}, "line 4, is damaged: 'answers.0.start'"),
    ],
)
def test_what_is_no_attack_set(tmp_path: Path, line: int, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=rf"a\.jsonl'.*{message}.*: write"):
        load_attack_set(edited(tmp_path, line, **changes))


@pytest.mark.parametrize(
    "content", [b"", b"3\n", b'{"schema": 1}\n', b'{"text": 1}\n', b"[" * 100_000, b'{"schema":\xff}']
)
def test_what_is_no_json_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(TaskError, match=r"a\.jsonl'"):
        load_attack_set(tmp_path / "a.jsonl")


def test_a_set_that_was_cut_is_refused_and_one_without_a_number_is_taken_with_a_note(tmp_path: Path) -> None:
    path = edited(tmp_path, 1)
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    with pytest.raises(TaskError, match="holds 2 examples, and its first line says 3"):
        load_attack_set(path)
    path.write_bytes(whole[:-20])
    with pytest.raises(TaskError, match="line 4, is damaged"):
        load_attack_set(path)
    with pytest.warns(TruenegWarning, match="without its number of examples"):
        assert load_attack_set(edited(tmp_path, 1, num_adversaries=...)) == make_set()


def read(tmp_path: Path, text: str, name: str = "a.txt", **options: object) -> list[AdversarialExample[TextExample]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_published(tmp_path / name, LABELS, **options)  # type: ignore[arg-type]


TEXTATTACK = (
    '"ground_truth_output","num_queries","original_output","original_text","perturbed_text","result_type"\n'
    '1.0,12.0,1.0,"a [[fine]] film, [W]e think","a [[okay]] film, [W]e think","Successful"\n'
    '0.0,1.0,1.0,"a bad film","a bad film","Skipped"\n'
    '0,30,0,"[[[[Premise]]]]: He ran.>>>>[[[[Hypothesis]]]]: He [[moved]].",'
    '"[[[[Premise]]]]: He ran.>>>>[[[[Hypothesis]]]]: He [[budged]].","Failed"\n'
)


def test_textattacks_log(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, TEXTATTACK, "log.csv")
    assert first.original == TextExample("2", "a fine film, [W]e think", None, 1)
    assert first.adversarial.text == "a okay film, [W]e think"
    assert (first.outcome, first.num_queries) == ("succeeded", 12)
    assert second.outcome == "skipped"
    assert (third.original.text, third.original.second) == ("He ran.", "He moved.")
    assert (third.adversarial.second, third.outcome, third.original.label) == ("He budged.", "failed", 0)


# As CSVLogger of TextAttack 0.3.11 writes them: <SPLIT> is a line break of a text, or parts the texts of a pair.
LOGGED = (
    '"original_text","perturbed_text","original_score","perturbed_score","original_output","perturbed_output",'
    '"ground_truth_output","num_queries","result_type"\n'
)
LOGGED_PAIRS = (
    LOGGED + '"[[[[Premise]]]]: The man ran.<SPLIT>[[[[Hypothesis]]]]: The man<SPLIT>[[moved]].",'
    '"[[[[Premise]]]]: The man ran.<SPLIT>[[[[Hypothesis]]]]: The man<SPLIT>[[budged]].",0.1,0.9,0,1,0,5,"Successful"\n'
    '"[[[[Question1]]]]: How [[big]] is it?<SPLIT>[[[[Question2]]]]: What size?",'
    '"[[[[Question1]]]]: How [[huge]] is it?<SPLIT>[[[[Question2]]]]: What size?",0.1,0.9,0,1,0,5,"Successful"\n'
)
LOGGED_TEXT = (
    LOGGED + '"It was a [[good]] film.<SPLIT>We liked it.","It was a [[fine]] film.<SPLIT>We liked it.",'
    '0.1,0.9,0,1,0,5,"Successful"\n'
)


def test_a_line_break_in_textattacks_log(tmp_path: Path) -> None:
    (row,) = read(tmp_path, LOGGED_TEXT, "log.csv")
    assert row.original == TextExample("2", "It was a good film.\nWe liked it.", None, 0)
    assert row.adversarial.text == "It was a fine film.\nWe liked it."


def test_either_text_of_a_pair_may_be_changed(tmp_path: Path) -> None:
    second, first = read(tmp_path, LOGGED_PAIRS, "log.csv")
    assert second.original == TextExample("2", "The man ran.", "The man\nmoved.", 0)
    assert second.adversarial == TextExample("2", "The man ran.", "The man\nbudged.", 0)
    assert first.original == TextExample("3", "How big is it?", "What size?", 0)
    assert first.adversarial == TextExample("3", "How huge is it?", "What size?", 0)


def test_pairs_and_single_texts_are_not_taken_for_each_other(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"log\.csv:2: a single text, and the task is of pairs of texts"):
        read(tmp_path, LOGGED_TEXT, "log.csv", is_of_pairs=True)
    with pytest.raises(TaskError, match=r"log\.csv:2: a pair of texts, and the task is of single texts"):
        read(tmp_path, LOGGED_PAIRS, "log.csv", is_of_pairs=False)
    assert len(read(tmp_path, LOGGED_PAIRS, "log.csv", is_of_pairs=True)) == 2


def test_textfoolers_output(tmp_path: Path) -> None:
    sentences = (
        "orig sent (0):\tso dull .\nadv sent (1):\tso boring .\n\norig sent (1):\tfine\nadv sent (0):\tfair\n\n\n"
    )
    first, second = read(tmp_path, sentences)
    assert (first.original.text, first.adversarial.text, first.original.label) == ("so dull .", "so boring .", 0)
    assert (second.original.label, second.outcome) == (1, "succeeded")
    pairs = "orig premise:\the ran\norig hypothesis (1):\the moved\nadv hypothesis (0):\the budged\n\n"
    (pair,) = read(tmp_path, pairs)
    assert (pair.original.text, pair.original.second, pair.adversarial.second) == ("he ran", "he moved", "he budged")


def test_attacks_number_classes_whatever_they_are_called(tmp_path: Path) -> None:
    """Stars are named 1, 2, …, and attacks write 0, 1, …; a table of one's own names them, or numbers all."""
    stars = ("1", "2", "3")

    def labels(name: str, text: str) -> list[int]:
        (tmp_path / name).write_text(text)
        return [example.original.label for example in read_published(tmp_path / name, stars)]

    assert labels("log.csv", TEXTATTACK.splitlines()[0] + '\n0,1,1,"a","b","Successful"\n1,1,1,"a","b","Failed"\n') == [
        0,
        1,
    ]
    assert labels("fooler.txt", "orig sent (2):\ta\nadv sent (1):\tb\n\norig sent (1):\ta\nadv sent (0):\tb\n") == [
        2,
        1,
    ]
    assert labels("named.csv", "label,original,adversarial\n1,a,b\n2,a,b\n") == [0, 1]
    assert labels("numbered.csv", "label,original,adversarial\n0,a,b\n2,a,b\n") == [0, 2]
    with pytest.raises(TaskError, match=r"mixed\.csv:3: the task has no label '0'"):
        (tmp_path / "mixed.csv").write_text("label,original,adversarial\npositive,a,b\n0,a,b\n")
        read_published(tmp_path / "mixed.csv", LABELS)


def test_a_table_of_ones_own_and_what_its_numbers_stand_for(tmp_path: Path) -> None:
    tsv = 'label\toriginal\tadversarial\npositive\tIt is "good\tIt is fine\n'
    (row,) = read(tmp_path, 'label,original,adversarial\npositive,"It, is",It was\n', "a.csv")
    assert (row.original.text, row.original.label, row.outcome) == ("It, is", 1, "changed")
    (row,) = read(tmp_path, tsv, "a.tsv")
    assert row.original.text == 'It is "good'
    (row,) = read(
        tmp_path,
        '{"first": "x", "original": "y", "adversarial": "z", "label": 0}\n',
        "a.jsonl",
        names=("positive", "negative"),
    )
    assert (row.original.text, row.original.second, row.adversarial.second, row.original.label) == ("x", "y", "z", 1)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("orig sent (0):\tso\n\n", "a.txt", "a.txt:1: the entry that ends here has no 'adv sent'"),
        ("orig sent (0):\tso\nadv snt (1): x\n\n", "a.txt", "a.txt:2: neither"),
        ("orig sent (7):\tso\nadv sent (1): x\n\n", "a.txt", "a.txt:2: the task has no label '7'"),
        (TEXTATTACK.replace("Skipped", "Skippd"), "a.csv", "a.csv:3: no row of TextAttack's log"),
        (TEXTATTACK.replace("12.0", "inf"), "a.csv", "a.csv:2: no row of TextAttack's log"),
        (TEXTATTACK.replace("1.0,12.0", "0.9,12.0"), "a.csv", "a.csv:2: the task has no label '0.9'"),
        ("label,original\n1,x\n", "a.csv", "column 'adversarial'"),
        ("{broken\n", "a.jsonl", "a.jsonl"),
        ("", "a.csv", "a.csv"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        read(tmp_path, text, name)


def test_names_that_are_no_labels(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="--label-names: the task has no label 'good'"):
        read(tmp_path, TEXTATTACK, names=("good", "bad"))
