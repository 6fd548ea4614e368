"""Words in a target's place: what the stock model writes there, and SWORDS' scores by loops over its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.detectors.scorers.base import Substitution
from trueneg.errors import ConfigError, TruenegError
from trueneg.evaluation.detectors.swords import Benchmark, Item
from trueneg.evaluation.masked_lm.substitutes import Judged, SubstituteWriter, ceilings, evaluate_substitution
from trueneg.evaluation.results.store import columns_of
from trueneg.lexicon.wordnet_location import PartOfSpeech
from trueneg.tasks.metrics import GAP, METRICS, SUBSTITUTION_METRICS

WORDS = """
the a movie film films picture main primary chief stay remain rest mouse was ! , . un ##stay ##able ##s 1990
""".split()  # noqa: SIM905
CONTEXT = "The primary film was a rest . "
LEMMAS = {"films": "film", "movies": "movie", "chiefs": "chief"}


def lemma(word: str, pos: PartOfSpeech | None) -> str:
    return LEMMAS.get(word.lower(), word.lower())


def item(word: str, accepting: int, rejecting: int, target: str = "t0") -> Item:
    place = Substitution("A primary film.", 2, 9, word, "a")
    share = accepting / max(1, accepting + rejecting)
    return Item(place, share, target, f"{target}.{word}", "primary", word, accepting, rejecting)


def judged(*items: Item) -> Judged:
    return Judged(Benchmark(items, {}), lemma)


def written(*words: str) -> list[tuple[str, float]]:
    return [(word, -float(rank)) for rank, word in enumerate(words)]


def figures(of: Judged, lists: Sequence[Sequence[str]], vocabulary: Sequence[str] = ()) -> dict[str, float]:
    columns = columns_of(of.predictions([written(*words) for words in lists], [{}] * len(lists), vocabulary))
    return {name: METRICS[name](columns) for name in SUBSTITUTION_METRICS}


def by_definition(
    labels: Mapping[str, Mapping[str, Sequence[bool]]], lists: Mapping[str, Sequence[str]], target: str
) -> dict[str, float]:
    """Lee et al. (2021), section 5: sums over targets, k of 10 and of 1."""
    found = {}
    for way in ("lenient", "strict"):
        for level, least in (("acceptable", 0.5 + 1e-4), ("conceivable", 0.1)):
            for k in (10, 1):
                right = given = possible = 0
                for key, raw in labels.items():
                    votes: dict[str, list[bool]] = {}
                    for word, said in raw.items():
                        if lemma(word, None) != target:
                            votes.setdefault(lemma(word, None), []).extend(said)
                    votes = {word: said for word, said in votes.items() if said}
                    if not votes:
                        continue
                    good = {word for word, said in votes.items() if sum(said) / len(said) >= least}
                    ranked = []
                    for word in lists[key]:
                        one = lemma(word, None)
                        if one not in ranked and one != target and (way == "strict" or one in votes):
                            ranked.append(one)
                    right += len(good & set(ranked[:k]))
                    given += len(ranked[:k])
                    possible += min(k, len(good))
                precision, recall = right / given if given else 0.0, right / possible if possible else 0.0
                total = precision + recall
                found[f"p1_{way}_{level}" if k == 1 else f"f10_{way}_{level}"] = (
                    precision if k == 1 else 2 * precision * recall / total if total else 0.0
                )
    return found


MANY = [f"w{number}" for number in range(14)]
some_words = st.sampled_from(["film", "films", "movie", "movies", "chief", "primary", "work of art", "x-ray", *MANY])
labelled = st.dictionaries(some_words, st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=16)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(labelled, st.lists(some_words, max_size=20, unique=True)), min_size=1, max_size=4))
def test_figures_are_those_of_the_definition(
    made: list[tuple[dict[str, tuple[int, int]], list[str]]],
) -> None:
    made = [({"film": (3, 2)}, ["movie", "films"]), *made]
    items = [item(word, *said, f"t{n}") for n, (labels, _) in enumerate(made) for word, said in labels.items()]
    votes = {
        f"t{n}": {word: [True] * yes + [False] * no for word, (yes, no) in labels.items()}
        for n, (labels, _) in enumerate(made)
    }
    lists = {f"t{n}": words for n, (_, words) in enumerate(made)}
    of = judged(*items)
    found = figures(of, [lists[target] for target in of.targets])
    assert found == pytest.approx(by_definition(votes, lists, "primary"))


def test_what_is_written_by_hand() -> None:
    of = judged(item("main", 6, 4), item("chief", 5, 5), item("blue", 0, 10), item("work of art", 1, 9))
    found = figures(of, [["Primary", "main", "pink", "blue", "chiefs", "chief"]])
    # Lenient: main, blue, chief; acceptable is "main" alone, for half is not most; conceivable are all but "blue".
    assert found["f10_lenient_acceptable"] == pytest.approx(2 * 1 / (3 + 1))
    assert found["f10_lenient_conceivable"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["f10_strict_acceptable"] == pytest.approx(2 * 1 / (4 + 1))
    assert found["f10_strict_conceivable"] == pytest.approx(2 * 2 / (4 + 3))
    assert [found[f"p1_{way}_acceptable"] for way in ("lenient", "strict")] == [1.0, 1.0]


def test_all_of_gold_and_nothing_else_is_perfect() -> None:
    shares = {"main": (10, 0), "chief": (9, 1), "head": (8, 2)}
    found = figures(judged(*(item(word, *said) for word, said in shares.items())), [list(shares)])
    assert found == dict.fromkeys(SUBSTITUTION_METRICS, 1.0)


def test_ten_are_enough() -> None:
    of = judged(*(item(word, 10, 0) for word in MANY))
    assert figures(of, [MANY])["f10_strict_acceptable"] == 1.0
    assert figures(of, [MANY[:5]])["f10_strict_acceptable"] == pytest.approx(2 * 5 / (5 + 10))


def test_a_vocabulary_is_a_ceiling() -> None:
    of = judged(item("main", 9, 1), item("work of art", 9, 1), item("x-ray", 9, 1), item("films", 1, 4))
    columns = columns_of(of.predictions([written("main")], [{}], ["main", "FILM", "", "work"]))
    assert ceilings(columns) == pytest.approx({"acceptable": 2 * 1 / (1 + 3), "conceivable": 2 * 2 / (2 + 4)})


def test_nothing_written_is_right_about_nothing() -> None:
    assert set(figures(judged(item("main", 9, 1)), [[]]).values()) == {0.0}


@pytest.fixture(scope="module", params=["wordpiece", "byte-level"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of random weights over a few words, with two output rows that no token has."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "wordpiece":
        backend = Tokenizer(models.WordPiece(numbered([*SPECIAL, *WORDS]), unk_token="[UNK]"))
        backend.normalizer = normalizers.Lowercase()
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=500, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        backend.train_from_iterator([CONTEXT, "the film films main primary rest mouse"] * 3, trainer)
    wrapped(backend).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    vocab_size = backend.get_vocab_size() + 2
    config = BertConfig(vocab_size=vocab_size, max_position_embeddings=64, initializer_range=0.5, **sizes)
    BertForMaskedLM(config).eval().save_pretrained(folder)
    return folder


def stock(folder: Path, ids: list[int]) -> dict[str, float]:
    """Log probabilities of whole words, in lower case, at the last mask, as transformers gives them."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = BertForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        scores = model(torch.tensor([ids])).logits[0, len(ids) - 1 - ids[::-1].index(4), : len(tokenizer)]
    is_bytes = "Ġa" in tokenizer.get_vocab()
    found: dict[str, float] = {}
    for token, number in tokenizer.get_vocab().items():
        word = token.removeprefix("Ġ")
        if word.isalnum() and (token.startswith("Ġ") or not is_bytes) and word.isascii():
            found[word] = float(scores.log_softmax(-1)[number])
    return found


