"""One's own files: columns that are named or told, labels, splits, and mistakes with file and line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import TaskError, TruenegWarning
from trueneg.objectives.labelled import Regression
from trueneg.tasks.records import read_records
from trueneg.tasks.tabular import TabularTask

from_config = TabularTask.from_config

REVIEWS = "text,label\n" + "".join(f"film {n},{'good' if n % 4 else 'bad'}\n" for n in range(40))


def file(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content.encode())
    return folder / name


def test_one_file_has_a_validation_part_set_aside(tmp_path: Path) -> None:
    data = file(tmp_path, "reviews.csv", REVIEWS)
    task = TabularTask("reviews", data, validation_fraction=0.2)
    train, dev = task.read("train"), task.read("dev")
    assert task.labels == ("bad", "good") and task.metrics == ("accuracy", "macro_f1")
    assert (len(train.examples), len(dev.examples)) == (32, 8)
    assert sum(e.label == 0 for e in dev.examples) == 2
    assert not {e.key for e in train.examples} & {e.key for e in dev.examples}
    assert dev == TabularTask("reviews", data, validation_fraction=0.2).read("dev")
    assert dev != TabularTask("reviews", data, validation_fraction=0.2, seed=1).read("dev")
    assert any("set aside" in note for note in task.notes)
    assert (train.counts, dev.counts) == ({"in_other_part": 8}, {"in_other_part": 32})
    whole = task.read("dev", is_whole=True)
    assert {e.key for e in whole.examples} == {e.key for e in [*train.examples, *dev.examples]} and not whole.counts


@pytest.mark.parametrize("valid", ["dev", "valid", "validation", "reviews-val"])
def test_a_folder_has_its_splits_by_name(valid: str, tmp_path: Path) -> None:
    file(tmp_path, "train.csv", REVIEWS)
    file(tmp_path, f"{valid}.tsv", "text\tlabel\nfine\tgood\n")
    file(tmp_path, "test.jsonl", '{"text": "poor"}\n')
    file(tmp_path, "README.md", "not data")
    task = TabularTask("reviews", tmp_path)
    assert [len(task.read(split).examples) for split in ("train", "dev", "test")] == [40, 1, 1]
    assert not task.read("test").is_labelled and not task.is_split_off


def test_quoted_csv_is_read_as_spreadsheets_write_it(tmp_path: Path) -> None:
    content = 'label,text\nyes,"He said ""no"", twice,\nand left"\nno,"5"" of rain"\nmaybe,"line\u2028separator"\n'
    examples = TabularTask("t", _split(tmp_path, content)).read("train").examples
    assert [e.text for e in examples] == ['He said "no", twice,\nand left', '5" of rain', "line\u2028separator"]


def test_lines_are_counted_in_the_file_and_not_in_rows(tmp_path: Path) -> None:
    data = _split(tmp_path, 'label,text\nyes,"two\nlines"\nno,one\n')
    file(data, "dev.csv", 'label,text\nyes,"two\nlines"\nnope,one\n')
    with pytest.raises(TaskError, match=r"dev\.csv:4: unknown label 'nope': did you mean 'no'"):
        TabularTask("t", data).read("dev")


@pytest.mark.parametrize(
    ("cells", "expected", "counts"),
    [
        (['"a" b', '"c"'], ['"a" b', '"c"'], {}),
        (['"a"', '"c"'], ['"a"', '"c"'], {}),  # as spreadsheets never write it: there is nothing to quote
        (['"a ""b"""', "c"], ['a "b"', "c"], {"quoted_cells": 1}),
        (['"a ""b"""', '"c'], ['"a ""b"""', '"c'], {}),
    ],
)
def test_in_tsv_quote_characters_are_text_unless_they_are_doubled_throughout(
    cells: list[str], expected: list[str], counts: dict[str, int], tmp_path: Path
) -> None:
    file(tmp_path, "train.tsv", f"text\tlabel\n{cells[0]}\tyes\n{cells[1]}\tno\n")
    file(tmp_path, "dev.tsv", "text\tlabel\nx\tyes\n")
    train = TabularTask("t", tmp_path).read("train")
    assert [e.text for e in train.examples] == expected and train.counts == counts


