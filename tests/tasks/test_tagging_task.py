"""Words as rows of pieces, and outputs as tags, words and entities that are right."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from evaluation.labelled_tokenizers import byte_level, wordpiece
from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, ModelError, TaskError
from trueneg.evaluation.results.store import columns_of
from trueneg.tasks.conll import Sentence
from trueneg.tasks.metrics import METRICS
from trueneg.tasks.tagging import TaggedRows, TaggingTask
from trueneg.training.features import NO_TARGET

NER = "the O\nxyz B-PER\nx I-PER\n\ncat O\nsat B-LOC\n"
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def data(folder: Path, train: str = NER, **splits: str) -> Path:
    for name, content in {"train": train, "dev": train, **splits}.items():
        (folder / f"{name}.txt").write_text(content)
    return folder


def ner(tmp_path: Path) -> TaggingTask:
    return TaggingTask("ner", data(tmp_path))


def rows_of(encoded: TaggedRows, tokenizer: PreTrainedTokenizerFast) -> list[str]:
    starts, ids = encoded.features.starts, encoded.features.input_ids
    return [" ".join(tokenizer.convert_ids_to_tokens(ids[a:b])) for a, b in itertools.pairwise(starts)]


def said(task: TaggingTask, encoded: TaggedRows, tags: list[list[str]]) -> list[np.ndarray]:  # type: ignore[type-arg]
    """Outputs of a model that says these tags of words, and of every other token the last label."""
    outputs = []
    for row, (a, b) in enumerate(itertools.pairwise(encoded.features.starts)):
        numbers = np.zeros((b - a, len(task.labels)), np.float32)
        numbers[:, -1] = 1
        for at, word in enumerate(encoded.words[a:b]):
            if word >= 0:
                numbers[at, task.labels.index(tags[encoded.row_examples[row]][word])] = 2
        outputs.append(numbers)
    return outputs


def test_tags_of_entities_are_told_and_both_marks_of_each_kind_are_labels(tmp_path: Path) -> None:
    task = ner(tmp_path)
    assert task.labels == LABELS and task.metrics == ("span_f1", "token_accuracy") and task.num_outputs == 5


@pytest.mark.parametrize("marks", ["III", "BES"])
def test_other_schemes_are_read_as_iob2(marks: str, tmp_path: Path) -> None:
    first, second, third = marks
    train = f"the O\nxyz {first}-PER\nx {second}-PER\n\ncat O\nsat {third}-LOC\n"
    task = TaggingTask("ner", data(tmp_path, train))
    assert [s.tags for s in task.read("train").examples] == [("O", "B-PER", "I-PER"), ("O", "B-LOC")]
    assert task.read("train").counts == {} and task.labels == LABELS


def test_an_entity_that_begins_wrongly_is_repaired_and_counted(tmp_path: Path) -> None:
    task = TaggingTask("ner", data(tmp_path, dev="the O\ncat I-PER\n"))
    dev = task.read("dev")
    assert dev.examples[0].tags == ("O", "B-PER") and dev.counts == {"repaired_tags": 1}


def test_a_word_has_its_tag_on_its_first_piece(tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), wordpiece()
    encoded = task.encode(task.read("train").examples, tokenizer, 16, is_training=True)
    assert rows_of(encoded, tokenizer) == ["[CLS] the x ##y ##z x [SEP]", "[CLS] cat sat [SEP]"]
    none = NO_TARGET
    assert encoded.features.token_targets["tags"].tolist() == [none, 0, 3, none, none, 4, none, none, 0, 1, none]
    assert encoded.features.token_type_ids is not None and encoded.counts == {}
    assert task.encode(task.read("train").examples, tokenizer, 16, is_training=False).features.token_targets == {}


def test_byte_level_words_are_read_as_after_a_space(tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), byte_level()
    encoded = task.encode([Sentence("0", ("cat", "cat"), None, 1)], tokenizer, 16, is_training=False)
    assert rows_of(encoded, tokenizer) == ["[CLS] Ġcat Ġcat [SEP]"]
    assert encoded.words.tolist() == [-1, 0, 1, -1]


def test_a_sentence_that_is_too_long_goes_on_in_further_rows(tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), wordpiece()
    sentence = Sentence("0", ("the", "cat", "xyz", "on"), ("O", "O", "B-PER", "O"), 1)
    encoded = task.encode([sentence], tokenizer, 6, is_training=True)
    # The cut word has no tag where it is cut, and is read whole in the next row.
    assert rows_of(encoded, tokenizer) == ["[CLS] the cat x ##y [SEP]", "[CLS] x ##y ##z on [SEP]"]
    assert encoded.words.tolist() == [-1, 0, 1, -1, -1, -1, -1, 2, -1, -1, 3, -1]
    assert encoded.counts == {"split_sentences": 1}


@pytest.mark.parametrize("length", range(3, 12))
def test_every_word_is_answered_once_at_any_length(length: int, tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), wordpiece()
    words = ("abcdefghij", "the", "xy", " ", "cat", "mnopqrst", "on")
    tags = ["B-PER", "O", "B-LOC", "I-LOC", "I-PER", "O", "B-PER"]
    examples = [Sentence("0", words, tuple(tags), 1), Sentence("1", ("the",), ("O",), 9)]
    encoded = task.encode(examples, tokenizer, length, is_training=True)
    assert sorted(encoded.words[encoded.words >= 0].tolist()) == [0, 0, 1, 2, 4, 5, 6]  # " " has no piece
    assert max(encoded.features.lengths) <= length
    assert encoded.counts["words_without_pieces"] == 1
    first = task.predictions(examples, encoded, said(task, encoded, [tags, ["O"]]))[0]
    assert first["predicted"] == [*tags[:3], "O", *tags[4:]]


def test_words_that_never_fit_the_batch_of_words_are_reached(tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), wordpiece()
    sentence = Sentence("0", ("the",) * 50, ("O",) * 50, 1)
    encoded = task.encode([sentence], tokenizer, 7, is_training=True)
    assert sorted(encoded.words[encoded.words >= 0].tolist()) == list(range(50))
    assert encoded.row_examples.tolist() == [0] * 10


def test_answers_count_words_and_entities(tmp_path: Path) -> None:
    task, tokenizer = ner(tmp_path), wordpiece()
    examples = task.read("train").examples
    encoded = task.encode(examples, tokenizer, 16, is_training=False)
    answers = task.predictions(examples, encoded, said(task, encoded, [["O", "B-PER", "O"], ["I-LOC", "B-LOC"]]))
    names = ("num_tokens", "num_tokens_right", "num_gold", "num_predicted", "num_right")
    first = {"key": "0", "gold": ["O", "B-PER", "I-PER"], "predicted": ["O", "B-PER", "O"]}
    second = {"key": "1", "gold": ["O", "B-LOC"], "predicted": ["I-LOC", "B-LOC"]}
    assert answers == [
        first | dict(zip(names, (3, 2, 1, 1, 0), strict=True)),
        second | dict(zip(names, (2, 1, 1, 2, 1), strict=True)),
    ]
    columns = columns_of(answers)
    assert METRICS["span_f1"](columns) == pytest.approx(2 * 1 / (2 + 3))
    assert METRICS["token_accuracy"](columns) == pytest.approx(3 / 5)


def test_parts_of_speech_are_scored_by_word(tmp_path: Path) -> None:
    task = TaggingTask("pos", data(tmp_path, "the DT\ncat NN\n\nmat NN\n"))
    assert task.labels == ("DT", "NN") and task.metrics == ("token_accuracy",) and task.fallback == "NN"
    examples = task.read("dev").examples
    encoded = task.encode(examples, wordpiece(), 8, is_training=False)
    answers = task.predictions(examples, encoded, said(task, encoded, [["DT", "DT"], ["NN"]]))
    assert METRICS["token_accuracy"](columns_of(answers)) == pytest.approx(2 / 3)
    assert "num_gold" not in answers[0]


def test_untagged_words_are_answered_and_not_trained_on(tmp_path: Path) -> None:
    task = TaggingTask("ner", data(tmp_path, test="the\ncat\n"))
    split = task.read("test")
    assert not split.is_labelled
    encoded = task.encode(split.examples, wordpiece(), 8, is_training=False)
    assert task.predictions(split.examples, encoded, said(task, encoded, [["O", "B-PER"]])) == [
        {"key": "0", "predicted": ["O", "B-PER"]}
    ]
    with pytest.raises(TaskError, match="sentence '0' has no tags"):
        task.encode(split.examples, wordpiece(), 8, is_training=True)


def test_outputs_that_are_not_finite_are_refused_by_sentence(tmp_path: Path) -> None:
    task = ner(tmp_path)
    examples = task.read("train").examples
    encoded = task.encode(examples, wordpiece(), 16, is_training=False)
    outputs = said(task, encoded, [["O"] * 3, ["O"] * 2])
    outputs[1][1, 0] = np.nan
    with pytest.raises(ModelError, match="'1' is not finite"):
        task.predictions(examples, encoded, outputs)


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        (NER, "the O\n\nMay O\nParis B-LOK\n", r"dev\.txt:3: 'Paris' .*unknown tag 'B-LOK': did you mean 'B-LOC'"),
        ("a B-LOC\nb PER\n", NER, r"train\.txt: the tag 'PER'"),
        ("a\nb\n", NER, r"train\.txt: one column"),
    ],
)
def test_tags_that_do_not_fit_name_their_file(train: str, dev: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        TaggingTask("ner", data(tmp_path, train, dev=dev)).read("dev")


def test_one_file_has_a_validation_part_set_aside(tmp_path: Path) -> None:
    sentences = "".join(f"w{n} {'B-PER' if n % 2 else 'O'}\n\n" for n in range(40))
    (tmp_path / "names.conll").write_text(sentences)
    task = TaggingTask("ner", tmp_path / "names.conll", validation_fraction=0.2)
    train, dev = task.read("train").examples, task.read("dev").examples
    assert (len(train), len(dev)) == (32, 8) and not {s.key for s in train} & {s.key for s in dev}
    assert sum(s.tags == ("B-PER",) for s in dev) == 4


def test_the_names_of_conll_2003_and_universal_dependencies(tmp_path: Path) -> None:
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / name).write_text(NER)
    assert sorted(TaggingTask("ner", tmp_path).source.splits) == ["dev", "test", "train"]


def test_a_subset_keeps_sentences_with_rare_tags(tmp_path: Path) -> None:
    sentences = "".join(f"a O\nw{n} {'B-PER' if n == 30 else 'O'}\n\n" for n in range(40))
    task = TaggingTask("ner", data(tmp_path, sentences))
    assert "30" in {sentence.key for sentence in task.subset(task.read("train").examples, 4, seed=0)}


def test_a_model_that_has_labels_needs_no_training_file(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text(NER)
    task = TaggingTask("ner", tmp_path, labels=LABELS)
    assert task.is_of_entities and task.read("test").examples[0].tags == ("O", "B-PER", "I-PER")
    with pytest.raises(TaskError, match="no training split"):
        TaggingTask("ner", tmp_path)


def test_a_configuration_makes_the_task(tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("EU NNP B-NP B-ORG\nis VBZ O O\n\nit PRP O O\n")
    task = TaggingTask.from_config(TaskConfig(name="tagging", data=str(tmp_path / "names.conll"), label_column="1"))
    assert task.name == "names" and task.labels == ("NNP", "PRP", "VBZ")
    with pytest.raises(ConfigError, match="--label-column tag"):
        TaggingTask.from_config(TaskConfig(name="tagging", data=str(tmp_path / "names.conll"), label_column="tag"))
