"""GLUE's official files, line by line as they are published, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.tasks.glue import GLUE, GlueTask
from trueneg.tasks.metrics import METRICS

FILES = {
    "cola": ("CoLA", "gj04\t1\t\tThey drank.\ngj04\t0\t*\tThey drank the \"pub.\n",
             [("0", "They drank.", None, 1), ("1", 'They drank the "pub.', None, 0)]),
    "sst2": ("SST-2", "sentence\tlabel\nhide new \t0\na \"good film\t1\n",
             [("0", "hide new ", None, 0), ("1", 'a "good film', None, 1)]),
    "mrpc": ("MRPC",
             "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe\tShe\r\n0\t9\t7\t\"A\tB\r\n",
             [("0", "He", "She", 1), ("1", '"A', "B", 0)]),
    "stsb": ("STS-B",
             "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
             "4\tnews\tf\t2012\t1\tn\tn\tA\tB\t5.000\n6\tnews\tf\t2012\t1\tn\tn\tC\tD\t0.25\n",
             [("4", "A", "B", 5.0), ("6", "C", "D", 0.25)]),
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n40\t1\t2\tWhy?\tHow?\t0\n9\t1\t2\tA\tB\t1\n",
            [("40", "Why?", "How?", 0), ("9", "A", "B", 1)]),
    "mnli": ("MNLI",
             "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
             "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
             "0\tp\tq\tg\tb\tb\ts\ts\tA\tB\tneutral\tcontradiction\n1\tp\tq\tg\tb\tb\ts\ts\tC\tD\tneutral\tneutral\n",
             [("0", "A", "B", 0), ("1", "C", "D", 2)]),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel\n0\tQ?\tS\tnot_entailment\n1\tQ?\tS\tentailment\n",
             [("0", "Q?", "S", 1), ("1", "Q?", "S", 0)]),
    "rte": ("RTE", "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n1\tA\tB\tnot_entailment\n",
            [("0", "A", "B", 0), ("1", "A", "B", 1)]),
    "wnli": ("WNLI", "index\tsentence1\tsentence2\tlabel\n0\tA\tB\t1\n1\tA\tB\t0\n",
             [("0", "A", "B", 1), ("1", "A", "B", 0)]),
}  # fmt: skip
"""Of each task: its folder, a training file as it is published, and the examples in it."""


def write(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode(errors="surrogateescape"))
    return folder


def rte(tmp_path: Path, content: str, name: str = "train.tsv") -> GlueTask:
    return GlueTask("rte", write(tmp_path / "RTE", name, content))


HEADER = "index\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize("name", sorted(FILES))
def test_official_files_are_read_in_any_casing_of_their_folder(name: str, tmp_path: Path) -> None:
    folder, content, expected = FILES[name]
    inner = write(tmp_path / folder.lower().replace("-", "_"), "train.tsv", content)
    split = GlueTask(name, tmp_path).read("train")
    assert [(e.key, e.text, e.second, e.label) for e in split.examples] == expected
    assert split.is_labelled and split.counts == {}
    assert GlueTask(name, inner).read("train") == split


def test_every_task_has_a_metric_and_says_what_kind_it_is() -> None:
    for name, dataset in GLUE.items():
        assert set(dataset.metrics) <= set(METRICS), name
        assert list(dataset.labels) == sorted(dataset.labels), name
    assert {name: dataset.metrics[0] for name, dataset in GLUE.items() if dataset.metrics[0] != "accuracy"} == {
        "cola": "matthews",
        "stsb": "spearman",
        "ax": "matthews",
    }
    assert {name for name, dataset in GLUE.items() if dataset.shared_text == "text"} == {"mnli", "ax", "qnli"}


def test_test_splits_have_no_labels_and_keep_their_index(tmp_path: Path) -> None:
    write(tmp_path / "CoLA", "test.tsv", "index\tsentence\n17\tBill whistled.\n18\tThe car.\n")
    cola = GlueTask("cola", tmp_path).read("test")
    assert [(e.key, e.label) for e in cola.examples] == [("17", None), ("18", None)]
    assert not cola.is_labelled
    write(tmp_path / "MRPC", "test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n5\t1\t2\tA\tB\n")
    mrpc = GlueTask("mrpc", tmp_path).read("test")
    assert (mrpc.examples[0].key, mrpc.is_labelled) == ("5", False)


def test_mnli_has_two_of_each_held_out_split(tmp_path: Path) -> None:
    header, row, _ = FILES["mnli"][1].split("\n", 2)
    folder = write(tmp_path / "MNLI", "train.tsv", FILES["mnli"][1])
    for split in ("dev_matched", "dev_mismatched"):  # they have five annotators' labels before the gold one
        wide = header.replace("label1", "label1\tlabel2\tlabel3\tlabel4\tlabel5")
        cells = row.split("\t")
        write(folder, f"{split}.tsv", f"{wide}\n" + "\t".join([*cells[:11], *["-"] * 4, cells[11]]) + "\n")
    unlabelled = "\t".join(header.split("\t")[:10]) + "\n" + "\t".join(row.split("\t")[:10]) + "\n"
    for split in ("test_matched", "test_mismatched"):
        write(folder, f"{split}.tsv", unlabelled)
    task = GlueTask("mnli", tmp_path)
    assert task.dev_splits == ("dev_matched", "dev_mismatched")
    assert [task.read(split).examples[0].label for split in task.dev_splits] == [0, 0]
    assert task.shared_text == "text"
    assert not task.read("test_matched").is_labelled and not task.read("test_mismatched").is_labelled


def test_pairs_without_a_gold_label_are_left_out_and_counted(tmp_path: Path) -> None:
    content = FILES["mnli"][1] + "2\tp\tq\tg\tb\tb\ts\ts\tC\tD\tneutral\t-\n"
    write(tmp_path / "MNLI", "train.tsv", content)
    split = GlueTask("mnli", tmp_path).read("train")
    assert len(split.examples) == 2 and split.counts == {"undecided": 1}


def test_the_diagnostic_set_is_for_a_model_of_mnli(tmp_path: Path) -> None:
    write(tmp_path / "MNLI", "train.tsv", FILES["mnli"][1])
    write(tmp_path / "diagnostic", "diagnostic.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n")
    task = GlueTask("ax", tmp_path)
    assert task.labels == GlueTask("mnli", tmp_path).labels and task.dev_splits == ()
    assert [e.key for e in task.read("test").examples] == ["0"]
    with pytest.raises(TaskError, match="glue/mnli"):
        task.read("train")


def test_the_original_mrpc_files_will_do_and_leave_dev_out(tmp_path: Path) -> None:
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    folder = write(tmp_path / "MRPC", "msr_paraphrase_train.txt", header + "1\t7\t8\tHe\tShe\n0\t9\t7\tA\tB\n")
    write(folder, "msr_paraphrase_test.txt", header + "1\t1\t2\tX\tY\n")
    task = GlueTask("mrpc", tmp_path)
    assert len(task.read("train").examples) == 2
    assert task.read("test").is_labelled
    write(folder, "dev.tsv", header + "0\t9\t7\tA\tB\n")
    train = task.read("train")
    assert [e.text for e in train.examples] == ["He"] and train.counts == {"in_dev": 1}


def test_odd_characters_end_no_line(tmp_path: Path) -> None:
    content = HEADER + "0\ta\u2028b\x85c\x0cd\re\tB\tentailment\n1\tA\tB\tentailment\n"
    examples = rte(tmp_path, content).read("train").examples
    assert [e.text for e in examples] == ["a\u2028b\x85c\x0cd\re", "A"]


@pytest.mark.parametrize(
    ("rows", "keys", "counts"),
    [
        ("0\t\tB\tentailment\n1\tA\t \tentailment\n2\tA\tB\tentailment\n", ["0", "1", "2"], {"empty_texts": 2}),
        ("5\tA\tB\tentailment\n5\tC\tD\tentailment\n", ["5", "5#2"], {"duplicate_keys": 1}),
    ],
)
def test_what_is_odd_is_kept_and_counted(rows: str, keys: list[str], counts: dict[str, int], tmp_path: Path) -> None:
    split = rte(tmp_path, HEADER + rows).read("train")
    assert [e.key for e in split.examples] == keys and split.counts == counts


def lines(num: int) -> str:
    return HEADER + "".join(f"{n}\tA\tB\tentailment\n" for n in range(num))


def test_few_broken_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    split = rte(tmp_path, lines(99) + "99\tbroken\n\n").read("train")
    assert len(split.examples) == 99 and split.counts == {"malformed_lines": 1, "blank_lines": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines(98) + "98\tbroken\n", r"train\.tsv:100: 4 columns expected, 2 found, .*in 1 of 99 lines"),
        (lines(1) + "1\tA\tB\tC\tentailment\n", r"train\.tsv:3: 4 columns expected, 5 found"),
        (HEADER + "0\tA\udcff\tB\tentailment\n", r"train\.tsv:2: not UTF-8"),
        (lines(1) + "1\tA\tB\tentailed\n", r"train\.tsv:3: unknown label 'entailed': did you mean 'entailment'"),
        (lines(1) + "1\tA\tB\t\n", r"train\.tsv:3: no label"),
        (lines(1).replace("e1", "1"), r"train\.tsv: unknown column 'sentence1': did you mean 'sentenc1'"),
        (HEADER, r"train\.tsv: no rows"),
        ("", r"train\.tsv: the file is empty"),
        (HEADER.replace("label", "index"), "two columns are called 'index'"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        rte(tmp_path, content).read("train")


@pytest.mark.parametrize("score", ["nan", "inf", "high"])
def test_scores_that_are_no_finite_numbers_are_refused(score: str, tmp_path: Path) -> None:
    write(tmp_path / "STS-B", "train.tsv", FILES["stsb"][1].replace("0.25", score))
    with pytest.raises(TaskError, match=rf"train\.tsv:3: '{score}' is no finite number"):
        GlueTask("stsb", tmp_path).read("train")


def test_missing_files_are_named_with_what_is_there(tmp_path: Path) -> None:
    task = rte(tmp_path, HEADER)
    with pytest.raises(TaskError, match=r"glue/rte: no dev\.tsv in .*: it holds train\.tsv"):
        task.read("dev")
    with pytest.raises(TaskError, match="neither WNLI/ nor its files in it: it holds RTE/"):
        GlueTask("wnli", tmp_path)
    with pytest.raises(TaskError, match="no such folder"):
        GlueTask("rte", tmp_path / "nowhere")


def test_a_configuration_makes_the_task(tmp_path: Path) -> None:
    write(tmp_path / "RTE", "train.tsv", lines(1))
    task = GlueTask.from_config(TaskConfig(name="glue/rte", data=str(tmp_path)))
    assert task.name == "glue/rte" and len(task.read("train").examples) == 1
    with pytest.raises(ConfigError, match="did you mean 'rte'"):
        GlueTask.from_config(TaskConfig(name="glue/rtw", data=str(tmp_path)))
