"""A tiny corpus, built once, and a place of its own for lookup tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_runs import ENTRIES, MakeConfig, documents, make_config
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.corpus.build import build_corpus


@pytest.fixture(scope="session", autouse=True)
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRUENEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of whole words, but for one of two pieces, so that a prediction is soon a synonym."""
    vocabulary = numbered([*SPECIAL, *ENTRIES])
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    wrapped(tokenizer).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def corpus(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    text = folder / "text.txt"
    text.write_text("\n\n".join(documents(150)))
    build_corpus([str(text)], tokenizer_folder, folder / "corpus", valid=0.15)
    return folder / "corpus"


@pytest.fixture(scope="session")
def tagged(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text with its words tagged, as CLINE needs it."""
    folder = tmp_path_factory.mktemp("tagged")
    (folder / "text.txt").write_text("\n\n".join(documents(150)))
    build_corpus([str(folder / "text.txt")], tokenizer_folder, folder / "corpus", valid=0.15, tagger="pattern")
    return folder / "corpus"


@pytest.fixture
def config_of(corpus: Path) -> MakeConfig:
    """``make_config`` over the tiny corpus."""
    return lambda kind, *settings: make_config(corpus, kind, *settings)
