"""Made-up data: every reader of the released formats reads its part of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trueneg.attacks.squad.swap_synonyms import SwapOptions, swap_synonyms
from trueneg.attacks.word_substitution.neighbours import neighbours_by_vectors
from trueneg.config.objective_options import TripletConfig
from trueneg.errors import ConfigError
from trueneg.evaluation.detectors.swords import read_benchmark
from trueneg.evaluation.encoders.triplet_making import make_triplets
from trueneg.lexicon.pattern_tagger import with_safe_rules
from trueneg.lexicon.vectors import load_vectors
from trueneg.lexicon.wordnet import WordNet
from trueneg.recipes.made_up_data import made_up_data
from trueneg.tasks.base import Task
from trueneg.tasks.cline import CLINE, ClineTask
from trueneg.tasks.contrast_sets import CONTRAST_SETS, read_contrast_set
from trueneg.tasks.glue import GLUE, GlueTask
from trueneg.tasks.squad import SquadTask

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
TASKS = [*(f"glue/{name}" for name in GLUE if name not in ("ax", "wnli")), *CLINE]
OWN_COUNTS = {"missing_from_release", "set_aside", "of_train", "in_contrast_set"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_data(tmp_path_factory.mktemp("made-up") / "data")


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    return WordNet.load(WORDNET)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def task_of(name: str, data: Path) -> Task[Any]:
    return GlueTask(name[5:], data / "glue") if name.startswith("glue/") else ClineTask(name, data / "cline_eval")


@pytest.mark.parametrize("name", TASKS)
def test_splits_of_a_task_have_labels_and_nothing_malformed(name: str, data: Path) -> None:
    task = task_of(name, data)
    for split in ("train", *task.dev_splits):
        read = task.read(split)
        assert read.is_labelled and {*read.counts} <= OWN_COUNTS, split
        assert read.examples, split
    labels = Counter(example.label for example in task.read("train").examples)
    assert len(labels) == (len(task.labels) or 3)
    assert max(labels.values()) <= min(labels.values()) + 4, "each label has its share"


def test_test_splits_of_glue_and_boolq_are_without_labels(data: Path) -> None:
    for name in TASKS[:8]:
        for split in ("test_matched", "test_mismatched") if name == "glue/mnli" else ("test",):
            read = task_of(name, data).read(split)
            assert (read.is_labelled, len(read.examples), dict(read.counts)) == (False, 12, {}), name
    assert not ClineTask("boolq", data / "cline_eval").read("test").is_labelled


def test_answers_of_squad_are_where_they_are_said_to_be(data: Path) -> None:
    task = SquadTask(data / "squad")
    for split, num in (("train", 36), ("dev", 18)):
        read = task.read(split)
        assert len(read.examples) == num and not read.counts  # an answer elsewhere would be counted


@pytest.mark.parametrize("name", CONTRAST_SETS)
def test_contrast_sets(name: str, data: Path) -> None:
    read = read_contrast_set(name, data / "cline_eval")
    assert len(read.original.examples) == 12 and not read.counts  # no revision with its original's text or label
    assert {example.label for example in read.original.examples} == {*range(len(read.labels))}
    if name in ("imdb", "snli"):
        assert len(read_contrast_set(name, data / "cline_eval", "dev").original.examples) == 12


def test_reviews_and_their_revisions_differ_in_the_words_of_the_label(data: Path) -> None:
    read = read_contrast_set("imdb", data / "cline_eval")
    for one, other in zip(read.original.examples, read.revised.examples, strict=True):
        words = [(a, b) for a, b in zip(one.text.split(), other.text.split(), strict=True) if a != b]
        assert len(words) == 3
        pairs = words if one.label else [pair[::-1] for pair in words]
        assert all(a in ("happy", "glad", "cheerful") and b in ("unhappy", "sad") for a, b in pairs)


def test_a_small_wordnet_knows_synonyms_and_antonyms(data: Path, wordnet: WordNet) -> None:
    tagger = with_safe_rules()
    sentences = (data / "corpus" / "made-up.txt").read_text().replace("\n\n", " ").split(". ")
    assert len(sentences) > 300
    config = TripletConfig(senses="first")  # it has no counts of senses
    assert len(make_triplets(sentences, tagger, wordnet, config=config)) > len(sentences) / 2
    examples = SquadTask(data / "squad").read("dev").examples
    attacked = swap_synonyms(examples, seed=0, wordnet=wordnet, tagger=tagger, options=SwapOptions.textflint())
    assert {one.outcome for one in attacked} == {"changed"}


def test_vectors_have_synonyms_as_neighbours_and_no_antonyms(data: Path) -> None:
    vectors = load_vectors(data / "vectors" / "made-up.50d.txt")
    near = neighbours_by_vectors(vectors, min_cosine=0.7)
    assert {*near.near("happy")} == {"glad", "cheerful"} and near.near("small") == ["little"]
    assert vectors.matrix.shape[1] == 50
    text = (data / "corpus" / "made-up.txt").read_text().lower().replace(".", " ").replace("?", " ")
    assert {*text.split()} <= {*vectors.words}


def test_people_accept_synonyms_in_the_made_up_judgements(data: Path) -> None:
    items = read_benchmark(data / "substitution").items
    assert len({item.target_id for item in items}) > 10
    shares = {(item.lemma, item.substitute_lemma): item.acceptability for item in items}
    assert shares["glad", "happy"] == 1.0 and shares["glad", "sad"] == 0.4
    for item in items:
        place = item.substitution
        assert place.text[place.start : place.end] == item.lemma


def test_wikitext_has_headings_and_spaced_text(data: Path) -> None:
    lines = (data / "wikitext" / "wiki.test.raw").read_text().splitlines()
    assert sum(line.startswith(" = ") and line.endswith(" = ") for line in lines) == 10
    assert all(line.startswith(" ") and line.endswith(" ") for line in lines)


def test_bytes_follow_from_the_seed_and_what_is_written_again_replaces(data: Path, tmp_path: Path) -> None:
    other = made_up_data(tmp_path / "other", num=30, seed=1)
    assert contents(other) != contents(data)
    assert contents(made_up_data(other)) == contents(data), "nothing of the larger one is left"
    changed = contents(made_up_data(tmp_path / "again", seed=1))
    same = {name for name, content in changed.items() if content == contents(data).get(name)}
    assert same == {"README.txt", "cline_eval/perspectrum/data/dataset/dataset_split_v1.0.json"}  # no text in them


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 12, got 3"):
        made_up_data(tmp_path, num=3)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else"):
        made_up_data(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_is_written_without_torch() -> None:
    code = "import sys, trueneg.recipes.made_up_data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_data_that_are_there_are_left_alone(tmp_path: Path) -> None:
    """Jobs of another process may read them, and would count for nothing."""
    folder = made_up_data(tmp_path / "data", num=12)
    paths = sorted(folder.rglob("*"))
    before = [path.stat() for path in paths]
    made_up_data(folder, num=12)
    assert [path.stat().st_ctime_ns for path in paths] == [one.st_ctime_ns for one in before]
    changed, further = folder / "squad" / "dev-v1.1.json", folder / "squad" / "further.json"
    whole = changed.read_bytes()
    changed.write_bytes(whole[:-9])
    further.write_text("{}")
    made_up_data(folder, num=12)
    assert changed.read_bytes() == whole and not further.exists()
