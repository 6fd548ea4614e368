"""Scorers asked while training: about the right words, in the right text, and only where they can be right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tiny_encoders import TEXT, TOKENIZERS, WrittenScorer, encode_rows, masked_at
from transformers import PreTrainedTokenizerFast

import tiny
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.rowtext import TokenText
from trueneg.detectors.scorers.base import Substitution, SubstitutionScorer
from trueneg.detectors.scorers.contextual import ContextualScorer
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import surfaces
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.reading import TextEncoder
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection


@pytest.fixture(params=sorted(TOKENIZERS))
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return TOKENIZERS[request.param]()


def id_of(tokenizer: PreTrainedTokenizerFast, word: str) -> int:
    """The entry of a word that stands after a space."""
    (token,) = tokenizer(f" {word}", add_special_tokens=False).input_ids
    return int(token)


def column(rows: Rows, row: int, token: int, which: int = 0) -> int:
    return int((rows.input_ids[row] == token).nonzero()[which])


def one(
    tokenizer: PreTrainedTokenizerFast, rows: Rows, row: int, gold: str, predicted: str, which: int = 0
) -> tuple[MaskedRows, torch.Tensor]:
    """One slot a row, at a word of one of the rows, with a prediction there; elsewhere gold is predicted."""
    columns = [[int(rows.is_whole_word[n].nonzero()[0])] for n in range(len(rows.input_ids))]
    columns[row] = [column(rows, row, id_of(tokenizer, gold), which)]
    batch = masked_at(rows, columns)
    tokens = batch.gold.clone()
    tokens[row, 0] = id_of(tokenizer, predicted)
    return batch, tokens


def asked_of(detector: OnlineDetector, batch: MaskedRows, predicted: torch.Tensor) -> list[Substitution]:
    return detector.questions(batch.gold, predicted.unsqueeze(-1), batch)[1]


def test_credit_is_a_scorers_acceptance_where_it_accepts(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = encode_rows(tokenizer, [[TEXT[0]], [TEXT[1]], [TEXT[2]]])
    golds, guesses = ("large", "film", "happy"), ("big", "movie", "glad")
    batch = masked_at(rows, [[column(rows, n, id_of(tokenizer, word))] for n, word in enumerate(golds)])
    predicted = torch.tensor([[id_of(tokenizer, word)] for word in guesses])
    scorer = WrittenScorer({("large", "big"): 0.9, ("film", "movie"): 0.59, ("happy", "glad"): 0.6}, threshold=0.6)
    credit = OnlineDetector(scorer, tokenizer).credit(batch.gold, predicted, batch)
    assert credit.dtype == torch.float32
    wanted = [
        Substitution(text, text.index(word), text.index(word) + len(word), other)
        for text, word, other in zip(TEXT, golds, guesses, strict=False)
    ]
    assert scorer.asked == wanted
    acceptance = scorer.acceptance(wanted)
    np.testing.assert_allclose(credit[:, 0], np.where(acceptance >= 0.5, acceptance, 0), atol=1e-7)
    assert credit[1, 0] == 0 and credit[2, 0] == 0.5


@pytest.mark.parametrize(
    "text",
    [
        "the mouse's large film, near (the) city.",
        "café - the zebra saw large quizzicals",
        "naïve 🐭 (large large large) 日本 mouse",
    ],
)
def test_the_text_is_the_rows_own(text: str) -> None:
    """Of bytes all is known: spaces, letters in parts, and what is several tokens."""
    tokenizer = TOKENIZERS["byte-level"]()
    batch, predicted = one(tokenizer, encode_rows(tokenizer, [[text]]), 0, "large", "old")
    (asked,) = asked_of(OnlineDetector(WrittenScorer({}), tokenizer), batch, predicted)
    at = text.index(" large") + 1
    assert asked == Substitution(text, at, at + 5, "old")


def test_spaces_around_punctuation_are_one_where_they_are_not_known() -> None:
    tokenizer = TOKENIZERS["wordpiece"]()
    rows = encode_rows(tokenizer, [["the mouse's (large) film, near the zebra."]])
    batch, predicted = one(tokenizer, rows, 0, "large", "old")
    (asked,) = asked_of(OnlineDetector(WrittenScorer({}), tokenizer), batch, predicted)
    text = "the mouse ' s ( large ) film , near the zebra ."
    assert asked == Substitution(text, text.index("large"), text.index("large") + 5, "old")


def test_a_word_that_no_space_precedes_stays_where_it_is() -> None:
    tokenizer = TOKENIZERS["byte-level"]()
    tokenizer.add_tokens(["large", "grand"])
    entries = tokenizer.get_vocab()
    rows = encode_rows(tokenizer, [["the mouse (large) went"]])
    batch = masked_at(rows, [[column(rows, 0, entries["large"])]])
    (asked,) = asked_of(OnlineDetector(WrittenScorer({}), tokenizer), batch, torch.tensor([[entries["grand"]]]))
    assert asked == Substitution("the mouse (large) went", 11, 16, "grand")


def test_every_pair_of_whole_words_of_one_kind_is_asked_about_and_no_other(tokenizer: PreTrainedTokenizerFast) -> None:
    rows, entries = encode_rows(tokenizer, [[TEXT[0]]]), surfaces(tokenizer)
    gold = id_of(tokenizer, "large")
    batch = masked_at(rows, [[column(rows, 0, gold)]])
    detector = OnlineDetector(WrittenScorer({}), tokenizer)
    asked = set()
    for token in range(len(entries) + 1):  # one beyond the tokenizer: a model's padded output row
        found = asked_of(detector, batch, torch.tensor([[token]]))
        asked |= {token} if found else set()
        assert all(s.substitute == entries[token].word and s.target == "large" for s in found)
    wanted = {
        token
        for token, entry in enumerate(entries)
        if entry.prefix == "start" and entry.casing == "lower" and entry.word.isalpha() and len(entry.word) >= 3
    }
    assert asked == {token for token in wanted if entries[token].word not in STOP_WORDS} - {gold}
    assert len(asked) > 10


def test_pieces_and_empty_slots_are_not_asked_about(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = encode_rows(tokenizer, [["the large mouse saw the zebra"]])
    large, big = id_of(tokenizer, "large"), id_of(tokenizer, "big")
    pieces = (~rows.is_whole_word & ~rows.is_special)[0].nonzero().flatten().tolist()
    batch = masked_at(rows, [[column(rows, 0, large), *pieces]])
    detector = OnlineDetector(WrittenScorer({}), tokenizer)
    predicted = torch.full_like(batch.gold, big)
    assert len(asked_of(detector, batch, predicted)) == 1 and batch.gold.numel() > 2
    empty = replace(batch, is_masked=torch.zeros_like(batch.is_masked))
    assert asked_of(detector, empty, predicted) == []


def test_text_stays_within_its_document(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = encode_rows(tokenizer, [[TEXT[1], TEXT[0], TEXT[2]], [TEXT[0], TEXT[0]]])
    detector = OnlineDetector(WrittenScorer({}), tokenizer)
    for row, which in ((0, 0), (1, 0), (1, 1)):
        batch, predicted = one(tokenizer, rows, row, "large", "old", which)
        (asked,) = asked_of(detector, batch, predicted)
        assert asked == Substitution(TEXT[0], 4, 9, "old")


@pytest.mark.parametrize("context", [1, 2, 4, 6, 40])
def test_the_window_shows_whole_words_only(tokenizer: PreTrainedTokenizerFast, context: int) -> None:
    text = "we quickly saw quizzicality near large quizzicality about the zebra city"
    rows = encode_rows(tokenizer, [[text]], length=96)
    batch, predicted = one(tokenizer, rows, 0, "large", "old")
    (asked,) = asked_of(OnlineDetector(WrittenScorer({}), tokenizer, context), batch, predicted)
    assert asked.target == "large"
    words = asked.text.split()
    assert f" {' '.join(words)} " in f" {text} " and set(words) <= set(text.split())
    at = int(batch.positions[0, 0])
    inside = rows.input_ids[0, max(1, at - context) : at + context + 1]
    assert len(asked.text.replace(" ", "")) <= len(tokenizer.decode(inside).replace(" ", ""))
    assert (context < 40) == (asked.text != text)


def test_a_row_that_begins_within_a_word(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = encode_rows(tokenizer, [["quizzical large mouse"]])
    pieces = tokenizer("quizzical", add_special_tokens=False).input_ids
    keep = [0, *range(1 + len(pieces) // 2, rows.input_ids.shape[1])]
    cut = rows._map(lambda tensor: tensor[:, keep] if tensor.ndim == 2 else tensor)
    assert len(pieces) > 2 and not cut.is_word_start[0, 1]
    batch, predicted = one(tokenizer, cut, 0, "large", "old")
    (asked,) = asked_of(OnlineDetector(WrittenScorer({}), tokenizer), batch, predicted)
    assert asked == Substitution("large mouse", 0, 5, "old")


def test_nothing_is_asked_where_nothing_is_mispredicted(tokenizer: PreTrainedTokenizerFast) -> None:
    rows, scorer = encode_rows(tokenizer, [[text] for text in TEXT]), WrittenScorer({})
    batch = tiny.make_masking(rate=0.5)(rows)
    detector = OnlineDetector(scorer, tokenizer)
    assert not detector.credit(batch.gold, batch.gold, batch).any()
    assert scorer.asked == [] and detector.num_asked == 0


def test_the_scorer_sees_several_tokens_of_all_slots_at_once(tokenizer: PreTrainedTokenizerFast) -> None:
    rows, scorer = encode_rows(tokenizer, [[TEXT[0]]]), WrittenScorer({("large", "old"): 1.0, ("large", "big"): 0.75})
    detector = OnlineDetector(scorer, tokenizer)
    batch, predicted = one(tokenizer, rows, 0, "large", "old")
    credit, tokens, listed = detector.propose(batch.gold, predicted, batch)
    assert torch.equal(tokens[..., 0], predicted) and torch.equal(listed[..., 0], credit) and credit.all()
    assert detector.num_asked == len(scorer.asked) == 1
    several = torch.tensor([[[id_of(tokenizer, word) for word in ("city", "big", "large", "old")]]])
    assert detector.credit(batch.gold.unsqueeze(-1), several, batch).tolist() == [[[0, 0.75, 0, 1]]]
    assert [s.substitute for s in scorer.asked[1:]] == ["city", "big", "old"]


def test_a_document_is_rendered_once_for_all_of_its_words(
    tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, scorer = encode_rows(tokenizer, [[TEXT[0], TEXT[1]], [TEXT[2]]]), EverythingGoes()
    detector = OnlineDetector(scorer, tokenizer, None)
    rendered, original = [], TokenText.__call__
    monkeypatch.setattr(TokenText, "__call__", lambda text, ids: rendered.append(ids) or original(text, ids))
    batch: Any = tiny.make_masking(rate=0.9)(rows)
    detector.credit(batch.gold, torch.full_like(batch.gold, id_of(tokenizer, "large")), batch)
    assert len(scorer.asked) > len(rendered) == len({s.text for s in scorer.asked})


class EverythingGoes(SubstitutionScorer):
    """Accepts whatever it is asked."""

    def __init__(self) -> None:
        self.asked: list[Substitution] = []

    def scores(self, substitutions: Any) -> Any:
        self.asked += substitutions
        return np.full(len(substitutions), 0.75)


def models_of(kind: str, vocab_size: int) -> MaskedLanguageModel | ElectraPair:
    from transformers import AutoModelForPreTraining

    if kind == "mlm":
        return tiny.make_masked_lm(vocab_size=vocab_size)
    generator = tiny.make_masked_lm("electra", hidden_size=16, vocab_size=vocab_size)
    model = AutoModelForPreTraining.from_config(tiny.make_config("electra", vocab_size=vocab_size))
    return ElectraPair(generator, Discriminator(model, model.discriminator_predictions)).train()


@pytest.mark.parametrize("kind", ["mlm", "electra"])
@pytest.mark.parametrize("use", ["drop", "marginal", "soft_targets"])
def test_training_goes_on_with_it(
    kind: str, use: Literal["drop", "marginal", "soft_targets"], tokenizer: PreTrainedTokenizerFast
) -> None:
    scorer = EverythingGoes()
    detector = OnlineDetector(scorer, tokenizer)
    prediction: Literal["argmax", "sampled"] = "argmax" if kind == "mlm" else "sampled"
    generator = MaskedLM(tiny.make_masking(rate=0.5), HardCorrection(detector, use), prediction=prediction)
    objective: Any = generator if kind == "mlm" else ReplacedTokenDetection(generator)
    model = models_of(kind, len(tokenizer))
    module = TrainingModule(model, objective)
    optimizer = torch.optim.SGD(module.parameters(), 1e-4)
    num_corrected = 0.0
    for _ in range(3):
        batch = objective.corrupt(encode_rows(tokenizer, [[TEXT[n]] for n in (0, 1, 2, 3)] * 4))
        loss, outcome = module(batch, objective.counts(batch))
        loss.backward()
        optimizer.step()
        num_corrected += float(outcome.stats["num_corrected"])
        assert loss.isfinite()
    assert num_corrected == detector.num_asked == len(scorer.asked) > 0
    assert not any("detector" in name for name in module.state_dict())


def test_an_encoder_of_another_tokenizer(bert: str, roberta: str, tokenizer: PreTrainedTokenizerFast) -> None:
    rows = encode_rows(tokenizer, [[TEXT[0]]])
    batch, predicted = one(tokenizer, rows, 0, "large", "old")
    for path in (bert, roberta):
        scorer = ContextualScorer(TextEncoder(path), threshold=0.01)
        credit = OnlineDetector(scorer, tokenizer).credit(batch.gold, predicted, batch)
        wanted = scorer.acceptance([Substitution(TEXT[0], 4, 9, "old")])
        np.testing.assert_allclose(credit.numpy(), [wanted], atol=1e-6)
        assert credit.all()
        with torch.autocast("cpu", torch.bfloat16):  # as in a step of train.precision=bf16
            within = OnlineDetector(scorer, tokenizer).credit(batch.gold, predicted, batch)
        assert torch.equal(within, credit)
