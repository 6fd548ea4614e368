"""Words of a text masked one at a time: what is predicted, with what probability, and what detectors say of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

from made_up_scorers import TableScorer
from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.errors import ConfigError, ModelError, TruenegWarning
from trueneg.evaluation.masked_lm import inspection
from trueneg.evaluation.masked_lm.inspection import Inspection, inspect_text

WORDNET = Path(__file__).parents[2] / "data" / "wordnet"
WORDS = "the a movie film films picture main primary chief stay remain rest mouse animal was ! , un ##stay ##able ##s"
TEXT = "The primary film was unstayable !"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of random weights over 26 entries, without capitals."""
    folder = tmp_path_factory.mktemp("bert")
    vocabulary = numbered([*SPECIAL, *WORDS.split()])
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    wrapped(backend).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    # Two output rows more than the tokenizer has entries, as padded models have.
    config = BertConfig(vocab_size=len(vocabulary) + 2, max_position_embeddings=16, initializer_range=0.5, **sizes)
    BertForMaskedLM(config).eval().save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(WORDNET))
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def probabilities(checkpoint: Path, ids: list[int], masked: list[int]) -> torch.Tensor:
    """What the stock model says at the masked places."""
    model = BertForMaskedLM.from_pretrained(checkpoint).eval()
    shown = [4 if place in masked else token for place, token in enumerate(ids)]
    with torch.no_grad():
        return model(torch.tensor([shown])).logits[0, masked].softmax(-1)


def test_every_word_is_masked_in_turn_and_predicted_as_the_stock_model_does(checkpoint: Path) -> None:
    found = inspect_text(str(checkpoint), TEXT, top=4)
    assert [(word.gold, TEXT[word.start : word.end]) for word in found.words] == [
        (word, word) for word in ("The", "primary", "film", "was", "unstayable")
    ]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    ids = [2, *tokenizer(TEXT, add_special_tokens=False)["input_ids"], 3]
    for place, word in enumerate(found.words[:4], start=1):
        (expected,) = probabilities(checkpoint, ids, [place])
        assert word.gold_probability == pytest.approx(float(expected[ids[place]]), rel=1e-4)
        assert word.gold_rank == int((expected > expected[ids[place]]).sum()) + 1
        known = expected[: len(tokenizer)]
        best = known.topk(4)
        assert [p.probability for p in word.predictions] == pytest.approx(best.values.tolist(), rel=1e-4)
        assert [p.pieces for p in word.predictions] == [(t,) for t in tokenizer.convert_ids_to_tokens(best.indices)]


def test_a_word_of_several_pieces_is_masked_whole_and_probabilities_are_products(checkpoint: Path) -> None:
    (word,) = inspect_text(str(checkpoint), TEXT, masks=["unstayable"], top=6).words
    assert word.pieces == ("un", "##stay", "##able")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    ids = [2, *tokenizer(TEXT, add_special_tokens=False)["input_ids"], 3]
    of_pieces = probabilities(checkpoint, ids, [5, 6, 7])
    gold = torch.stack([row[token] for row, token in zip(of_pieces, ids[5:8], strict=True)]).prod()
    assert word.gold_probability == pytest.approx(float(gold), rel=1e-4)
    all_of_them = sorted(
        (float(a * b * c) for a, b, c in product(*(row[: len(tokenizer)].tolist() for row in of_pieces))), reverse=True
    )
    assert [p.probability for p in word.predictions] == pytest.approx(all_of_them[:6], rel=1e-3)
    assert word.gold_rank is None
    assert not any(p.is_correctable for p in word.predictions)
    assert "several word pieces" in word.note


def judged(monkeypatch: pytest.MonkeyPatch, scorer: TableScorer, *arguments: str, **options: object) -> Inspection:
    monkeypatch.setattr(inspection, "make_scorer", lambda *_: scorer)
    return inspect_text(*arguments, **options)  # type: ignore[arg-type]


