"""CLINE's six tasks, line by line as they are released, and what is wrong with others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evaluation.labelled_tokenizers import wordpiece
from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.tasks import make_task
from trueneg.tasks.base import Split
from trueneg.tasks.cline import CLINE, ClineTask
from trueneg.tasks.text import TextExample, fingerprint


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def made_imdb(data: Path, num: int = 10) -> Path:
    """So many reviews of either kind in each split."""
    for split in ("train", "test"):
        for side in ("neg", "pos"):
            for number in range(num):
                text = f"{split} {side} {number}.<br /><br />The end."
                write(data / "aclImdb" / split / side / f"{number}_{1 if side == 'neg' else 10}.txt", text)
    write(data / "aclImdb" / "train" / "urls_pos.txt", "http://x")
    write(data / "aclImdb" / "train" / "unsup" / "0_0.txt", "unlabelled")
    return data


def made_perspectrum(data: Path) -> Path:
    for_and_against = [
        {"pids": [1, 2], "stance_label_3": "SUPPORT"},
        {"pids": [3, 1], "stance_label_3": "UNDERMINE"},
    ]
    claims = [
        {"cId": 7, "text": "Cats are good", "perspectives": for_and_against},
        {"cId": 8, "text": "Mats are bad", "perspectives": [{"pids": [9, 3], "stance_label_3": "SUPPORT"}]},
    ]
    pool = [{"pId": n, "text": f"view {n}"} for n in (1, 2, 3)]
    folder = data / "perspectrum" / "data" / "dataset"
    write(folder / "perspectrum_with_answers_v1.0.json", json.dumps(claims))
    write(folder / "dataset_split_v1.0.json", json.dumps({"7": "train", "8": "dev"}))
    write(folder / "perspective_pool_v1.0.json", json.dumps(pool))
    return data


def shown(split: Split[TextExample]) -> list[tuple[str, str, str | None, int | float | None]]:
    return [(e.key, e.text, e.second, e.label) for e in split.examples]


def test_every_task_scores_accuracy_and_has_its_labels(tmp_path: Path) -> None:
    tasks = {name: ClineTask(name, tmp_path) for name in CLINE}
    assert {name: task.num_outputs for name, task in tasks.items()} == {
        "imdb": 2, "snli": 3, "perspectrum": 2, "boolq": 2, "ag": 4, "mr": 2,
    }  # fmt: skip
    assert {task.metrics for task in tasks.values()} == {("accuracy",)}
    assert {name: task.shared_text for name, task in tasks.items() if task.shared_text} == {
        "snli": "text", "boolq": "second",
    }  # fmt: skip
    assert tasks["boolq"].dev_splits == ("dev",) and tasks["snli"].dev_splits == ("dev", "test")


def test_snli_is_read(tmp_path: Path) -> None:
    lines = [
        {"gold_label": "neutral", "sentence1": "A", "sentence2": "B", "pairID": "p1", "annotator_labels": ["neutral"]},
        {"gold_label": "-", "sentence1": "A", "sentence2": "C", "pairID": "p2", "annotator_labels": ["neutral"]},
        {"gold_label": "contradiction", "sentence1": "A", "sentence2": "", "pairID": "p3", "annotator_labels": []},
    ]
    write(tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    task = ClineTask("snli", tmp_path)
    split = task.read("dev")
    encoded = task.encode(split.examples, wordpiece(), 8, is_training=False)
    answers = task.predictions(split.examples, encoded, [np.zeros(3, np.float32)] * 2)
    assert [answer["group"] for answer in answers] == ["p1", "p1"], "they share their premise"
    assert shown(split) == [("p1", "A", "B", 2), ("p3", "A", "", 0)]
    assert split.counts == {"undecided": 1, "empty_texts": 1, "missing_from_release": 9_840}


def test_boolq_is_read_and_its_test_has_no_labels(tmp_path: Path) -> None:
    row = '{"question": "is it", "title": "It", "answer": %s, "passage": "It is."}\n'
    write(tmp_path / "boolq" / "train.subset2.jsonl", row % "true" + row % "false")
    write(tmp_path / "boolq" / "test.jsonl", '{"question": "is it", "title": "It", "passage": "It is."}\n')
    task = ClineTask("boolq", tmp_path)
    assert shown(task.read("train")) == [("0", "is it", "It is.", 1), ("1", "is it", "It is.", 0)]
    assert task.read("train").counts == {"missing_from_release": 9_425}
    assert not task.read("test").is_labelled and task.read("test").examples[0].label is None
    tokenizer = wordpiece()
    row_ids = task.encode(task.read("train").examples[:1], tokenizer, 64, is_training=True).features.input_ids
    assert tokenizer.decode(row_ids).replace(" ##", "").split("[SEP]")[0].endswith("is it ")


def test_perspectrum_is_the_stance_of_each_perspective_on_a_claim(tmp_path: Path) -> None:
    task = ClineTask("perspectrum", made_perspectrum(tmp_path))
    train = task.read("train")
    assert shown(train) == [
        ("7/1", "Cats are good", "view 1", 1),
        ("7/2", "Cats are good", "view 2", 1),
        ("7/3", "Cats are good", "view 3", 0),
        ("7/1#2", "Cats are good", "view 1", 0),
    ]
    assert {example.group for example in train.examples} == {"7"} and train.counts == {"duplicate_keys": 1}
    dev = task.read("dev")
    assert shown(dev) == [("8/3", "Mats are bad", "view 3", 1)] and dev.counts == {"perspectives_without_text": 1}


def test_ag_is_read(tmp_path: Path) -> None:
    rows = '"3","Up","Shares, ""up"", #39;now#39;"\n"4","New\\look","x"\n"1","","War"\n'
    write(tmp_path / "ag_news_csv" / "test.csv", rows)
    split = ClineTask("ag", tmp_path).read("test")
    assert shown(split) == [
        ("0", 'Up Shares, "up", #39;now#39;', None, 2),
        ("1", "New\\look x", None, 3),
        ("2", " War", None, 0),
    ]
    assert split.counts == {"html_leftovers": 1, "backslashes": 1, "missing_from_release": 7_597}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"5","a","b"', r"test\.csv:2: unknown label '5'"),
        ('"1","a"', r"test\.csv:2: 3 columns expected, 2 found"),
        ('"1","a","b" c', r"test\.csv:2: .*fix the quotes"),
    ],
)
def test_bad_rows_of_ag_are_named(tmp_path: Path, row: str, message: str) -> None:
    write(tmp_path / "ag_news_csv" / "test.csv", f'"1","a","b"\n{row}\n')
    with pytest.raises(TaskError, match=message):
        ClineTask("ag", tmp_path).read("test")


def test_mr_makes_three_splits_of_all_its_sentences(tmp_path: Path) -> None:
    for side in ("neg", "pos"):
        lines = "".join(f"{side} {number} \n" for number in range(50))
        write(tmp_path / "rt-polaritydata" / f"rt-polarity.{side}", lines)
    task = ClineTask("mr", tmp_path)
    splits = {name: task.read(name) for name in ("train", "dev", "test")}
    keys = [example.key for split in splits.values() for example in split.examples]
    assert sorted(keys) == sorted(f"{side}/{n}" for side in ("neg", "pos") for n in range(1, 51))
    assert {name: sorted(Counter(e.label for e in split.examples).values()) for name, split in splits.items()} == {
        "train": [40, 41], "dev": [4, 5], "test": [5, 5],
    }  # fmt: skip
    assert splits["train"].counts == {"missing_from_release": 10_562, "set_aside": 19}
    assert splits["test"].counts["of_train"] == 90
    assert {e.text.split()[0] for e in splits["dev"].examples if e.label == 1} == {"pos"}
    with pytest.raises(TaskError, match="mr has no 'dev2'"):
        task.read("dev2")


def test_mr_as_first_released_is_latin(tmp_path: Path) -> None:
    write(tmp_path / "rt-polarity.neg", "na\xefve\n\nb\nc\n".encode("latin-1"))
    write(tmp_path / "rt-polarity.pos", "caf\u00e9\nd\ne\n")
    splits = [ClineTask("mr", tmp_path).read(name) for name in ("train", "dev", "test")]
    assert {e.text for split in splits for e in split.examples} == {"na\xefve", "b", "c", "caf\u00e9", "d", "e"}
    assert (splits[0].counts["latin1_files"], splits[0].counts["blank_lines"]) == (1, 1)


def test_imdb_is_read(tmp_path: Path) -> None:
    tests = ClineTask("imdb", made_imdb(tmp_path)).read("test")
    assert tests == ClineTask("imdb", tmp_path / "aclImdb").read("test")
    assert shown(tests)[0] == ("neg/0_1", "test neg 0. The end.", None, 0)
    assert shown(tests)[-1] == ("pos/9_10", "test pos 9. The end.", None, 1)
    assert len(tests.examples) == 20


def test_a_tenth_of_imdb_is_for_validation(tmp_path: Path) -> None:
    task = ClineTask("imdb", made_imdb(tmp_path))
    train, dev = task.read("train"), task.read("dev")
    assert (len(train.examples), len(dev.examples)) == (18, 2)
    assert {e.label for e in dev.examples} == {0, 1}
    assert not {e.key for e in train.examples} & {e.key for e in dev.examples}
    assert train.counts == {"missing_from_release": 24_980, "set_aside": 2}
    assert ClineTask("imdb", tmp_path).read("dev") == dev


def test_originals_of_a_contrast_set_are_not_trained_on(tmp_path: Path) -> None:
    made_imdb(tmp_path)
    rows = 'Sentiment\tText\nPositive\t"TRAIN pos 3! The <br />end"\nNegative\ttest neg 3\n'
    for kind in ("original", "contrast"):
        write(tmp_path / "contrast-sets" / "IMDb" / "data" / f"test_{kind}.tsv", rows)
    options = TaskConfig(name="imdb", data=str(tmp_path))
    read = {split: make_task(options).read(split) for split in ("train", "dev", "test")}
    keys = {split: {e.key for e in found.examples} for split, found in read.items()}
    assert "pos/3_10" not in keys["train"] | keys["dev"] and len(keys["train"] | keys["dev"]) == 19
    assert read["train"].counts["in_contrast_set"] == read["dev"].counts["in_contrast_set"] == 1
    assert len(keys["test"]) == 20  # what is tested is as released


@pytest.mark.parametrize("name", sorted(CLINE))
def test_what_is_missing_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / "notes.txt", "")
    with pytest.raises(TaskError, match=rf"--data .*{tmp_path.name}"):
        ClineTask(name, tmp_path).read("train")
    with pytest.raises(TaskError, match="no such folder"):
        ClineTask(name, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("task", "files", "message"),
    [
        ("snli", ("snli/train.jsonl", "snli_1.0/train.jsonl"), r"snli and snli_1\.0 both"),
        (
            "boolq",
            ("boolq/train.jsonl", "boolq/train.subset5.jsonl"),
            r"train\.jsonl and train\.subset5\.jsonl are both",
        ),
    ],
)
def test_two_folders_or_files_are_one_too_many(task: str, files: tuple[str, str], message: str, tmp_path: Path) -> None:
    for name in files:
        write(tmp_path / name, "{}\n")
    with pytest.raises(TaskError, match=message):
        ClineTask(task, tmp_path).read("train")


CLAIM = {"cId": 7, "text": 5, "perspectives": [{"pids": [1], "stance_label_3": "SUPPORT"}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n{", r"v1\.0\.json: not JSON \(.*line 2"),
        pytest.param("[" * 100_000, r"v1\.0\.json: not JSON", id="deep"),
        ('[{"cId": 7}]', "not as PERS"),
        (json.dumps([CLAIM]), "not as PERS.*a text that is not text"),
    ],
)
def test_torn_perspectrum_is_refused(tmp_path: Path, content: str, message: str) -> None:
    folder = made_perspectrum(tmp_path) / "perspectrum" / "data" / "dataset"
    write(folder / "perspectrum_with_answers_v1.0.json", content)
    with pytest.raises(TaskError, match=message):
        ClineTask("perspectrum", tmp_path).read("train")


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'imdb'"):
        ClineTask("imbd", tmp_path)


def test_fingerprints_are_of_letters_and_of_both_texts() -> None:
    example = TextExample("0", "A good_film.<br /> Really!", "So?")
    assert fingerprint(example) == fingerprint(TextExample("1", "a Good film: really", "so"))
    assert fingerprint(example) != fingerprint(TextExample("0", "A good film. Really! So?"))
