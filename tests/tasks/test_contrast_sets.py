"""Contrast sets: who belongs to whom, and how often a model is right throughout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification

import tiny
from evaluation.labelled_tokenizers import wordpiece
from trueneg.errors import ConfigError, TaskError
from trueneg.evaluation.contrast_sets import (
    CONTRAST_METRICS,
    group_predictions,
    predict_contrast_set,
    training_counts,
)
from trueneg.evaluation.results.store import columns_of
from trueneg.tasks.base import Split, digest_of
from trueneg.tasks.cline import CLINE, ClineTask
from trueneg.tasks.contrast_sets import CONTRAST_SETS, LABELS, ContrastSet, originals_next_to, read_contrast_set
from trueneg.tasks.text import TextExample

IMDB = "contrast-sets/IMDb/data"
PAIRED = "counterfactually-augmented-data/sentiment/combined/paired"
NLI = "counterfactually-augmented-data/NLI"


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def made_imdb(data: Path) -> Path:
    header = "Sentiment\tText\n"
    write(data / IMDB / "test_original.tsv", header + 'Negative\t"It is ""bad"".<br /><br />So."\nPositive\tGood\n')
    write(data / IMDB / "test_contrast.tsv", header + "Positive\tIt is fine.\nNegative\tNot good\n")
    return data


def made_boolq(data: Path) -> Path:
    entries = [
        ("Paragraph", "Question", "Gold Answer", [("Perturbed Q", "New Answer")]),
        ("P1", "is it", "TRUE", [("is it not", "FALSE"), ("is it", "TRUE"), ("is it not", "FALSE"), ("", "")]),
        ("P2", "was it", "FALSE", [("", "")]),
    ]
    content = [
        {
            "title": "T", "paragraph": paragraph, "question": question, "answer": answer,
            "perturbed_questions": [{"perturbed_q": q, "answer": a} for q, a in revisions],
        }
        for paragraph, question, answer, revisions in entries
    ]  # fmt: skip
    write(data / "contrast-sets" / "BoolQ" / "boolq_perturbed.json", json.dumps({"data": content}))
    return data


def made_perspectrum(data: Path) -> Path:
    header = (
        "original_claim,contrast_claim,perspective,original_relevance_label,original_stance_label,"
        "contrast_relevance_label,contrast_stance_label\n"
    )
    rows = 'Cats,No cats,"Soft, warm",1,pos,1,neg\nCats,No cats,Claws,1,neg,1,neg\nCats,No cats,Mats,0,unk,1,neg\n'
    write(data / "contrast-sets" / "perspectrum" / "perspectrum_contrast_sets.csv", header + rows)
    return data


def made_snli(data: Path, premise: str = "A2\tB\tneutral\n") -> Path:
    header = "sentence1\tsentence2\tgold_label\n"
    write(data / NLI / "original" / "test.tsv", f"{header}A\tB\tentailment\nC\tD\tneutral\n")
    write(
        data / NLI / "revised_premise" / "test.tsv",
        f"{header}{premise}A3\tB\tcontradiction\nC2\tD\tentailment\nC3\tD\tcontradiction\n",
    )
    write(
        data / NLI / "revised_hypothesis" / "test.tsv",
        f"{header}A\tB2\tneutral\nA\tB3\tcontradiction\nC\tD2\tentailment\nC\tD3\tcontradiction\n",
    )
    return data


def shown(examples: Sequence[TextExample]) -> list[tuple[str, str, str | None, Any, str | None]]:
    return [(e.key, e.text, e.second, e.label, e.group) for e in examples]


def test_imdb_pairs_rows_of_two_files(tmp_path: Path) -> None:
    contrast = read_contrast_set("imdb", made_imdb(tmp_path))
    assert shown(contrast.original.examples) == [
        ("0", 'It is "bad". So.', None, 0, "0"),
        ("1", "Good", None, 1, "1"),
    ]
    assert shown(contrast.revised.examples) == [
        ("0/1", "It is fine.", None, 1, "0"),
        ("1/1", "Not good", None, 0, "1"),
    ]
    assert contrast.counts == {} and contrast.clusters == {} and contrast.original.is_labelled


def test_files_of_different_rows_are_refused(tmp_path: Path) -> None:
    made_imdb(tmp_path)
    write(tmp_path / IMDB / "test_contrast.tsv", "Sentiment\tText\nPositive\tIt is fine.\n")
    with pytest.raises(TaskError, match="the same ones"):
        read_contrast_set("imdb", tmp_path)


def test_counterfactual_reviews_are_paired_by_their_number_the_original_first(tmp_path: Path) -> None:
    rows = "Positive\tA\t9\nNegative\tB\t7\nNegative\tA.\t9\nPositive\tC\t7\nPositive\talone\t8\n"
    write(tmp_path / PAIRED / "dev_paired.tsv", f"Sentiment\tText\tbatch_id\n{rows}")
    contrast = read_contrast_set("imdb", tmp_path, "dev")
    assert shown(contrast.original.examples) == [("9", "A", None, 1, "9"), ("7", "B", None, 0, "7")]
    assert shown(contrast.revised.examples) == [("9/1", "A.", None, 0, "9"), ("7/1", "C", None, 1, "7")]
    assert contrast.counts == {"unusable": 1, "unchanged_texts": 1}


def test_boolqs_template_and_empty_questions_are_left_out(tmp_path: Path) -> None:
    contrast = read_contrast_set("boolq", made_boolq(tmp_path))
    assert shown(contrast.original.examples) == [("1", "is it", "P1", 1, "1"), ("2", "was it", "P2", 0, "2")]
    assert shown(contrast.revised.examples) == [
        ("1/1", "is it not", "P1", 0, "1"),
        ("1/2", "is it", "P1", 1, "1"),
        ("1/3", "is it not", "P1", 0, "1"),
    ]
    assert contrast.counts == {
        "unusable": 3, "without_revision": 1, "unchanged_texts": 1, "same_labels": 1, "repeated": 1,
    }  # fmt: skip


def test_perspectives_without_a_stance_are_left_out_and_claims_are_clusters(tmp_path: Path) -> None:
    contrast = read_contrast_set("perspectrum", made_perspectrum(tmp_path))
    assert shown(contrast.original.examples) == [
        ("0", "Cats", "Soft, warm", 1, "0"),
        ("1", "Cats", "Claws", 0, "1"),
    ]
    assert shown(contrast.revised.examples) == [
        ("0/1", "No cats", "Soft, warm", 0, "0"),
        ("1/1", "No cats", "Claws", 0, "1"),
    ]
    assert contrast.clusters == {"0": "Cats", "1": "Cats"}
    assert contrast.counts == {"unusable": 1, "same_labels": 1}


def test_snli_has_two_revisions_of_either_sentence(tmp_path: Path) -> None:
    contrast = read_contrast_set("snli", made_snli(tmp_path))
    assert shown(contrast.original.examples) == [("0", "A", "B", 1, "0"), ("1", "C", "D", 2, "1")]
    assert [(e.key, e.text, e.second, e.label) for e in contrast.revised.examples[:5]] == [
        ("0/1", "A2", "B", 2),
        ("0/2", "A3", "B", 0),
        ("0/3", "A", "B2", 2),
        ("0/4", "A", "B3", 0),
        ("1/1", "C2", "D", 1),
    ]
    assert contrast.counts == {}


def test_revisions_of_other_originals_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"1 revisions in test\.tsv are not of the original"):
        read_contrast_set("snli", made_snli(tmp_path, "A2\tother\tneutral\n"))
    with pytest.raises(TaskError, match="2 originals with 3 and 4 revisions"):
        read_contrast_set("snli", made_snli(tmp_path, ""))


def test_unknown_labels_name_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"revised_premise/test\.tsv:2: unknown label 'maybe'"):
        read_contrast_set("snli", made_snli(tmp_path, "A2\tB\tmaybe\n"))


NO_TEXT = '{"data": [{"answer": "TRUE", "question": "is it", "paragraph": [1], "perturbed_questions": []}]}'


@pytest.mark.parametrize("content", ["{", '{"data": [{"answer": "TRUE"}]}', "[]", NO_TEXT, "[" * 100_000])
def test_a_torn_file_of_boolq_is_refused(tmp_path: Path, content: str) -> None:
    file = made_boolq(tmp_path) / "contrast-sets" / "BoolQ" / "boolq_perturbed.json"
    file.write_text(content)
    with pytest.raises(TaskError, match=r"boolq_perturbed\.json"):
        read_contrast_set("boolq", tmp_path)


def test_a_set_is_found_from_any_folder_above_it(tmp_path: Path) -> None:
    made_boolq(tmp_path)
    folder = tmp_path / "contrast-sets" / "BoolQ"
    expected = read_contrast_set("boolq", tmp_path)
    for place in (folder.parent, folder, folder / "boolq_perturbed.json"):
        assert read_contrast_set("boolq", place) == expected


def test_gardners_reviews_come_before_the_counterfactual_ones(tmp_path: Path) -> None:
    made_imdb(tmp_path)
    write(tmp_path / PAIRED / "test_paired.tsv", "Sentiment\tText\tbatch_id\nPositive\tA\t9\nNegative\tB\t9\n")
    assert read_contrast_set("imdb", tmp_path).source == tmp_path / IMDB
    other = read_contrast_set("imdb", tmp_path / "counterfactually-augmented-data")
    assert [e.text for e in other.original.examples] == ["A"]


@pytest.mark.parametrize("task", sorted(CONTRAST_SETS))
def test_what_is_missing_is_named(tmp_path: Path, task: str) -> None:
    with pytest.raises(TaskError, match=f"no .*(contrast-sets|counterfactually).* for {task}"):
        read_contrast_set(task, tmp_path)
    with pytest.raises(TaskError, match="no such file or folder"):
        read_contrast_set(task, tmp_path / "nowhere")


def test_other_tasks_and_splits_have_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown contrast set 'mr'"):
        read_contrast_set("mr", tmp_path)
    with pytest.raises(TaskError, match="boolq has no 'dev', only 'test'"):
        read_contrast_set("boolq", made_boolq(tmp_path), "dev")


def test_originals_are_found_next_to_the_training_files(tmp_path: Path) -> None:
    made_imdb(tmp_path)
    assert originals_next_to("imdb", tmp_path / "aclImdb") == {"itisbadso|", "good|"}
    assert originals_next_to("imdb", tmp_path / IMDB) == originals_next_to("mr", tmp_path / "aclImdb") == frozenset()


def test_what_a_model_has_seen_of_the_originals_is_counted(tmp_path: Path) -> None:
    """Both originals are in the training files, whatever their case; one more is in no contrast set."""
    contrast = read_contrast_set("imdb", made_imdb(tmp_path))
    for name, text in (("pos/0_9", "GOOD"), ("pos/1_9", "Fine."), ("neg/0_1", "It is bad! So"), ("neg/1_1", "Dull.")):
        file = tmp_path / "aclImdb" / "train" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    task = ClineTask("imdb", tmp_path)
    for left_out, expected in (
        (task.left_out, {"trained_on": 0, "left_out_of_training": 2}),
        ({"good|"}, {"trained_on": 1, "left_out_of_training": 1}),
        ((), {"trained_on": 2}),
    ):
        task.left_out = frozenset(left_out)
        assert training_counts(contrast, task, chosen=lambda examples: examples) == expected
        assert training_counts(contrast, task, chosen=lambda examples: [])["trained_on"] == 0
    digest = digest_of(task.read("train").examples)
    assert training_counts(contrast, task, lambda examples: examples, digest) == expected
    for file in (tmp_path / "aclImdb" / "train").rglob("*.txt"):
        file.write_text(f"{file.read_text()} Really.")
    with pytest.raises(TaskError, match="the training examples have changed since"):
        training_counts(contrast, task, lambda examples: examples, digest)


@pytest.mark.parametrize("task", sorted(CONTRAST_SETS))
def test_labels_are_the_tasks_in_its_order(task: str) -> None:
    assert LABELS[task] == CLINE[task].labels


def made_contrast(rights: Sequence[tuple[bool, Sequence[bool]]]) -> tuple[ContrastSet, list[Any], list[Any]]:
    """Groups in which a model is right and wrong as told, and its answers."""
    original, revised, answers, of_revised = [], [], [], []
    for number, (is_right, others) in enumerate(rights):
        group = str(number)
        original.append(TextExample(group, f"text {group}", label=1, group=group))
        answers.append({"key": group, "group": group, "gold": 1, "predicted": int(is_right)})
        for at, other in enumerate(others):
            revised.append(TextExample(f"{group}/{at}", f"text {group} {at}", label=0, group=group))
            of_revised.append({"key": f"{group}/{at}", "group": group, "gold": 0, "predicted": int(not other)})
    contrast = ContrastSet("imdb", Path(), Split("test", original, True), Split("test", revised, True))
    return contrast, answers, of_revised


def test_an_example_by_hand() -> None:
    contrast, original, revised = made_contrast(
        [(True, [True, False]), (True, [True]), (False, [True, True]), (True, [])]
    )
    columns = columns_of(group_predictions(contrast, original, revised))
    assert {name: metric(columns) for name, metric in CONTRAST_METRICS.items()} == pytest.approx(
        {"original": 3 / 4, "revised": 4 / 5, "pair_consistency": 2 / 5, "group_consistency": 1 / 3}
    )


rights = st.lists(st.tuples(st.booleans(), st.lists(st.booleans(), max_size=4)), min_size=2, max_size=8)


@given(rights.filter(lambda groups: any(others for _, others in groups)))
def test_shares_are_what_they_are_called(groups: list[tuple[bool, list[bool]]]) -> None:
    contrast, original, revised = made_contrast(groups)
    answers = group_predictions(contrast, original, revised)
    columns = columns_of(answers)
    found = {name: metric(columns) for name, metric in CONTRAST_METRICS.items()}
    pairs = [is_right and other for is_right, others in groups for other in others]
    whole = [is_right and all(others) for is_right, others in groups if others]
    assert found["original"] == pytest.approx(np.mean([is_right for is_right, _ in groups]))
    assert found["revised"] == pytest.approx(np.mean([other for _, others in groups for other in others]))
    assert found["pair_consistency"] == pytest.approx(np.mean(pairs))
    assert found["group_consistency"] == pytest.approx(np.mean(whole))
    assert found["pair_consistency"] <= found["revised"]


def test_perspectives_on_a_claim_are_drawn_as_one() -> None:
    contrast, original, revised = made_contrast([(True, [True])] * 3)
    clustered = replace(contrast, clusters={"0": "claim", "1": "claim"})
    assert [row["group"] for row in group_predictions(contrast, original, revised)] == ["0", "1", "2"]
    assert [row["group"] for row in group_predictions(clustered, original, revised)] == ["claim", "claim", "2"]


def test_a_model_answers_originals_and_revisions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = wordpiece()
    model = AutoModelForSequenceClassification.from_config(
        tiny.make_config("bert", vocab_size=len(tokenizer), num_labels=2)
    ).eval()
    contrast = read_contrast_set("boolq", made_boolq(tmp_path))
    task = ClineTask("boolq", tmp_path)
    original, revised, counts = predict_contrast_set(model, task, tokenizer, contrast, length=32)
    assert counts == {"rows": 5, "truncated": 0}
    assert predict_contrast_set(model, task, tokenizer, contrast, length=5)[2] == {"rows": 5, "truncated": 5}
    assert [(a["key"], a["group"], a["gold"]) for a in original] == [("1", "1", 1), ("2", "2", 0)]
    assert [a["key"] for a in revised] == ["1/1", "1/2", "1/3"]
    # The same question and passage, the same answer.
    assert revised[1]["probabilities"] == original[0]["probabilities"]
    assert revised[0]["probabilities"] == revised[2]["probabilities"] != original[0]["probabilities"]
    with pytest.raises(TaskError, match="boolq has the labels false, true, and snli has"):
        predict_contrast_set(model, ClineTask("snli", tmp_path), tokenizer, contrast, length=32)