def test_line_breaks_in_quoted_cells_of_tsv_are_read_as_written(tmp_path: Path) -> None:
    rows = [(f'He said "fine {n}" to me' if n % 3 else f"film {n}", ("good", "bad")[n % 2]) for n in range(400)]
    rows[10:12] = [("First line,\nand a second one.", "bad"), ('A tab\t, and a "quote"\n\nafter it', "good")]
    path = tmp_path / "reviews.tsv"
    with path.open("w", newline="") as out:
        csv.writer(out, delimiter="\t").writerows([("text", "label"), *rows])
    read = read_records(path)
    assert [*read.rows] == rows
    assert read.counts == {"quoted_cells": sum(any(sign in text for sign in '"\n\t') for text, _ in rows)}
    # An opening quote that is text, and a line that is malformed for another reason.
    texts = [(f"film {n}", "good") for n in range(300)]
    path.write_text("\n".join(["text\tlabel", '"open\tbad', *map("\t".join, texts), "lost"]) + "\n")
    assert read_records(path).rows[0] == ('"open', "bad")
    assert read_records(path).counts == {"malformed_lines": 1}


def test_half_of_an_emoji_is_a_malformed_line(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"film {n}", "label": "good"}) for n in range(200)]
    data = file(tmp_path, "tweets.jsonl", "\n".join([*lines, '{"text": "cut \\ud83d", "label": "bad"}']) + "\n")
    assert read_records(data).counts == {"malformed_lines": 1} and len(read_records(data).rows) == 200
    data = file(tmp_path, "few.jsonl", '{"text": "cut \\ud83d", "label": "bad"}\n')
    with pytest.raises(TaskError, match=r"few.jsonl:1: a text holds half of a surrogate pair"):
        read_records(data)


def test_how_tsv_is_quoted_may_be_said(tmp_path: Path) -> None:
    data = file(tmp_path, "train.tsv", 'text\tlabel\n"a\tb"\tyes\n"c ""d"""\tno\n')
    assert [row[0] for row in read_records(data, is_quoted=True).rows] == ["a\tb", 'c "d"']
    data = file(tmp_path, "train.tsv", 'text\tlabel\n"c ""d"""\tno\nx\tyes\n')
    assert read_records(data, is_quoted=False).rows[0][0] == '"c ""d"""'


def test_a_text_of_any_length_is_read(tmp_path: Path) -> None:
    long = "b " * 70_000
    task = TabularTask("t", file(tmp_path, "train.csv", f'label,text\nx,a\ny,{long}\nx,"{long}"\ny,c\n'))
    assert {e.text for split in ("train", "dev") for e in task.read(split).examples} == {"a", long, "c"}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_csv_of_another_delimiter_is_read_and_noted(delimiter: str, tmp_path: Path) -> None:
    rows = ["label,text", "x,a", 'y,"b, and ""c"""', "x,d", "y,e"]
    content = "\n".join([row.replace(",", delimiter, 1) for row in rows])
    task = TabularTask("t", file(tmp_path, "train.csv", content))
    assert 'b, and "c"' in {e.text for split in ("train", "dev") for e in task.read(split).examples}
    assert any(repr(delimiter) in note for note in task.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'label,text\nx,a\ny,"b\nx,c\n', r"train\.csv:3: .*quotes"),  # the rest would be the second text
        (b"label;text\nx;a;b\n", r"2 columns expected, 3 found, separated by ';'"),
        ("label,text\nx,a\n".encode("utf-16"), r"not UTF-8 but UTF-16: .*iconv -f utf-16 -t utf-8"),
        (b"text,label\na,x\nb,x\n", "at least two labels.*only 'x'"),
        (b"text,label\n" + b"".join(b"a,%d\n" % n for n in range(150)), "150 different values in 150 rows"),
    ],
)
def test_a_training_file_that_makes_no_task_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(TaskError, match=message):
        TabularTask("t", tmp_path)


