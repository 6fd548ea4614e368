from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_text import documents

from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.corpus.tokenizer_training import train_tokenizer


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return documents(200)


@pytest.fixture(scope="session")
def text_file(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "documents.txt"
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def wordpiece(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers") / "wordpiece"
    train_tokenizer([str(text_file)], folder, vocab_size=110, kind="wordpiece")
    return folder


@pytest.fixture(scope="session")
def bpe(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers") / "bpe"
    train_tokenizer([str(text_file)], folder, vocab_size=330, kind="bpe", lowercase=False)
    return folder


def unigram(text_file: Path, folder: Path, *, prepends: bool) -> Path:
    """A SentencePiece model without a pre-tokenizer: to the library, a whole text is one word."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = Tokenizer(models.Unigram())
    steps = [normalizers.Replace("\n", " "), normalizers.Replace(" ", "\u2581")]
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), *steps] if prepends else steps)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        text_file.read_text(encoding="utf-8").split("\n\n"),
        trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    backend.pre_tokenizer = None
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = ("bos", "pad", "eos", "unk", "mask")
    PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name}_token": token for name, token in zip(names, special, strict=True)}
    ).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def sentencepiece(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unigram(text_file, tmp_path_factory.mktemp("tokenizers") / "sentencepiece", prepends=False)


@pytest.fixture(scope="session")
def prepending(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unigram(text_file, tmp_path_factory.mktemp("tokenizers") / "prepending", prepends=True)


@pytest.fixture(scope="session")
def corpus(text_file: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The texts in several shards."""
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    build_corpus([str(text_file)], wordpiece, folder, shard_tokens=3000)
    return Corpus.open(folder)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No hub, whatever the machine: the libraries read these settings as they are imported."""
    import datasets
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    yield
