"""Views replace as many words as they should, by candidates only, alike for the same key, and say what they did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from test_rewriting import END, PAD, build
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.config.objective_options import ViewsConfig
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, View
from trueneg.corruption.views.generator import Lists, TextRows, ViewGenerator
from trueneg.corruption.views.word_pieces import WordPieces

NOUN, OTHER = 13, 1
FORMS = [f"{kind}{number}" for kind in ("word", "syn", "hyper", "infl", "anto", "rand") for number in range(8)]
SPLIT = {"syn1": ["syn", "##1"], "hyper2": ["hy", "##per", "##2"], "rand3": ["ra", "##nd3"], "word5": ["wor", "##d5"]}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Most forms are a token; those of ``SPLIT`` two or three. Capitals are told apart."""
    entries = [*SPECIAL, "x", '"', "the"]
    entries += [form for form in FORMS if form not in SPLIT] + [f.title() for f in FORMS if f not in SPLIT]
    entries += [piece for pieces in SPLIT.values() for piece in pieces]
    entries += [pieces[0].title() for pieces in SPLIT.values()]
    backend = Tokenizer(models.WordPiece(numbered(entries), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return wrapped(backend)


TOKENIZER = make_tokenizer()


def lists(kind: str, of: dict[int, int]) -> Lists:
    """Of word ``w``, ``of[w]`` candidates ``kind(w)``, ``kind(w+1)``, …"""
    members = [[FORMS.index(f"{kind}{(word + n) % 8}") for n in range(of.get(word, 0))] for word in range(8)]
    sizes = np.array([len(m) for m in members], dtype=np.int64)
    flat = np.array([form for m in members for form in m], dtype=np.int64)
    return Lists(np.cumsum(sizes) - sizes, sizes, flat)


@dataclass(frozen=True)
class Made:
    """Words ``word0`` to ``word6`` as nouns have candidates; ``word7`` has none."""

    meaning: tuple[Lists, ...]
    antonyms: Lists
    random: Lists

    def entries(self, forms: np.ndarray, tags: np.ndarray) -> np.ndarray:
        return np.where((forms >= 0) & (forms < 7) & (tags == NOUN), forms, -1)


MADE = Made(
    (lists("syn", {0: 2, 1: 1, 2: 3, 5: 1}), lists("hyper", {1: 2, 2: 1, 3: 1}), lists("infl", {2: 1, 4: 1, 6: 1})),
    lists("anto", {0: 1, 1: 1}),
    lists("rand", dict.fromkeys(range(7), 8)),
)


def make_substitution(**options: Any) -> ViewGenerator:
    return ViewGenerator(MADE, WordPieces.of(FORMS, TOKENIZER), ViewsConfig(**options), PAD)


def make_rows(texts: list[str], length: int = 24, seed: int = 0, is_noun: bool = True) -> TextRows:
    pieces = [[TOKENIZER(word, add_special_tokens=False)["input_ids"] for word in text.split()] for text in texts]
    ids, segments, starts, special = build(pieces, length)
    tags = np.where(special, 0, NOUN if is_noun else OTHER).astype(np.uint8)
    keys = example_keys(seed, torch.arange(len(texts)))
    return TextRows(ids, segments, starts, special, tags, keys, is_packed=False)


def text_of(view: View, line: int) -> list[str]:
    found: list[str] = []
    for token in TOKENIZER.convert_ids_to_tokens([int(i) for i in view.input_ids[line]]):
        if token.startswith("##"):
            found[-1] += token[2:]
        elif token not in ("[PAD]", "[CLS]", "[SEP]"):
            found.append(token)
    return found


RANDOM = np.random.default_rng(5)
TEXTS = [" ".join(f"word{n}" if n < 8 else "the" for n in RANDOM.integers(0, 12, 14)) for _ in range(40)]


def test_words_are_replaced_by_their_own_candidates_only() -> None:
    synonym, antonym = make_substitution().views(make_rows(TEXTS))
    seen = set()
    for view, kinds in ((synonym, MADE.meaning), (antonym, (MADE.antonyms, MADE.random))):
        for line, text in enumerate(TEXTS):
            found = text_of(view, line)
            assert len(found) == len(text.split())
            for before, after in zip(text.split(), found, strict=True):
                if before == after:
                    continue
                number = int(before.removeprefix("word"))
                allowed = {
                    FORMS[f] for k in kinds for f in k.forms[k.starts[number] : k.starts[number] + k.sizes[number]]
                }
                assert after in allowed
                seen.add(after[:4])
    assert seen == {"syn0", "syn1", "syn2", "syn3", "syn4", "syn5", "hype", "infl", "anto", "rand"}


@pytest.mark.parametrize("kinds", get_args(get_type_hints(ViewsConfig)["synonym_kinds"]))
@pytest.mark.parametrize("mixed", ["mixed", "one"])
def test_synonym_views_have_the_kinds_that_are_asked_for(kinds: str, mixed: str) -> None:
    rows = make_rows(TEXTS)
    synonym, antonym = make_substitution(synonym_kinds=kinds, kinds=mixed).views(rows)
    put = {word[:3] for line in range(len(TEXTS)) for word in text_of(synonym, line)} - {"wor", "the"}
    assert put == {kind[:3] for kind in kinds.split("+")}
    assert antonym.input_ids.equal(make_substitution().views(rows)[1].input_ids)


def test_antonym_views_of_one_kind_a_text() -> None:
    rows = make_rows([*TEXTS, "word3 word4 word5 word6"])  # the last has no antonym
    synonym, antonym = make_substitution(antonym_kinds="one", antonym_share=0.5).views(rows)
    put = [{word[:4] for word in text_of(antonym, line)} & {"anto", "rand"} for line in range(len(TEXTS) + 1)]
    both = [{"word0", "word1"} & set(text.split()) != set() for text in TEXTS]
    assert all(len(kinds) == 1 for kinds in put) and put[-1] == {"rand"}
    share = np.mean([kinds == {"anto"} for kinds, has in zip(put, both, strict=False) if has])
    assert 0.25 < share < 0.75  # of about 30 coins
    assert synonym.input_ids.equal(make_substitution().views(rows)[0].input_ids)


def test_the_rest_of_a_word_that_the_row_before_began_stays() -> None:
    texts = [f"word{n} word{n} the" for n in range(7)]
    rows, both = make_rows(texts), {"synonym_share": 1.0, "antonym_share": 1.0}
    begins = rows.is_word_start.copy()
    begins[:, 1] = False
    for whole, cut in zip(
        make_substitution(**both).views(rows),
        make_substitution(**both).views(replace(rows, is_word_start=begins)),
        strict=True,
    ):
        for line, text in enumerate(texts):
            word = text.split()[0]
            assert text_of(cut, line)[0] == word
            assert (text_of(whole, line)[0] == word) == (text_of(cut, line)[1] == word), "the whole one is replaced"


def test_what_does_not_fit_any_more_is_counted() -> None:
    # "syn1" has two pieces and "hyper2" three, where "word1" and "word2" have one; seven words fill the row.
    text = "word1 word2 word1 word2 word1 word2 word1"
    rows = make_rows([text, "the"], length=9)
    view, _ = make_substitution(synonym_share=1.0).views(rows)
    roomy, _ = make_substitution(synonym_share=1.0).views(make_rows([text, "the"], length=40))
    num_tokens = (roomy.segments > 0).sum(1)
    assert view.num_cut is not None and view.num_cut.tolist() == [int(num_tokens[0]) - 9, 0]
    assert view.num_cut[0] > 0 and view.input_ids[0, -1] == END


def test_labels_say_which_tokens_were_put_there() -> None:
    rows = make_rows(TEXTS)
    for view, label in zip(make_substitution().views(rows), (SYNONYM, ANTONYM), strict=True):
        assert set(view.labels.unique().tolist()) == {KEPT, label}
        for line, text in enumerate(TEXTS):
            tokens = TOKENIZER.convert_ids_to_tokens([int(i) for i in view.input_ids[line]])
            starts = [
                n for n, t in enumerate(tokens) if not t.startswith("##") and t not in ("[PAD]", "[CLS]", "[SEP]")
            ]
            for word, begin, end in zip(text.split(), starts, [*starts[1:], tokens.index("[SEP]")], strict=True):
                shown = "".join(t.removeprefix("##") for t in tokens[begin:end])
                assert view.labels[line, begin:end].tolist() == [label if shown != word else KEPT] * (end - begin)
        is_text = view.segments > 0
        assert not bool((view.labels[~is_text] != KEPT).any())
        assert bool((view.is_candidate | (view.labels == KEPT)).all()), "what was replaced might have been"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 1.0])
