"""The hand-made WordNet, a cache of our own, one thread; and tiny checkpoints, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tiny_encoders import LENGTH, WORDNET, byte_level, make_corpus, save_checkpoint, wordpiece

from trueneg.corpus.store import Corpus
from trueneg.detectors.scorers.prototypes import learn_prototypes
from trueneg.detectors.specification import Resources


@pytest.fixture(scope="session", autouse=True)
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WNSEARCHDIR", str(WORDNET))
        patch.setenv("TRUENEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def resources() -> Resources:
    return Resources(wordnet=str(WORDNET))


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A masked-LM checkpoint over WordPiece."""
    return save_checkpoint("bert", wordpiece(), tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A masked-LM checkpoint over byte-level BPE, which counts positions from the padding id."""
    return save_checkpoint("roberta", byte_level(), tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("wordpiece"), wordpiece())


@pytest.fixture(scope="session")
def prototypes_file(corpus: Corpus, bert: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Prototypes that ``bert`` has of the words of ``corpus``."""
    path = tmp_path_factory.mktemp("prototypes") / "p.safetensors"
    learn_prototypes(bert, corpus, layer=1, length=LENGTH, min_count=2).save(path)
    return str(path)


@pytest.fixture(params=["bert", "roberta"])
def checkpoint(request: pytest.FixtureRequest) -> str:
    path: str = request.getfixturevalue(request.param)
    return path