def test_parquet(tmp_path: Path) -> None:
    columns = {"text": ["a", "b", None, "d"], "label": [1, 0, 1, 0], "parts": [["x"]] * 4, "id": ["p", "q", "r", "s"]}
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    pq.write_table(pa.table({name: column[:2] for name, column in columns.items()}), tmp_path / "dev.parquet")
    task = TabularTask("t", tmp_path)
    assert task.labels == ("0", "1") and task.columns.text == "text"
    assert [(e.key, e.text, e.label) for e in task.read("train").examples][1:3] == [("q", "b", 0), ("r", "", 1)]
    assert len(task.read("dev").examples) == 2
    (tmp_path / "dev.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(TaskError, match=r"dev\.parquet cannot be read as Parquet"):
        task.read("dev")


def test_labels_that_come_once_are_told(tmp_path: Path) -> None:
    rows = "".join(f"text {number},name {number}\n" for number in range(60))
    with pytest.warns(TruenegWarning, match="60 of the 60 labels"):
        TabularTask("t", file(tmp_path, "train.csv", f"text,label\n{rows}"))


@pytest.mark.parametrize("name", ["hub:{}/..", "{}/...csv", "{}/..csv"])
def test_a_name_that_would_leave_the_folder_of_results_is_refused(name: str, tmp_path: Path) -> None:
    file(tmp_path, "...csv", "text,label\na,x\nb,y\n")
    file(tmp_path, "..csv", "text,label\na,x\nb,y\n")
    with pytest.raises(TaskError, match="rename it"):
        from_config(TaskConfig(name="classification", data=name.format(tmp_path)))


def test_json_lines_may_have_numbers_nulls_and_other_keys(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "label": 10, "meta": {"x": 1}},
        {"text": "b", "label": 9, "extra": True},
        {"text": None, "label": 9},
    ]
    file(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    file(tmp_path, "dev.jsonl", json.dumps(rows[0]) + "\n")
    task = TabularTask("t", tmp_path, text_column="text")
    split = task.read("train")
    assert task.labels == ("9", "10")  # by value
    assert [(e.text, e.label) for e in split.examples] == [("a", 1), ("b", 0), ("", 0)]
    assert split.counts == {"blank_lines": 1, "empty_texts": 1}


def test_a_column_of_lists_that_some_rows_lack_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = [{"text": "a", "tags": None, "note": None}, {"text": "b", "tags": ["x"], "note": None, "of": {"x": 1}}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    read = read_records(path)
    assert (read.names, [*read.rows]) == (("text", "note"), [("a", ""), ("b", "")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a", "label": 1}\n{"text": "b"\n', r":2: not JSON"),
        pytest.param('{"a":' * 100_000, r":1: not JSON", id="deep"),
        ('{"text": "a", "label": 1}\n["b"]\n', r":2: each line must be an object"),
        ('{"text": "a", "label": 1}\n{"text": ["b"], "label": 2}\n', r":2: 'text' is list here"),
        ('[{"text": "a", "label": 1},\n{"text": "b", "label": 2}]\n', r": a JSON array"),
    ],
)
def test_broken_json_is_an_error_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"train\.jsonl" + message):
        TabularTask("t", file(tmp_path, "train.jsonl", content))


@pytest.mark.parametrize(
    ("header", "text", "second", "label", "key"),
    [
        ("text,label", "text", None, "label", None),
        ("Sentence,Sentiment,id", "Sentence", None, "Sentiment", "id"),
        ("idx,premise,hypothesis,label", "premise", "hypothesis", "label", "idx"),
        ("question1,question2,is_duplicate", "question1", "question2", "is_duplicate", None),
        ("headline,class", "headline", None, "class", None),
        ("review,stars", "review", None, "stars", None),
        ("question,sentence,label", "question", "sentence", "label", None),
    ],
)
def test_columns_are_told_where_only_one_thing_can_be_meant(
    header: str, text: str, second: str | None, label: str, key: str | None, tmp_path: Path
) -> None:
    names = header.split(",")
    rows = "".join(",".join(f"{name}{n}" for name in names) + "\n" for n in range(3))
    task = TabularTask("t", file(tmp_path, "train.csv", f"{header}\n{rows}"))
    columns = task.columns
    assert (columns.text, columns.second, columns.label, columns.key) == (text, second, label, key)
    notes = " ".join(task.notes)
    assert all(repr(name) in notes for name in (text, second, label, key) if name)


@pytest.mark.parametrize(
    ("header", "option"),
    [
        ("text,title,label,score", "--label-column"),
        ("one,two,label", "--text-column"),
        ("text,sentence,label", "--text-column"),
        ("sentence1,sentence2,premise,hypothesis,label", "--text-column"),
        ("text,premise,hypothesis,label", "--text-column"),
        ("text,one,two", "--label-column"),
    ],
)
def test_columns_are_not_guessed_where_more_can_be_meant(header: str, option: str, tmp_path: Path) -> None:
    row = ",".join("abcdefg"[: header.count(",") + 1])
    with pytest.raises(TaskError, match=f"{option} is needed"):
        TabularTask("t", file(tmp_path, "train.csv", f"{header}\n{row}\n"))


def test_named_columns_count_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    data = file(tmp_path, "train.csv", "a,b,c,d\nx,y,0,g1\nz,w,1,g1\nu,v,1,g2\n")
    task = TabularTask("t", data, text_column="b", second_column="a", label_column="c")
    both = [*task.read("train").examples, *task.read("dev").examples]
    assert sorted((e.text, e.second) for e in both) == [("v", "u"), ("w", "z"), ("y", "x")]
    with pytest.raises(TaskError, match=r"train\.csv: --text-column: unknown column 'bb': did you mean 'b'"):
        TabularTask("t", data, text_column="bb", label_column="c")


AUTHORS = "text,label,id\n" + "".join(f"film {n},{'good' if n % 3 else 'bad'},author {n // 4}\n" for n in range(40))


def test_groups_of_ones_own_are_not_divided_and_reach_predictions(tmp_path: Path) -> None:
    data = file(tmp_path, "reviews.csv", AUTHORS)
    options = TaskConfig(name="classification", data=str(data), group_column="id")
    task = from_config(options)
    train, dev = ([example.group for example in task.read(split).examples] for split in ("train", "dev"))
    assert (len(train), len(dev)) == (32, 8) and not {*train} & {*dev}  # two groups of ten
    assert len({*train, *dev}) == 10 and task.columns.key is None
    assert {example.group for example in TabularTask("t", data).read("train").examples} == {None}


def test_groups_that_are_missing_are_refused(tmp_path: Path) -> None:
    data = file(tmp_path, "train.csv", AUTHORS.replace("author 0", ""))
    with pytest.raises(TaskError, match=r"train\.csv:2: no 'id', the group's column"):
        TabularTask("t", data, group_column="id").read("train")
    with pytest.raises(TaskError, match="--group-column: unknown column 'idd': did you mean 'id'"):
        TabularTask("t", data, group_column="idd")
    one = file(tmp_path / "one", "train.csv", "text,label,who\na,x,I\nb,y,I\n")
    with pytest.raises(TaskError, match="one group is too few to set a part aside"):
        TabularTask("t", one, group_column="who").read("train")


def test_an_index_that_pandas_wrote_is_a_key(tmp_path: Path) -> None:
    task = TabularTask("t", file(tmp_path, "train.csv", ",sms,label\n7,hello,ham\n8,win,spam\n9,bye,ham\n"))
    assert (task.columns.key, task.columns.text, task.columns.label) == ("", "sms", "label")
    examples = task.read("train", is_whole=True).examples
    assert [(e.key, e.text) for e in examples] == [("7", "hello"), ("8", "win"), ("9", "bye")]


def test_what_is_named_is_no_key(tmp_path: Path) -> None:
    data = file(tmp_path, "train.csv", "index,id\n3,a\n4,b\n5,b\n")
    task = TabularTask("t", data, text_column="id", label_column="index")
    assert task.columns.key is None and task.labels == ("3", "4", "5")


def test_the_text_may_be_named_alone(tmp_path: Path) -> None:
    data = file(tmp_path, "train.csv", "sentence1,sentence2,label\na,b,0\nc,d,1\n")
    task = TabularTask("t", data, text_column="sentence2")
    assert (task.columns.text, task.columns.second) == ("sentence2", None)


def test_values_of_a_regression_task_are_no_classes(tmp_path: Path) -> None:
    rows = "".join(f"a,{n / 100}\n" for n in range(150))
    task = TabularTask("t", file(tmp_path, "train.csv", "text,score\n" + rows), is_regression=True)
    assert task.labels == () and task.num_outputs == 1 and task.metrics == ("spearman", "pearson")
    assert task.bounds is None
    labels = [e.label for e in task.read("train").examples]
    assert len(labels) == 135 and all(isinstance(label, float) for label in labels)


def test_a_model_that_has_labels_needs_no_training_file(tmp_path: Path) -> None:
    file(tmp_path, "test.csv", "text,label\na,y\n")
    assert TabularTask("t", tmp_path, labels=["x", "y"]).read("test").examples[0].label == 1
    assert list(TabularTask("t", tmp_path / "test.csv", labels=["x", "y"]).source.splits) == ["test"]
    options = TaskConfig(name="classification", data=str(tmp_path))
    assert from_config(options, labels=["x", "y"]).labels == ("x", "y")
    with pytest.raises(TaskError, match=r"no training split .*, only test"):
        from_config(options)


@pytest.mark.parametrize(
    ("columns", "label_column", "note"),
    [
        ("text", "", "there is no column of labels: nothing is labelled"),
        ("text", "stars", "there is no column 'stars': nothing is labelled"),
        ("text,label", "stars", "there is no column 'stars': nothing is labelled"),
        ("text,source", "", "there is no column of labels: nothing is labelled"),
    ],
)
def test_texts_without_labels_can_be_predicted(columns: str, label_column: str, note: str, tmp_path: Path) -> None:
    width = columns.count(",") + 1
    data = file(tmp_path, "new.csv", f"{columns}\n" + "".join(",".join([f"film {n}"] * width) + "\n" for n in range(3)))
    options = TaskConfig(name="classification", data=str(data), text_column="text", label_column=label_column)
    task = from_config(options, ["bad", "good"])
    read = task.read("dev", is_whole=True)
    assert (read.is_labelled, [example.label for example in read.examples]) == (False, [None] * 3)
    assert note in task.notes


def test_pairs_of_ones_own_may_be_swapped_if_asked(tmp_path: Path) -> None:
    task = TabularTask("t", _split(tmp_path, "text1,text2,label\na,b,x\nc,d,y\n"))
    assert len(task.swapped(task.read("train").examples)) == 4


@pytest.mark.parametrize("names", [["train.csv", "train.tsv"], ["dev.csv", "valid.csv"]])
def test_two_files_for_one_split_are_refused(names: list[str], tmp_path: Path) -> None:
    for name in names:
        file(tmp_path, name, REVIEWS)
    with pytest.raises(TaskError, match=f"{names[0]} and {names[1]} are both"):
        TabularTask("t", tmp_path)


def test_missing_data_is_named_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no file in it ends in \.csv.*it holds notes\.md"):
        file(tmp_path, "notes.md", "")
        TabularTask("t", tmp_path)
    with pytest.raises(TaskError, match=r"no such file or folder.*notes\.md"):
        TabularTask("t", tmp_path / "gone.csv")
    with pytest.raises(TaskError, match="unknown split 'test'"):
        TabularTask("t", file(tmp_path, "train.csv", REVIEWS)).read("test")


def test_a_configuration_makes_the_task(tmp_path: Path) -> None:
    data = file(tmp_path, "films.csv", "a,b\nx,1.5\ny,2\nz,3\n")
    options = TaskConfig(name="regression", data=str(data), text_column="a", label_column="b")
    task = from_config(options)
    assert (task.name, task.labels) == ("films", ()) and isinstance(task.objective(), Regression)


@pytest.mark.parametrize("given", [".", "../v1.2", "../v1.2/"])
def test_a_task_is_called_as_its_folder(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "v1.2"
    folder.mkdir()
    file(folder, "train.csv", REVIEWS)
    monkeypatch.chdir(folder)
    assert from_config(TaskConfig(name="classification", data=given)).name == "v1.2"


def _split(folder: Path, content: str) -> Path:
    """A folder whose training file is not split."""
    file(folder, "train.csv", content)
    file(folder, "dev.csv", content)
    return folder