def test_detectors_are_asked_once_about_words_in_the_texts_own_casing(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = TableScorer({"Main": 0.75, "Rest": 0.5, "Film": 0.25}, threshold=0.5)
    (word,) = judged(monkeypatch, scorer, str(checkpoint), "Primary film", masks=["Primary"], top=26).words
    assert scorer.num_calls == 1
    verdicts = {p.text: p.verdicts[0] for p in word.predictions if not p.is_gold}
    assert (verdicts["Main"].score, verdicts["Main"].is_accepted) == (0.75, True)
    assert verdicts["Rest"].is_accepted and not verdicts["Film"].is_accepted
    for no_word in ("##s", "!", "[MASK]"):
        assert (verdicts[no_word].score, verdicts[no_word].is_accepted) == (None, False)
    (gold,) = [p for p in word.predictions if p.is_gold]
    assert (gold.text, gold.verdicts) == ("Primary", ())


def test_what_training_never_asks_about_is_said(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, TableScorer({}), str(checkpoint), "the film was zzz", top=26)
    the, film, was, unknown = found.words
    wanted = {"movie", "films", "picture", "main", "primary", "chief", "stay", "remain", "rest", "mouse", "animal"}
    assert {p.text for p in film.predictions if p.is_correctable} == wanted
    assert film.note == ""
    for stop_word in (the, was):
        assert "stop words" in stop_word.note
        assert not any(p.is_correctable for p in stop_word.predictions)
    assert unknown.pieces == ("[UNK]",)
    assert unknown.note == "not in the vocabulary"


def test_synonyms_are_those_of_the_vocabulary(checkpoint: Path) -> None:
    (word,) = inspect_text(str(checkpoint), TEXT, masks=["film"]).words
    assert word.synonyms == ("movie", "picture")


def test_synonyms_are_those_of_the_table_that_a_detector_names(checkpoint: Path) -> None:
    (word,) = inspect_text(str(checkpoint), "the films", detectors=["lexical[forms=retrieved]"], masks=["films"]).words
    assert word.synonyms == ("film", "movie", "picture")


def test_without_wordnet_there_are_no_synonyms_and_that_is_said(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise inspection.LexiconError("WordNet is not here")

    monkeypatch.setattr(inspection, "cached_table", missing)
    with pytest.warns(TruenegWarning, match="WordNet is not here"):
        (word,) = judged(monkeypatch, TableScorer({}), str(checkpoint), TEXT, masks=["film"]).words
    assert word.synonyms is None


def test_named_words_are_masked_wherever_they_stand(checkpoint: Path) -> None:
    text = "film films, film and (film)!"
    found = inspect_text(str(checkpoint), text, masks=["film"]).words
    assert [word.start for word in found] == [0, 12, 22]
    (both,) = inspect_text(str(checkpoint), TEXT, masks=["primary film"]).words
    assert both.pieces == ("primary", "film")


@pytest.mark.parametrize(
    "text, options, complaint",
    [
        ("", {}, "the text has no words"),
        (" ?! ...", {}, "the text has no words"),
        (TEXT, {"masks": ["movie"]}, "no such word; its words are The, primary, film, was, unstayable"),
        (TEXT, {"masks": ["prim"]}, "--mask prim: the text has no such word"),
        (TEXT, {"masks": [" "]}, "--mask"),
        ("the [MASK] film", {}, r"holds \[MASK\]: write the word"),
        ("film " * 15, {}, "has 17 tokens, and '.*' reads at most 16"),
        (TEXT, {"detectors": ["ema"]}, "'ema' works in training only"),
    ],
)
def test_what_cannot_be_inspected(checkpoint: Path, text: str, options: dict[str, list[str]], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        inspect_text(str(checkpoint), text, **options)  # type: ignore[arg-type]


def test_a_text_as_long_as_the_model_fits(checkpoint: Path) -> None:
    assert len(inspect_text(str(checkpoint), "film " * 14).words) == 14


def test_an_encoder_without_a_head_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    BertModel.from_pretrained(checkpoint, add_pooling_layer=False).save_pretrained(tmp_path)
    PreTrainedTokenizerFast.from_pretrained(checkpoint).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has no masked-LM head, so it predicts nothing"):
        inspect_text(str(tmp_path), TEXT)
