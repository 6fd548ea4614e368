"""The model under attack, asked about texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import tiny
from evaluation.labelled_tokenizers import wordpiece
from trueneg.attacks.victim import Victim
from trueneg.attacks.word_substitution.neighbours import NeighbourTable
from trueneg.attacks.word_substitution.textfooler import TextFoolerOptions, textfooler
from trueneg.errors import ConfigError, ModelError
from trueneg.tasks.base import Split
from trueneg.tasks.text import TextExample, TextTask


class Made(TextTask):
    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        raise AssertionError(split)


def make_victim(labels: tuple[str, ...] = ("no", "maybe", "yes"), **options: Any) -> Victim:
    torch.manual_seed(0)
    tokenizer = wordpiece()
    config = tiny.make_config("bert", vocab_size=len(tokenizer), num_labels=max(1, len(labels)), initializer_range=0.5)
    model = AutoModelForSequenceClassification.from_config(config)
    return Victim(model, Made("made", metrics=["accuracy"], labels=labels), tokenizer, 24, **options)


def singles(*texts: str) -> list[TextExample]:
    return [TextExample(str(number), text) for number, text in enumerate(texts)]


TEXTS = singles("the cat sat on the mat", "bad", "", "good cat", "x y z sat on", "the the the the the the the the")


def expected(victim: Victim, examples: list[TextExample]) -> np.ndarray:
    rows = []
    for example in examples:
        encoded = wordpiece()(
            example.text, example.second, truncation="longest_first", max_length=24, return_tensors="pt"
        )
        with torch.no_grad():
            rows.append(victim.model.eval()(**encoded).logits.softmax(-1)[0].numpy())
    return np.stack(rows)


@pytest.mark.parametrize("options", [{}, {"cache_size": 0}, {"tokens_at_once": 8}])
def test_probabilities_are_the_models_own(options: dict[str, Any]) -> None:
    victim = make_victim(**options)
    found = victim.probabilities(TEXTS)
    assert found.dtype == np.float64 and found.shape == (6, 3)
    np.testing.assert_allclose(found, expected(victim, TEXTS), atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    pairs = [TextExample("a", "the cat", "sat on mat"), TextExample("b", "good", "bad")]
    np.testing.assert_allclose(victim.probabilities(pairs), expected(victim, pairs), atol=1e-6)
    assert victim.probabilities([]).shape == (0, 3)


def test_a_model_in_training_is_asked_without_dropout_and_left_as_it_was() -> None:
    victim = make_victim()
    for module in victim.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    victim.model.train()
    found = victim.probabilities(TEXTS)
    assert victim.model.training
    np.testing.assert_allclose(found, expected(victim, TEXTS), atol=1e-6)


def test_what_reads_alike_is_read_once() -> None:
    victim = make_victim()
    first = victim.probabilities(singles("good cat", "bad", "good  cat", "bad"))
    assert (first[0] == first[2]).all() and (first[1] == first[3]).all()
    again = victim.probabilities(singles("mat", "bad"))
    assert (again[1] == first[1]).all()
    counts = victim.counts
    assert (counts.examples, counts.cached, counts.forwards) == (6, 3, 2)
    # [CLS] good cat [SEP], [CLS] bad [SEP]; [CLS] mat [SEP].
    assert (counts.tokens, counts.padded_tokens) == (4 + 3 + 3, 4 + 4 + 3)
    forgetful = make_victim(cache_size=0)
    for _ in range(2):
        forgetful.probabilities(singles("bad"))
    assert (forgetful.counts.cached, forgetful.counts.tokens) == (0, 6)


def test_texts_of_a_pair_are_not_mistaken_for_others() -> None:
    victim = make_victim()
    pairs = [TextExample("a", "the [SEP] cat", "sat"), TextExample("b", "the", "cat [SEP] sat")]
    assert victim.probabilities(pairs).tolist() != victim.probabilities(pairs)[[1, 0]].tolist()
    assert victim.counts.cached == 2


def test_little_is_padding() -> None:
    victim = make_victim(tokens_at_once=64)
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["the", "cat", "mat", "bad"], random.integers(1, 20))) for _ in range(100)]
    victim.probabilities(singles(*texts))
    assert victim.counts.padded_tokens < 1.1 * victim.counts.tokens
    assert victim.counts.forwards <= victim.counts.padded_tokens / 64 * 1.5 + 1


def test_batches_suit_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = singles(*(f"{'the ' * 20}{n % 10} {n // 10}" for n in range(60)))
    forwards = []
    for num_threads in (1, 64):
        monkeypatch.setattr(torch, "get_num_threads", lambda num_threads=num_threads: num_threads)
        victim = make_victim(cache_size=0)
        victim.probabilities(texts)
        forwards.append(victim.counts.forwards)
    assert forwards[0] > forwards[1] == 1


def test_long_texts_are_counted() -> None:
    victim = make_victim()
    victim.probabilities(singles("the " * 40, "cat"))
    assert victim.counts.truncated == 1


def test_amounts_and_broken_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="'made' is a regression task"):
        make_victim(labels=())
    victim = make_victim()
    victim.model.classifier.bias.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="'0' is not finite"):
        victim.probabilities(TEXTS)


def test_a_real_model_is_fooled_alike_alone_and_in_company() -> None:
    words = ["the", "cat", "sat", "on", "mat", "good", "bad"]
    table = NeighbourTable.of({word: [other for other in words if other != word] for word in words})
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(words, random.integers(2, 9))) for _ in range(30)]
    victim = make_victim()
    labels = victim.probabilities(singles(*texts)).argmax(1).tolist()
    examples = [
        TextExample(str(n), text, label=label) for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    options = TextFoolerOptions(part_of_speech="any")
    found = [
        textfooler(make_victim(), examples, neighbours=table, tagger=None, similarity=None, options=options, at_once=n)
        for n in (1, 4, 30)
    ]
    assert found[0] == found[1] == found[2]
    assert {"succeeded", "failed"} == {adversary.outcome for adversary in found[0]}
    for adversary in found[0]:
        (row,) = victim.probabilities([adversary.adversarial])
        assert (row.argmax() == adversary.original.label) == (adversary.outcome == "failed")
        assert adversary.notes["predicted"] == row.argmax()
