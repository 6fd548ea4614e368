"""``trueneg.correct``: the loss of trueneg's own masked LM, from ordinary Hugging Face batches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot
from transformers import PreTrainedTokenizerFast

import tiny
import trueneg
from detectors.tiny_encoders import TEXT, WORDNET, byte_level, wordpiece
from tiny_tokenizers import wrapped
from trueneg.config.objective_options import MaskingConfig
from trueneg.corpus.encoding import CorpusTokenizer
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector
from trueneg.errors import ConfigError, ModelError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM

SENTENCES = [
    "The movie painter was glad, the animals slowly went: 'primary', he said.",
    "we see 12 big films near the unmapped-river; unhappily",
    *TEXT,
]


class WholeWordDetector(Detector):
    """Credit in tenths for whole words, which depends on both tokens and on the column."""

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        return ((7 * gold + 3 * predicted + batch.positions) % 11).to(torch.float32) / 10 * batch.is_whole_word


def sentencepiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=tiny.SPECIAL, unk_token="[UNK]")
    tokenizer.train_from_iterator([*TEXT, *SENTENCES] * 3, trainer)
    return wrapped(tokenizer)


def suffixed() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(vocab_size=100, special_tokens=tiny.SPECIAL, end_of_word_suffix="</w>")
    tokenizer.train_from_iterator([*TEXT, *SENTENCES] * 3 + ["the mouse and the mouse"] * 30, trainer)
    return wrapped(tokenizer)


TOKENIZERS = {"wordpiece": wordpiece, "byte-level": byte_level, "sentencepiece": sentencepiece, "suffixed": suffixed}


def corpus_rows(tokenizer: PreTrainedTokenizerFast) -> Rows:
    """Rows as a corpus has them: words are told from the text, when it is tokenized."""
    found = CorpusTokenizer(copy.deepcopy(tokenizer.backend_tokenizer))(SENTENCES)
    ends = found.lengths.cumsum()
    length = int(found.lengths.max()) + 2
    ids = torch.full((len(SENTENCES), length), tiny.PAD)
    segments = torch.zeros_like(ids)
    is_special = torch.ones_like(ids, dtype=torch.bool)
    starts, whole = torch.zeros_like(is_special), torch.zeros_like(is_special)
    for row, (end, size) in enumerate(zip(ends.tolist(), found.lengths.tolist(), strict=True)):
        inside = slice(1, size + 1)
        begins = torch.from_numpy(found.is_word_start[end - size : end])
        ids[row, inside] = torch.from_numpy(found.tokens[end - size : end].astype("int64"))
        ids[row, 0], ids[row, size + 1] = tiny.START, tiny.END
        segments[row, : size + 2] = 1
        is_special[row, inside] = False
        starts[row, inside] = begins
        whole[row, inside] = begins & torch.cat([begins[1:], torch.tensor([True])])
    return Rows(ids, segments, is_special, starts, whole, example_keys(0, torch.arange(len(SENTENCES))))


def hugging_face_batch(batch: MaskedRows) -> dict[str, Tensor]:
    """What a collator would have made of the same masks."""
    labels = torch.full_like(batch.input_ids, -100)
    labels.scatter_(1, batch.positions, torch.where(batch.is_masked, batch.gold, -100))
    return {"input_ids": batch.input_ids, "attention_mask": (batch.rows.segments > 0).long(), "labels": labels}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_words_are_those_of_a_corpus(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    rows = corpus_rows(tokenizer)
    reader = trueneg.BatchDetector(WholeWordDetector(), tokenizer)
    labels = torch.where(rows.is_special, -100, rows.input_ids)
    read = reader.read_batch(labels, torch.full_like(labels, tiny.MASK), (rows.segments > 0).long())
    known = (rows.input_ids != tokenizer.unk_token_id) & ~rows.is_special
    assert known.sum() > 50 and rows.is_whole_word.any() and (~rows.is_whole_word & known).any()
    assert read.rows.input_ids[known].equal(rows.input_ids[known])
    assert read.rows.is_word_start[known].equal(rows.is_word_start[known])
    assert read.is_whole_word[known].equal(rows.is_whole_word[known])


@pytest.mark.parametrize("text", ["the mouse", "the mouse.", "the mouse, and"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_word_before_punctuation_is_whole(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]()
    if name == "sentencepiece":
        pieces = [*tiny.SPECIAL, "\u2581the", "\u2581mouse", "\u2581and", ".", ","]
        tokenizer.backend_tokenizer.model = models.Unigram([(piece, -1.0) for piece in pieces], unk_id=tiny.UNKNOWN)
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    words = [tokenizer.decode(token).strip() for token in ids[0]]
    reader = trueneg.BatchDetector(WholeWordDetector(), tokenizer)
    is_whole = reader.read_batch(ids, ids).is_whole_word[0].tolist()
    found = CorpusTokenizer(copy.deepcopy(tokenizer.backend_tokenizer))([text]).is_word_start
    assert found.tolist() == reader.read_batch(ids, ids).rows.is_word_start[0].tolist()
    assert is_whole[words.index("mouse")]


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_the_masked_lm(seed: int) -> None:
    tokenizer = wordpiece()
    masking = Masking(MaskingConfig(rate=0.5), tiny.MASK, len(tokenizer), tokenizer.all_special_ids)
    model = tiny.make_hf_masked_lm("bert", seed=seed, vocab_size=len(tokenizer), initializer_range=0.3).eval()
    batch = masking(corpus_rows(tokenizer))
    given = hugging_face_batch(batch)
    logits = model(given["input_ids"], given["attention_mask"]).logits
    corrected = trueneg.correct(logits, given["labels"], WholeWordDetector(), given["input_ids"], tokenizer=tokenizer)
    num_masked, num_left = ((labels != -100).sum() for labels in (given["labels"], corrected))
    assert 0 < num_left < num_masked

    def own_loss(denominator: Any) -> Tensor:
        objective = MaskedLM(masking, HardCorrection(WholeWordDetector(), "drop", denominator))
        loss: Tensor = objective(MaskedLanguageModel(model), batch).terms["mlm"] / objective.counts(batch)["mlm"]
        return loss

    of_left = cross_entropy(logits.view(-1, len(tokenizer)), corrected.view(-1))
    of_all = cross_entropy(logits.view(-1, len(tokenizer)), corrected.view(-1), reduction="sum") / num_masked
    torch.testing.assert_close(of_left, own_loss("kept"))
    torch.testing.assert_close(of_all, own_loss("masked"))
    # The original tokens, and padding that is said or not, give the same labels.
    rows = batch.rows
    said = trueneg.correct(
        logits, given["labels"], WholeWordDetector(), rows.input_ids, given["attention_mask"], tokenizer=tokenizer
    )
    assert said.equal(corrected)


@pytest.fixture
def sentence() -> tuple[PreTrainedTokenizerFast, Tensor, Tensor]:
    """A tokenizer, "a big movie" as labels, and logits of a model that says "a happy film"."""
    tokenizer = wordpiece()
    gold, predicted = tokenizer(["a big movie", "a happy film"], return_tensors="pt").input_ids
    labels = torch.where(gold >= len(tiny.SPECIAL), gold, -100)
    return tokenizer, labels.unsqueeze(0), 20.0 * one_hot(predicted, len(tokenizer)).unsqueeze(0)


@pytest.mark.parametrize("padded_by", [0, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("made", [True, False])
def test_a_synonym_is_corrected_by_specification_or_object(
    sentence: tuple[PreTrainedTokenizerFast, Tensor, Tensor],
    padded_by: int,
    dtype: torch.dtype,
    made: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(WORDNET))
    tokenizer, labels, logits = sentence
    logits = torch.nn.functional.pad(logits, (0, padded_by)).to(dtype)  # output rows beyond the vocabulary
    masked = torch.where(labels >= 0, tiny.MASK, tiny.START)
    if made:
        corrected = trueneg.correct(logits, labels, trueneg.make_detector("lexical", tokenizer), masked)
    else:
        corrected = trueneg.correct(logits, labels, "lexical", masked, tokenizer=tokenizer)
    assert [tokenizer.decode([token]) for token in labels[corrected != labels].tolist()] == ["movie"]
    assert (corrected == -100).sum() == (labels == -100).sum() + 1


def test_what_is_not_masked_or_right_stays(sentence: tuple[PreTrainedTokenizerFast, Tensor, Tensor]) -> None:
    tokenizer, labels, logits = sentence
    predicted = logits.argmax(-1)
    always = trueneg.BatchDetector(tiny.ConstantDetector(1.0), tokenizer)
    assert (trueneg.correct(logits, labels, always, labels.clamp(min=0)) >= 0).sum() == 1  # "a", which is right
    right = torch.where(labels >= 0, predicted, -100)
    assert trueneg.correct(logits, right, always, predicted).equal(right)
    never = trueneg.BatchDetector(tiny.ConstantDetector(0.49), tokenizer)
    assert trueneg.correct(logits, labels, never, predicted).equal(labels)


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "flat logits": (lambda t, y, x: trueneg.correct(x.flatten(0, 1), y, "lexical", y, tokenizer=t), "logits"),
    "flat labels": (lambda t, y, x: trueneg.correct(x, y.flatten(), "lexical", y, tokenizer=t), "labels"),
    "cut input": (lambda t, y, x: trueneg.correct(x, y, "lexical", y[:, 1:], tokenizer=t), "input_ids"),
    "cut mask": (lambda t, y, x: trueneg.correct(x, y, "lexical", y, y[:, 1:], tokenizer=t), "attention_mask"),
    "float labels": (lambda t, y, x: trueneg.correct(x, y.float(), "lexical", y, tokenizer=t), "labels"),
    "no tokenizer": (lambda t, y, x: trueneg.correct(x, y, "lexical", y), "make_detector"),
    "slow tokenizer": (lambda t, y, x: trueneg.correct(x, y, WholeWordDetector(), y, tokenizer=object()), "object"),
    "unknown": (lambda t, y, x: trueneg.correct(x, y, "lexcial", y, tokenizer=t), "lexical"),
    "forms": (lambda t, y, x: trueneg.make_detector("lexical", t, forms="retreived"), "did you mean 'retrieved'"),
    "idle forms": (lambda t, y, x: trueneg.make_detector("fits", t, forms="lemma"), "forms=lemma does nothing"),
    "ema": (lambda t, y, x: trueneg.make_detector("lexical | ema", t), "ema"),
    "annotated": (lambda t, y, x: trueneg.make_detector("annotated:notes", t), "annotated:notes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_by_name(
    case: str, sentence: tuple[PreTrainedTokenizerFast, Tensor, Tensor]
) -> None:
    call, named = WRONG[case]
    with pytest.raises((ConfigError, ModelError), match=named):
        call(*sentence)
