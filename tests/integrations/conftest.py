"""The tiny vocabulary's corpus: random words in documents of many lengths, with a held-out split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiny import SPECIAL, VOCAB_SIZE, make_tokenizer
from trueneg.corpus.build import build_corpus


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    make_tokenizer().save_pretrained(str(folder / "tokenizer"))
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(VOCAB_SIZE - len(SPECIAL))]
    documents = [" ".join(random.choice(words, random.integers(4, 40))) for _ in range(120)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    build_corpus([str(folder / "text.txt")], folder / "tokenizer", folder / "corpus", valid=0.2)
    return folder / "corpus"