def test_about_the_share_of_tokens_is_replaced(share: float) -> None:
    """Every word has a candidate here, so the share can be met to within half a word."""
    texts = ["word1 word2 word3 word4 word6 word1 word2 word3 word4 word6"] * 20
    synonym, antonym = make_substitution(synonym_share=share, antonym_share=share).views(make_rows(texts, length=40))
    for view in (synonym, antonym):
        for line in range(20):
            changed = sum(a != b for a, b in zip(texts[line].split(), text_of(view, line), strict=True))
            assert changed == round(share * 10)


def test_antonyms_come_before_random_words() -> None:
    """Two of ten words have antonyms, and a fifth of the tokens is to be replaced."""
    texts = ["word0 word1 word2 word3 word4 word6 the the the the"] * 30
    _, antonym = make_substitution(antonym_share=0.2).views(make_rows(texts))
    for line in range(30):
        assert [w[:4] for w in text_of(antonym, line)][:2] == ["anto", "anto"]
    _, antonym = make_substitution(antonym_share=0.4).views(make_rows(texts))
    for line in range(30):
        found = [w[:4] for w in text_of(antonym, line)]
        assert (found.count("anto"), found.count("rand")) == (2, 2)
    _, without = make_substitution(antonym_share=0.4, random="none").views(make_rows(texts))
    assert all("rand" not in word for line in range(30) for word in text_of(without, line))


