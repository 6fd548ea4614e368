"""Distillation: what a teacher says of a sample is what the moved prototypes say of rows that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny_encoders import WORDS, wordpiece

from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.scorers.prototypes import THRESHOLD, Prototypes, PrototypesScorer, learn_prototypes, load_pair
from trueneg.detectors.specification import Leaf
from trueneg.errors import ConfigError, ModelError
from trueneg.evaluation.detectors.distillation import Distilled, distil
from trueneg.tokenizer import save_tokenizer

LENGTH = 24


class Turned(SubstitutionScorer):
    """Accepts what is near to a prototype turned by a known matrix: what one linear map can learn exactly."""

    def __init__(self, file: Path, matrix: np.ndarray) -> None:
        encoder, known = load_pair(Leaf("prototypes", str(file)))
        turned = known.matrix @ matrix
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
        self._cosines = PrototypesScorer(encoder, Prototypes(known.words, turned.astype(np.float32), known.counts))
        self.provenance = {"turned": "by hand"}
        self.asked: list[Substitution] = []

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        self.asked += substitutions
        return np.asarray(1 / (1 + np.exp(-20 * (self._cosines.scores(substitutions) - 0.3))))


class Constant(SubstitutionScorer):
    """Says the same of everything."""

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        return np.ones(len(substitutions))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Documents of words at random."""
    folder, random = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)
    save_tokenizer(wordpiece(), folder / "tok")
    words = [word for word in WORDS if len(word) > 2]
    (folder / "text.txt").write_text("\n\n".join(" ".join(random.choice(words, 20)) for _ in range(120)))
    build_corpus([str(folder / "text.txt")], folder / "tok", folder / "corpus")
    return Corpus.open(folder / "corpus")


@pytest.fixture(scope="module")
def file(corpus: Corpus, bert: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prototypes") / "p.safetensors"
    learn_prototypes(bert, corpus, length=LENGTH, min_count=1).save(path)
    return path


def taught(teacher: SubstitutionScorer, file: Path, corpus: Corpus, **options: int) -> Distilled:
    encoder, known = load_pair(Leaf("prototypes", str(file)))
    return distil(teacher, known, encoder, corpus, length=LENGTH, **{"top": 8, **options})


def test_a_map_is_learned(file: Path, corpus: Corpus, tmp_path: Path) -> None:
    width = Prototypes.load(file).matrix.shape[1]
    random = np.random.default_rng(0).normal(size=(width, width)) / width**0.5
    teacher = Turned(file, np.eye(width) + 0.7 * random)
    found = taught(teacher, file, corpus, words=8)
    assert found.before is not None and found.after is not None
    assert found.after > found.before + 0.1
    assert found.num_pairs == len(teacher.asked) and 0 < found.num_accepted < found.num_pairs
    known = Prototypes.load(file)
    assert found.prototypes.words == known.words
    np.testing.assert_allclose(np.linalg.norm(found.prototypes.matrix, axis=1), 1, atol=1e-5)
    assert found.prototypes.provenance["teacher.turned"] == "by hand"
    assert known.threshold == THRESHOLD != found.prototypes.threshold
    found.prototypes.save(tmp_path / "q.safetensors")
    loaded = Prototypes.load(tmp_path / "q.safetensors")
    assert loaded.threshold == found.prototypes.threshold
    # Where the teacher says 1/2 its prototypes' cosine is 0.3, and so, about, is the learned one's.
    assert 0.05 < loaded.threshold < 0.6


def test_a_word_is_never_asked_about_itself(file: Path, corpus: Corpus) -> None:
    teacher = Turned(file, np.eye(Prototypes.load(file).matrix.shape[1]))
    found = taught(teacher, file, corpus, words=2)
    assert all(s.target.lower() != s.substitute for s in teacher.asked)
    assert found.before is not None and found.before > 0.95, "the teacher's order is the prototypes' own"
    places = {(s.text, s.start) for s in teacher.asked}
    assert len(places) * 8 == found.num_pairs


def test_a_teacher_that_says_nothing_is_refused(file: Path, corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=r"the teacher accepts \d+ of \d+ substitutes of \d+ rows"):
        taught(Constant(), file, corpus)


def test_a_threshold_out_of_bounds_is_refused(file: Path, tmp_path: Path) -> None:
    known = Prototypes.load(file)
    Prototypes(known.words, known.matrix, known.counts, {**known.provenance, "threshold": "1.5"}).save(tmp_path / "q")
    with pytest.raises(ModelError, match=r"its threshold 1\.5"):
        Prototypes.load(tmp_path / "q")