@pytest.mark.parametrize("way", ["masked", "visible"])
@pytest.mark.parametrize("num", [1, 3])
def test_the_words_are_the_stock_models(checkpoint: Path, way: str, num: int) -> None:
    spans = [(CONTEXT, 4, 11), (CONTEXT * 2, 12, 16), (CONTEXT, 12, 16)]
    writer = SubstituteWriter(str(checkpoint), way)
    found, _ = writer.write(spans, num)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(checkpoint)
    for (text, start, end), words in zip(spans, found, strict=True):
        pieces = [tokenizer(part, add_special_tokens=False).input_ids for part in (text, text[: start - 1], text[end:])]
        before, left, right = pieces
        space = [] if "Ġa" not in tokenizer.get_vocab() else tokenizer(" ", add_special_tokens=False).input_ids
        ids = [2, *([*before, 3] if way == "visible" else []), *left, *space, 4, *right, 3]
        expected = sorted(stock(checkpoint, ids).items(), key=lambda pair: -pair[1])[:num]
        assert [word for word, _ in words] == [word for word, _ in expected]
        assert [score for _, score in words] == pytest.approx([score for _, score in expected], abs=1e-4)
    assert writer.counts == {"contexts_cut": 0, "targets_cut": 0, "not_read": 0}


def test_at_the_start_of_a_text_words_need_no_space(checkpoint: Path) -> None:
    (words,), _ = SubstituteWriter(str(checkpoint)).write([(CONTEXT, 0, 3)], 500)
    assert {"film", "main"} <= {word for word, _ in words}


