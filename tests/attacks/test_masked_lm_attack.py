"""Words that a masked LM proposes: what the stock model says, which of it are words, and the attack with them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.word_substitution.greedy import Place, greedy_attack
from trueneg.attacks.word_substitution.masked_lm import PROFILES, MaskedLMCandidates, MaskedLMOptions, combinations
from trueneg.attacks.words import WORDS, Passage
from trueneg.errors import ConfigError
from trueneg.lexicon.relations import Relations
from trueneg.lexicon.tagging import make_tagger
from trueneg.lexicon.wordnet import WordNet
from trueneg.tasks.text import TextExample

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
VOCABULARY = (
    "the was film movie picture actor story good bad fine dull un ##kind ##able ##like ##s 7 7th ! , . -".split()  # noqa: SIM905
)
WHOLE = set("film movie picture actor story good bad fine dull un 7th".split())  # noqa: SIM905
BERT, BAE = PROFILES["bert-attack"], PROFILES["bae"]
EVERYTHING = replace(BERT, num_candidates=1000, max_changed=1.0)


def save_bert(folder: Path, tokenizer: Tokenizer) -> Path:
    """A BERT of random weights, with two rows of output more than the tokenizer has entries."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(role, tokenizer.token_to_id(role)) for role in ("[CLS]", "[SEP]")]
    )
    wrapped(tokenizer).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    size = tokenizer.get_vocab_size() + 2
    config = BertConfig(vocab_size=size, max_position_embeddings=64, initializer_range=0.5, **sizes)
    BertForMaskedLM(config).eval().save_pretrained(folder)
    return folder


