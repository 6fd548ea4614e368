"""A small world that commands made: text, tokenizer, corpus, runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from command_line import WORDNET, World, pretrain_options, works, write_text


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The hand-made WordNet, a cache of our own, one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WNSEARCHDIR", str(WORDNET))
        patch.setenv("TRUENEG_CACHE", str(tmp_path_factory.mktemp("cache")))
        torch.set_num_threads(1)
        yield


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    text = write_text(folder / "text.txt", 240)
    tokenizer, corpus, run = folder / "tok", folder / "corpus", folder / "hc"
    reviews = folder / "reviews.csv"
    rows = [f"the {word} film number {n},{n % 2}" for n, word in enumerate(["happy", "small"] * 20)]
    reviews.write_text("\n".join(["text,label", *rows]) + "\n")
    made = World(text, tokenizer, corpus, run, reviews, {})
    made.said["tokenizer"] = works("tokenizer", "train", text, "--vocab-size", 120, "--out", tokenizer, "--json")
    building = ("corpus", "build", text, "--tokenizer", tokenizer, "--out", corpus)
    made.said["corpus"] = works(*building, "--valid", 0.2, "--workers", 2, "--tag", "--json")
    chosen = ("--hard-correction", "lexical", "--soft-regularization", "token", "--wordnet", WORDNET)
    settings = ("--set", "log_every=2", "--set", "eval_every=3", "--set", "save_every=3")
    made.said["run"] = works(*pretrain_options(made, run), *chosen, *settings, "--json")
    return made