def test_kinds_are_mixed_or_one_a_text() -> None:
    texts = ["word2 word2 word2 word2 word2 word2"] * 60
    mixed, _ = make_substitution(synonym_share=1.0).views(make_rows(texts))
    one, _ = make_substitution(synonym_share=1.0, kinds="one").views(make_rows(texts))
    kinds = [{w[:3] for w in text_of(view, line)} for view in (mixed, one) for line in range(60)]
    assert max(len(k) for k in kinds[:60]) == 3
    assert all(len(k) == 1 for k in kinds[60:])
    assert set().union(*kinds[60:]) == {"syn", "hyp", "inf"}


def test_capitals_are_kept() -> None:
    synonym, _ = make_substitution(synonym_share=1.0).views(make_rows(["Word4 word4 Word6"]))
    assert text_of(synonym, 0) == ["Infl4", "infl4", "Infl6"]


def test_other_tags_and_unknown_words_stay() -> None:
    substitution = make_substitution(synonym_share=1.0, antonym_share=1.0)
    for rows in (make_rows(TEXTS, is_noun=False), make_rows(["the the word7 the"])):
        for view in substitution.views(rows):
            assert np.array_equal(view.input_ids.numpy(), rows.input_ids)
            assert not bool(view.labels.any()) and not bool(view.is_candidate.any())


def test_a_view_is_a_function_of_the_rows_key() -> None:
    substitution, rows = make_substitution(), make_rows(TEXTS)
    whole = substitution.views(rows)
    chosen = [7, 3, 30]
    part = replace(
        rows,
        **{
            name: getattr(rows, name)[chosen]
            for name in ("input_ids", "segments", "is_word_start", "is_special", "tags", "keys")
        },
    )
    for all_rows, some in zip(whole, substitution.views(part), strict=True):
        assert torch.equal(all_rows.input_ids[chosen], some.input_ids)
        assert torch.equal(all_rows.labels[chosen], some.labels)
    other = substitution.views(make_rows(TEXTS, seed=1))
    assert not torch.equal(whole[0].input_ids, other[0].input_ids)
    assert not torch.equal(whole[1].input_ids, other[1].input_ids)


def test_a_row_that_gets_too_long_is_cut_before_its_end_token() -> None:
    text = " ".join(["word2"] * 22)
    rows = make_rows([text], length=24)
    seen_longer = False
    for seed in range(30):
        keys = example_keys(seed, torch.arange(1))
        view, _ = make_substitution(synonym_share=1.0).views(replace(rows, keys=keys))
        assert int(view.input_ids[0, -1]) == END and int(view.segments[0, -1]) == 1
        seen_longer = seen_longer or len(text_of(view, 0)) < 22
    assert seen_longer, "hyper2 has three pieces"


def test_punctuation_within_a_tokenizers_word_is_no_part_of_it() -> None:
    """SentencePiece makes one word of '"word4"'; only the letters are tagged."""
    rows = make_rows(['" word4 " the'])
    starts, tags = rows.is_word_start.copy(), rows.tags.copy()
    starts[0, 2:4] = False
    tags[0, [1, 3]] = 0
    view, _ = make_substitution(synonym_share=1.0).views(replace(rows, is_word_start=starts, tags=tags))
    assert text_of(view, 0) == ['"', "infl4", '"', "the"]


def test_a_word_that_the_row_may_have_cut_stays() -> None:
    rows = make_rows(["the word4"], length=4)
    view, _ = make_substitution(synonym_share=1.0).views(rows)
    assert text_of(view, 0) == ["the", "word4"]
    view, _ = make_substitution(synonym_share=1.0).views(make_rows(["the word4"], length=5))
    assert text_of(view, 0) == ["the", "infl4"]


def test_choices_are_even() -> None:
    texts = ["word0 " * 10] * 200
    view, _ = make_substitution(synonym_share=1.0).views(make_rows(texts))
    found = [word for line in range(200) for word in text_of(view, line)]
    share = found.count("syn0") / len(found)
    assert 0.46 < share < 0.54
