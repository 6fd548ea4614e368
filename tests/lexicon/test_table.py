from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_lexicon import TINY_WORDNET, WORDS
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, wrapped
from trueneg.errors import ConfigError, LexiconError, TruenegWarning
from trueneg.files.arrays import ArrayFile
from trueneg.lexicon import table as table_module
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.table import (
    FORMS,
    TABLE_VERSION,
    Coverage,
    Forms,
    LookupTable,
    build_table,
    cached_table,
    coverage,
    is_listed,
)
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH
from trueneg.tokenizer import fingerprint

OURS: tuple[Forms, ...] = ("agree", "lemma")
"""The tables that leave out words by rules of our own."""


def rows(table: LookupTable, tokenizer: PreTrainedTokenizerFast) -> dict[str, set[str]]:
    tokens = {number: token for token, number in tokenizer.get_vocab().items()}
    found = {tokens[gold]: {tokens[p] for p in table.substitutes(gold)} for gold in range(table.vocab_size)}
    return {gold: row for gold, row in found.items() if row}


# ---- what is listed ----


def test_base_forms_of_synonyms(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    found = rows(build_table(wordpiece, wordnet, forms="lemma"), wordpiece)
    assert found["movie"] == found["movies"] == {"film", "picture", "pic"}
    assert found["remained"] == {"stay", "rest"}
    assert found["bigger"] == {"large"}
    assert found["primary"] == {"main", "chief"}
    assert "mice" not in found  # its only synonym is its own base form


def test_agreeing_forms_fit_in_the_place(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    found = rows(build_table(wordpiece, wordnet), wordpiece)
    assert found["movie"] == {"film", "picture", "pic"}
    assert found["movies"] == {"films", "pictures"}
    assert found["remained"] == {"stayed", "rested"}
    assert found["remains"] == {"stays"}
    assert found["stay"] == {"remain", "rest"}
    assert found["bigger"] == {"larger"}
    assert found["quickly"] == {"rapidly"}
    assert "axes" not in found  # a form of "axe" and of its synonym "ax"


@pytest.mark.parametrize("forms", OURS)
def test_short_words_stop_words_and_pieces_are_left_out(
    forms: Forms, wordpiece: PreTrainedTokenizerFast, wordnet: WordNet
) -> None:
    found = rows(build_table(wordpiece, wordnet, forms=forms), wordpiece)
    assert found["father"] == {"dad"}
    assert not {"pa", "will", "1990", "##movie", "##film"} & (set(found) | set().union(*found.values()))
    for partner in ("testament", "mcmxc"):
        assert partner in wordpiece.get_vocab() and partner not in found


@pytest.mark.parametrize("forms", FORMS)
def test_prefix_and_casing_agree(forms: Forms, byte_level: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    found = rows(build_table(byte_level, wordnet, forms=forms), byte_level)
    assert found == {
        "Ġprimary": {"Ġmain"},
        "Ġmain": {"Ġprimary"},
        "primary": {"main"},
        "main": {"primary"},
        "ĠPrimary": {"ĠMain"},
        "ĠMain": {"ĠPrimary"},
        "Primary": {"Main"},
        "Main": {"Primary"},
        "ĠPRIMARY": {"ĠMAIN"},
        "ĠMAIN": {"ĠPRIMARY"},
        "PRIMARY": {"MAIN"},
        "MAIN": {"PRIMARY"},
        "Ġmovie": {"Ġfilm"},
        "Ġfilm": {"Ġmovie"},
        "movie": {"film"},
        "film": {"movie"},
    }


def test_sentencepiece_lists_only_starts(metaspace: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    found = rows(build_table(metaspace, wordnet), metaspace)
    assert found == {"▁primary": {"▁main"}, "▁main": {"▁primary"}}


WORD = st.sampled_from([*WORDS, "sees", "seen", "Paris", "Movie", "FILM", "PIC", "Main", "Chief", "iPod", "s"])
TOKEN = st.builds(lambda mark, word: mark + word, st.sampled_from(["", "##"]), WORD)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(TOKEN, unique=True), forms=st.sampled_from(OURS))
def test_what_no_table_ever_holds(tokens: list[str], forms: Forms, wordnet: WordNet) -> None:
    model = models.WordPiece({t: n for n, t in enumerate([*SPECIAL, *tokens])}, unk_token="[UNK]")
    table = build_table(wrapped(Tokenizer(model)), wordnet, forms=forms)
    names = [*SPECIAL, *tokens]
    pairs = [(names[k // table.vocab_size], names[k % table.vocab_size]) for k in table.keys.tolist()]
    for gold, predicted in pairs:
        assert gold != predicted
        for token in (gold, predicted):
            assert token.isalpha() and len(token) >= 3 and token.lower() not in STOP_WORDS
        assert (gold.islower(), gold.isupper(), gold.istitle()) == (
            predicted.islower(),
            predicted.isupper(),
            predicted.istitle(),
        )
        assert (
            wordnet.synonyms(gold) & {base for pos in PARTS_OF_SPEECH for base in wordnet.morphy(predicted, pos)}
            or forms == "lemma"
        )


# ---- the table as the paper has it ----

SUFFIXES = {
    "noun": "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
"""Morphy's rules of detachment, as WordNet's manual has them."""


def retrieved(folder: Path, words: set[str]) -> dict[str, set[str]]:
    """Every lemma of every synset of each word that is among the words, read from WordNet's files."""
    found: dict[str, set[str]] = {word: set() for word in words - STOP_WORDS}
    for pos, rules in SUFFIXES.items():
        lines = {name: (folder / name).read_text().splitlines() for name in (f"index.{pos}", f"data.{pos}")}
        index = {line.split()[0]: line.split() for line in lines[f"index.{pos}"] if line[:1] != " "}
        synset = {line[:8]: line.split() for line in lines[f"data.{pos}"] if line[:1] != " "}
        irregular = [line.split() for line in (folder / f"{pos}.exc").read_text().splitlines()]
        for word in found:
            listed = {base for form, *bases in irregular if form == word for base in bases}
            pairs = [rule.split(":") for rule in rules.split()]
            detached = {word[: -len(old)] + new for old, new in pairs if word.endswith(old)}
            for entry in (index[base] for base in {word} | (listed or detached) if base in index):
                for offset in entry[-int(entry[2]) :]:
                    num_words = int(synset[offset][3], 16)
                    found[word] |= {lemma.split("(")[0].lower() for lemma in synset[offset][4 : 4 + 2 * num_words : 2]}
    return {word: lemmas & words - {word} for word, lemmas in found.items()}


def test_every_lemma_of_every_synset_is_retrieved(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    words = {token for token in wordpiece.get_vocab() if not token.startswith(("##", "["))}
    expected = {word: found for word, found in retrieved(TINY_WORDNET, words).items() if found}
    assert rows(build_table(wordpiece, wordnet, forms="retrieved"), wordpiece) == expected
    assert expected["movies"] == {"movie", "film", "picture", "pic"}  # gold's own base form first
    assert expected["mice"] == {"mouse"} and expected["1990"] == {"mcmxc"}
    assert expected["helium"] == {"he"} and expected["testament"] == {"will"}  # stop words may be retrieved
    assert not {"he", "will", "##movie"} & expected.keys()  # and have no row of their own


def test_what_is_retrieved_agrees_in_prefix_and_casing(
    byte_level: PreTrainedTokenizerFast, metaspace: PreTrainedTokenizerFast, wordnet: WordNet
) -> None:
    for tokenizer in (byte_level, metaspace):
        # All words there are base forms, of three letters or more, and no stop words.
        ours, papers = (rows(build_table(tokenizer, wordnet, forms=f), tokenizer) for f in ("lemma", "retrieved"))
        assert papers == ours


@pytest.mark.parametrize("forms", FORMS)
def test_a_pair_is_listed_where_a_table_has_it(
    forms: Forms, wordpiece: PreTrainedTokenizerFast, wordnet: WordNet
) -> None:
    table = build_table(wordpiece, wordnet, forms=forms)
    tokens = {token: number for token, number in wordpiece.get_vocab().items() if not token.startswith(("##", "["))}
    for gold, g in tokens.items():
        listed = {other for other in tokens if is_listed(gold.title(), other, wordnet, forms)}
        assert listed == {other for other, p in tokens.items() if table.contains(g, p)}


# ---- asking ----


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_contains_is_membership_in_the_sets(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    ids = st.integers(0, size - 1)
    held = data.draw(st.dictionaries(ids, st.frozensets(ids)))
    keys = np.array(sorted(g * size + p for g, row in held.items() for p in row), np.int64)
    table = LookupTable(keys, size, "made up")
    gold, predicted = np.meshgrid(np.arange(-2, size + 3), np.arange(-2, size + 3), indexing="ij")
    expected = [[p in held.get(g, ()) for p in range(-2, size + 3)] for g in range(-2, size + 3)]
    np.testing.assert_array_equal(table.contains(gold, predicted), expected)
    assert {g: set(table.substitutes(g)) for g in range(size)} == {g: set(held.get(g, ())) for g in range(size)}
    assert len(table) == len(keys) and table.num_golds == sum(bool(row) for row in held.values())


def test_contains_broadcasts(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    table = build_table(wordpiece, wordnet)
    movie, film, rest = wordpiece.convert_tokens_to_ids(["movie", "film", "rest"])
    assert table.contains(movie, [[film, rest], [movie, -100]]).tolist() == [[True, False], [False, False]]
    assert LookupTable.empty(wordpiece).contains([movie], [film]).tolist() == [False]


def test_a_table_belongs_to_one_tokenizer(
    wordpiece: PreTrainedTokenizerFast, metaspace: PreTrainedTokenizerFast, wordnet: WordNet
) -> None:
    table = build_table(wordpiece, wordnet)
    table.check(wordpiece)
    with pytest.raises(LexiconError, match=r"for tokenizer .* not for .*: build one"):
        table.check(metaspace)


@pytest.mark.parametrize("keys", [[3, 2], [2, 2], [-1, 2], [2, 16]])
def test_keys_that_are_no_pairs_are_refused(keys: list[int]) -> None:
    with pytest.raises(LexiconError, match="must ascend"):
        LookupTable(np.array(keys, np.int64), 4, "made up")


def test_an_unknown_form_is_refused(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    with pytest.raises(ConfigError, match="did you mean 'retrieved'"):
        build_table(wordpiece, wordnet, forms="retreived")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'lemma'"):
        build_table(wordpiece, wordnet, forms="lema")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'agree'"):
        cached_table(wordpiece, wordnet=wordnet, forms="agreed")  # type: ignore[arg-type]


# ---- files ----


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.frozensets(st.integers(0, 99)), about=st.dictionaries(st.text(min_size=1), st.text()))
def test_save_and_load_give_the_same_table(keys: frozenset[int], about: dict[str, str], tmp_path: Path) -> None:
    table = LookupTable(np.array(sorted(keys), np.int64), 10, "0123", about)
    table.save(tmp_path / "new" / "t.safetensors")
    again = LookupTable.load(tmp_path / "new" / "t.safetensors")
    np.testing.assert_array_equal(again.keys, table.keys)
    assert (again.vocab_size, again.tokenizer_fingerprint, again.provenance) == (10, "0123", about)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["t.safetensors"]


@pytest.mark.parametrize("keys", [[2, 1], [1, 1], [-1], [9], [2**63 - 1, -(2**63)]])
def test_a_table_that_cannot_be_is_refused_whatever_its_checksum(keys: list[int], tmp_path: Path) -> None:
    about = {"vocab_size": 3, "tokenizer_fingerprint": "0123", "provenance": {}}
    written = ArrayFile("lookup table", TABLE_VERSION, LexiconError, "")
    written.write(tmp_path / "odd", {"keys": np.array(keys, np.int64)}, about)
    with pytest.raises(LexiconError, match=r"odd' is damaged \(.*keys must ascend.*lexicon build"):
        LookupTable.load(tmp_path / "odd")


def test_a_table_says_what_it_was_made_from(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    table = build_table(wordpiece, wordnet, forms="lemma")
    assert table.tokenizer_fingerprint == fingerprint(wordpiece)
    assert table.provenance["forms"] == "lemma"
    assert table.provenance["wordnet_digest"] == wordnet.digest
    assert table.provenance["num_pairs"] == str(len(table))
    assert table.provenance["num_golds"] == str(table.num_golds)


# ---- cache ----


def test_a_cached_table_is_built_once(
    wordpiece: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def counting(*args: object, forms: Forms) -> LookupTable:
        built.append(forms)
        return build_table(*args, forms=forms)  # type: ignore[arg-type]

    monkeypatch.setattr(table_module, "build_table", counting)
    first = cached_table(wordpiece, wordnet=TINY_WORDNET, cache_dir=tmp_path)
    second = cached_table(wordpiece, wordnet=WordNet.load(TINY_WORDNET), cache_dir=tmp_path)
    np.testing.assert_array_equal(first.keys, second.keys)
    assert first.provenance == second.provenance and built == ["agree"]
    cached_table(wordpiece, wordnet=TINY_WORDNET, forms="lemma", cache_dir=tmp_path)
    assert built == ["agree", "lemma"]
    for _ in range(2):
        cached_table(wordpiece, wordnet=TINY_WORDNET, forms="retrieved", cache_dir=tmp_path)
    assert built == ["agree", "lemma", "retrieved"]
    wordpiece.add_tokens(["covid"])
    cached_table(wordpiece, wordnet=TINY_WORDNET, cache_dir=tmp_path)
    assert built == ["agree", "lemma", "retrieved", "agree"]


def test_the_cache_is_under_the_cache_folder(
    wordpiece: PreTrainedTokenizerFast, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(TINY_WORDNET))
    cached_table(wordpiece)
    assert len(list((nowhere / "cache" / "tables").iterdir())) == 1


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_damaged_cache_is_built_again_with_a_warning(
    wordpiece: PreTrainedTokenizerFast, tmp_path: Path, is_torn: bool
) -> None:
    whole = cached_table(wordpiece, wordnet=TINY_WORDNET, cache_dir=tmp_path)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content[:-5] if is_torn else content)
    with pytest.warns(TruenegWarning, match="building the lookup table again"):
        again = cached_table(wordpiece, wordnet=TINY_WORDNET, cache_dir=tmp_path)
    np.testing.assert_array_equal(again.keys, whole.keys)
    np.testing.assert_array_equal(LookupTable.load(file).keys, whole.keys)


def test_missing_and_unwritable_files(wordpiece: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LexiconError, match=r"missing'.*lexicon build"):
        LookupTable.load(tmp_path / "missing")
    with pytest.raises(LexiconError, match="cannot write the lookup table"):
        cached_table(wordpiece, wordnet=TINY_WORDNET, cache_dir=tmp_path / "file" / "below")


# ---- footnote 5 ----


def test_coverage_counts_entries_with_a_synset(wordpiece: PreTrainedTokenizerFast, wordnet: WordNet) -> None:
    tokens = wordpiece.get_vocab()
    counted = [t for t in tokens if t not in STOP_WORDS]
    known = [t for t in counted if not t.startswith(("##", "[")) and t in wordnet]
    assert coverage(wordpiece, wordnet) == Coverage(len(counted), len(known))
    assert 0 < len(known) < len(counted) < len(tokens)
    assert Coverage(30_372, 18_987).share == pytest.approx(0.6251, abs=5e-5)
    assert Coverage(0, 0).share == 0.0


def test_stop_words_are_the_old_list() -> None:
    assert len(STOP_WORDS) == 179
    assert {"the", "she's", "wouldn't"} <= STOP_WORDS and "us" not in STOP_WORDS