def test_a_context_is_cut_around_its_target_and_said(checkpoint: Path) -> None:
    long = CONTEXT * 40
    start = long.index("film", 500)
    for way in ("masked", "visible"):
        writer = SubstituteWriter(str(checkpoint), way, window=24)
        (words,), _ = writer.write([(long, start, start + 4)], 5)
        assert len(words) == 5
        assert writer.counts == {"contexts_cut": 1, "targets_cut": 0, "not_read": 0}


def test_a_target_longer_than_the_window_is_said(checkpoint: Path) -> None:
    text = f"the film {'un!' * 30} was"
    spans = [(text, 9, 99)]
    writer = SubstituteWriter(str(checkpoint), "visible", window=24)
    assert len(writer.write(spans, 5)[0][0]) == 5
    assert (writer.counts["targets_cut"], writer.counts["contexts_cut"]) == (1, 1)


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"way": "visable"}, "unknown target 'visable': did you mean 'visible'"),
        ({"window": 65}, "--window 65: '.*' reads at most 64 tokens"),
        ({"window": 2}, "--window 2 has no room for 1 sentences"),
        ({"way": "visible", "window": 4}, "--window 4 has no room for 2 sentences"),
    ],
)
def test_mistakes(checkpoint: Path, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        SubstituteWriter(str(checkpoint), **options)  # type: ignore[arg-type]


def test_no_targets_are_no_words(checkpoint: Path) -> None:
    assert SubstituteWriter(str(checkpoint)).write([], 5) == ([], [])
    (words,), _ = SubstituteWriter(str(checkpoint)).write([(CONTEXT, 4, 11)], 9)
    assert np.isfinite([score for _, score in words]).all()


def test_what_people_were_asked_about_is_ranked_by_the_models_probability(checkpoint: Path) -> None:
    of = judged(
        item("film", 9, 1), item("films", 1, 9), item("rest", 2, 8), item("work of art", 5, 5), item("mouse", 0, 10)
    )
    writer = SubstituteWriter(str(checkpoint))
    written_, ranked = writer.write([(CONTEXT, 4, 11)], 500, of.asked(writer.words))
    said = dict(written_[0])
    assert ranked == [{"film": max(said["film"], said["films"]), "rest": said["rest"], "mouse": said["mouse"]}]
    # By the definition: mean gain down to each rank whose own gain is positive, over the same for the best order.
    gains = {"film": 0.5, "rest": 0.2, "work of art": 0.5, "mouse": 0.0}
    order = [gains[lemma] for lemma in [*sorted(ranked[0], key=lambda lemma: -ranked[0][lemma]), "work of art"]]

    def gained(order: Sequence[float]) -> float:
        return sum(sum(order[:rank]) / rank for rank, gain in enumerate(order, 1) if gain > 0)

    (prediction,) = of.predictions(written_, ranked, writer.words)
    assert prediction["gap"] == pytest.approx(gained(order) / gained(sorted(gains.values(), reverse=True)))


def test_a_checkpoint_may_be_called_like_a_target(tmp_path: Path) -> None:
    with pytest.raises(TruenegError, match="no such file"):
        evaluate_substitution(["masked"], tmp_path / "none.json")
    with pytest.raises(ConfigError, match="'a' is named twice"):
        evaluate_substitution(["a", "a"], tmp_path / "none.json")


def test_targets_without_any_accepted_substitute_have_no_gap() -> None:
    of = judged(item("main", 9, 1), item("blue", 0, 10), item("pink", 0, 10, "t1"))
    columns = columns_of(of.predictions([[], []], [{"main": -1.0, "blue": -2.0}, {"pink": -1.0}], []))
    assert METRICS[GAP](columns) == 1.0
