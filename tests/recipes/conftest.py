"""A text that a tiny model learns within a second: words that follow one another in a ring."""

from __future__ import annotations

import random
from multiprocessing import forkserver
from pathlib import Path

import pytest
from ring_text import RARE, RING

import forks  # noqa: F401  (what the server imports)
from trueneg.corpus.build import build_corpus
from trueneg.corpus.tokenizer_training import train_tokenizer


@pytest.fixture(scope="session", autouse=True)
def _one_server() -> None:
    """Start the process's one server before a plan starts it with fewer imports than later tests need."""
    forkserver.ensure_running()


@pytest.fixture(scope="session")
def ring_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with held-out text, of 12 words that are all single tokens, and three rare ones that are not."""
    folder = tmp_path_factory.mktemp("ring")
    choose = random.Random(0)

    def document() -> str:
        start = choose.randrange(len(RING))
        words = [RING[(start + step) % len(RING)] for step in range(60)]
        words[choose.randrange(60)] = choose.choice(RARE)
        return " ".join(words)

    text = folder / "text.txt"
    text.write_text("\n\n".join(document() for _ in range(400)) + "\n")
    common = folder / "common.txt"
    common.write_text("\n\n".join(" ".join(RING) for _ in range(50)) + f"\n\n{' '.join(RARE)}\n")
    train_tokenizer([str(common)], folder / "tokenizer", vocab_size=86)
    build_corpus([str(text)], folder / "tokenizer", folder / "corpus", valid=0.2)
    return folder / "corpus"