def save_word_piece(folder: Path, vocabulary: Sequence[str]) -> str:
    """Small letters, pieces marked by ##."""
    backend = Tokenizer(models.WordPiece(numbered([*SPECIAL, *vocabulary]), unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return str(save_bert(folder, backend))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_word_piece(tmp_path_factory.mktemp("wordpiece"), VOCABULARY)


@pytest.fixture(scope="module")
def byte_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Bytes, spaces being part of words."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    words = ["film", "films", "Film", "movie", "Movies", "actor", "actors", "story", "good", "goodness", "bad"]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False)
    backend.train_from_iterator([f"{word} {word} {word}\n" for word in words * 5], trainer)
    return str(save_bert(tmp_path_factory.mktemp("bytes"), backend))


@pytest.fixture(scope="module")
def everything(checkpoint: str) -> MaskedLMCandidates:
    return MaskedLMCandidates(checkpoint, EVERYTHING)


def place(text: str, word: str, current: str | None = None, second: str | None = None) -> Place:
    """The first such word of a text, or of the second one of a pair."""
    passages = [Passage.of(TextExample("0", t, second), WORDS["textattack"]) for t in (text, current or text)]
    at = next(n for n in passages[0].attackable if passages[0].words[n] == word)
    return Place(passages[0], passages[1], at)


def stock_scores(checkpoint: str, text: str) -> tuple[list[str], NDArray[np.float64]]:
    """The stock model's tokens of a text and log probabilities of the vocabulary at each of them."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    ids = tokenizer(text)["input_ids"]
    with torch.no_grad():
        logits = BertForMaskedLM.from_pretrained(checkpoint).eval()(torch.tensor([ids])).logits[0, :, : len(tokenizer)]
    return tokenizer.convert_ids_to_tokens(ids), logits.log_softmax(-1).double().numpy()


def test_a_word_gets_what_the_stock_model_proposes_at_it_unmasked(
    checkpoint: str, everything: MaskedLMCandidates
) -> None:
    text = "the Film was good , un-dull ."
    tokens, scores = stock_scores(checkpoint, text)
    names = [*SPECIAL, *VOCABULARY]
    for word in ("Film", "good"):
        order = [names[n] for n in np.argsort(-scores[tokens.index(word.lower())])]
        expected = [token for token in order if token in WHOLE - {word.lower()}]
        (found,) = everything([place(text, word)])
        assert found == [token.capitalize() if word == "Film" else token for token in expected]
    assert {"the", "was"} < BERT.stop_words, "no stop word, number or punctuation was expected above"


def test_a_masked_word_gets_what_the_stock_model_proposes_for_the_mask_in_the_text_as_it_is(checkpoint: str) -> None:
    candidates = MaskedLMCandidates(checkpoint, replace(EVERYTHING, is_masked=True))
    tokens, scores = stock_scores(checkpoint, "the [MASK] was bad .")
    names = [*SPECIAL, *VOCABULARY]
    order = [names[n] for n in np.argsort(-scores[tokens.index("[MASK]")])]
    for word in ("film", "unkindable"):
        (found,) = candidates([place(f"the {word} was good .", word, f"the {word} was bad .")])
        assert found == [token for token in order if token in WHOLE - {word}], "of one piece, whatever it was"


def test_a_word_of_several_pieces_gets_the_best_combinations_of_as_many(checkpoint: str) -> None:
    text, num = "a unkind film", 60
    candidates = MaskedLMCandidates(checkpoint, replace(EVERYTHING, num_candidates=num))
    tokens, scores = stock_scores(checkpoint, text)
    first = tokens.index("un")
    assert tokens[first + 1] == "##kind"
    names = [*SPECIAL, *VOCABULARY]
    best = sorted(
        itertools.product(range(len(names)), repeat=2),
        key=lambda pair: -sum(scores[first + n, i] for n, i in enumerate(pair)),
    )
    pairs = [(names[one], names[other]) for one, other in best[:num]]
    expected = [one + other[2:] for one, other in pairs if re.fullmatch("[a-z7]+ ##[a-z]+", f"{one} {other}")]
    (found,) = candidates([place(text, "unkind")])
    assert len(found) > 3 and found == [word for word in expected if word != "unkind"]
    assert MaskedLMCandidates(checkpoint, replace(EVERYTHING, max_pieces=1))([place(text, "unkind")]) == [[]]


def test_antonyms_are_left_out_if_asked_for(tmp_path: Path) -> None:
    checkpoint = save_word_piece(tmp_path, ["a", "film", "big", "large", "small", "little"])
    relations = Relations(WordNet.load(WORDNET))
    for antonyms, expected in ((True, {"film", "large", "small", "little"}), (False, {"film", "large"})):
        candidates = MaskedLMCandidates(checkpoint, replace(EVERYTHING, antonyms=antonyms), relations)
        assert set(candidates([place("a big film", "big")])[0]) == expected
    with pytest.raises(ConfigError, match="antonyms=false: WordNet says"):
        MaskedLMCandidates(checkpoint, PROFILES["strict"])


def test_the_number_of_proposals_is_counted_before_those_that_are_no_words_go(checkpoint: str) -> None:
    (most,) = MaskedLMCandidates(checkpoint, EVERYTHING)([place("the film was good", "film")])
    (few,) = MaskedLMCandidates(checkpoint, replace(BERT, num_candidates=8))([place("the film was good", "film")])
    assert few == most[: len(few)] and 0 < len(few) < 8


def test_a_tokenizer_that_knows_spaces_writes_whole_words(byte_checkpoint: str) -> None:
    candidates = MaskedLMCandidates(byte_checkpoint, EVERYTHING)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(byte_checkpoint)
    spaced = {t[1:] for t in tokenizer.get_vocab() if re.fullmatch("Ġ[A-Za-z]+", t)} - BERT.stop_words
    bare = {t for t in tokenizer.get_vocab() if re.fullmatch("[A-Za-z]+", t)}
    assert {"film", "movie", "Film"} < spaced and len(bare - spaced) > 5, "the latter are parts of words"
    (after_space,) = candidates([place("good actor film", "film")])
    # Small words take the case of the one they replace, those with a capital keep it.
    assert set(after_space) == {w for w in spaced if w.lower() != "film"}
    (at_first,) = candidates([place("film good", "film")])
    assert set(at_first) == {w for w in spaced & bare if w.lower() != "film"}
    scores = stock_scores(byte_checkpoint, "film good")[1][1]  # after [CLS]: by the tokens without a space
    assert at_first == sorted(at_first, key=lambda w: -scores[tokenizer.convert_tokens_to_ids(w)])
    (large,) = candidates([place("good Film actor", "Film")])
    assert "Movie" in large and "movie" not in large


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bytes"])
def test_a_place_does_not_depend_on_what_is_asked_beside_it(
    kind: str, is_masked: bool, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue("checkpoint" if kind == "wordpiece" else "byte_checkpoint")
    options = replace(BERT, num_candidates=12, is_masked=is_masked)
    texts = ["film", "the film was unkind , unlikeable !", "good -- bad actor", "\u0300 \u200b film", "dull " * 30]
    places = [
        Place(passage, passage, at)
        for passage in (Passage.of(TextExample("0", text), WORDS["textattack"]) for text in texts)
        for at in passage.attackable
    ]
    together = MaskedLMCandidates(source, options)(places)
    candidates = MaskedLMCandidates(source, options)
    assert [candidates([one])[0] for one in reversed(places)][::-1] == together
    assert any(together)


def test_words_of_a_long_text_are_read_with_what_is_around_them(checkpoint: str) -> None:
    options = replace(EVERYTHING, context=10)
    text = " ".join(["dull", "story"] * 8 + ["film"] + ["bad", "actor"] * 8)
    (found,) = MaskedLMCandidates(checkpoint, options)([place(text, "film")])
    near = "story dull story film bad actor bad actor"  # eight words and two special tokens
    assert [found] == MaskedLMCandidates(checkpoint, options)([place(near, "film")])
    assert [found] != MaskedLMCandidates(checkpoint, EVERYTHING)([place(text, "film")])


def test_both_texts_of_a_pair_are_read(checkpoint: str, everything: MaskedLMCandidates) -> None:
    pair = place("a bad story", "film", second="the film was good")
    assert everything([pair]) == everything([place("a bad story\nthe film was good", "film")])
    assert everything([pair]) != everything([place("the film was good", "film")])


@pytest.mark.parametrize(("num_words", "share", "num"), [(1, 0.4, 1), (4, 0.4, 1), (5, 0.4, 2), (10, 0.7, 7)])
def test_no_more_than_a_share_of_the_words_changes(checkpoint: str, num_words: int, share: float, num: int) -> None:
    candidates = MaskedLMCandidates(checkpoint, replace(BERT, max_changed=share))
    at = place(" ".join(["film"] * num_words), "film")
    current = at.current
    for changed in range(num_words):
        (found,) = candidates([Place(at.original, current, changed)])
        assert bool(found) == (changed < num)
        current = current.with_word(changed, "movie")


class Sums:
    """How many of the words speak for label 1."""

    num_labels = 2

    def __init__(self) -> None:
        self.asked: list[str] = []

    def probabilities(self, examples: Sequence[TextExample]) -> NDArray[np.float64]:
        self.asked += [example.text for example in examples]
        texts = [f"{e.text} {e.second or ''}".lower() for e in examples]
        share = np.array([min(0.9, 0.1 + 0.3 * len(re.findall(r"film|good|fine", text))) for text in texts])
        return np.stack([1 - share, share], axis=1)


def attacked(
    source: str, options: MaskedLMOptions, texts: Sequence[str], **others: Any
) -> list[AdversarialExample[TextExample]]:
    examples = [TextExample(str(number), text, label=1) for number, text in enumerate(texts)]
    victim = others.pop("victim", Sums())
    return greedy_attack(victim, examples, MaskedLMCandidates(source, options), options=options, **others)


def test_bert_attack_hides_words_behind_a_mask_and_replaces_them_until_the_label_changes(checkpoint: str) -> None:
    victim = Sums()
    options = replace(BERT, num_candidates=40)
    (found,) = attacked(checkpoint, options, ["the actor was good , a film !"], victim=victim)
    assert victim.asked[:7] == [
        "the actor was good , a film !",
        "[MASK] actor was good , a film !",
        "the [MASK] was good , a film !",
        "the actor [MASK] good , a film !",
        "the actor was [MASK] , a film !",
        "the actor was good , [MASK] film !",
        "the actor was good , a [MASK] !",
    ]
    assert found.outcome == "succeeded" and found.num_queries == len(victim.asked)
    ((at, old, new),) = found.notes["changed"]
    assert (at, old) == (3, "good") and new in WHOLE - {"film", "good", "fine"}
    assert found.adversarial.text == f"the actor was {new} , a film !"


def test_bae_keeps_the_part_of_speech_and_deletes_words_to_rank_them(checkpoint: str) -> None:
    victim, tagger = Sums(), make_tagger("pattern")
    (found,) = attacked(checkpoint, BAE, ["the actor was good , the film !"], victim=victim, tagger=tagger)
    assert "[MASK]" not in "".join(victim.asked) and "the was good , the film !" in victim.asked
    assert found.notes["changed"]
    adjectives = {"good", "bad", "fine", "dull"}
    assert all((old in adjectives) == (new in adjectives) for _, old, new in found.notes["changed"])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["The", "film", "good,", "unkind", "7", "-", "Fine!"]), max_size=7), max_size=4),
    st.booleans(),
)
def test_an_example_does_not_depend_on_what_is_attacked_beside_it_and_all_but_words_stays(
    checkpoint: str, texts: list[list[str]], is_masked: bool
) -> None:
    options = replace(BERT, num_candidates=12, is_masked=is_masked)
    joined = ["  ".join(words) for words in texts]
    together = attacked(checkpoint, options, joined)
    alone = [
        replace(found, original=one.original, adversarial=replace(found.adversarial, key=one.original.key))
        for one, text in zip(together, joined, strict=True)
        for found in attacked(checkpoint, options, [text])
    ]
    assert together == alone
    for found in together:
        olds, news = (re.split(r"(\w+)", e.text) for e in (found.original, found.adversarial))
        assert olds[::2] == news[::2]
        assert all(old == new for old, new in zip(olds, news, strict=True) if old in BERT.stop_words | {"The"})


@given(st.integers(0, 3), st.integers(1, 4), st.integers(1, 20), st.integers(0, 99))
def test_combinations_are_those_of_the_highest_sums(places: int, tokens: int, num: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    ids, scores = (
        random.permuted(np.arange(100)[: places * tokens]).reshape(places, tokens),
        random.random((places, tokens)),
    )
    every = [
        (sum(scores[n, at] for n, at in enumerate(chosen)), tuple(int(ids[n, at]) for n, at in enumerate(chosen)))
        for chosen in itertools.product(range(tokens), repeat=places)
    ]
    expected = [found for _, found in sorted(every, key=lambda one: -one[0])][:num] if places else []
    assert combinations(ids, scores, num) == expected
