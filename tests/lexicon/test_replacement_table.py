"""The compiled replacements of a corpus: rows, counts, random words, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_replacements import EVERY_SENSE, Synsets, film_counts, made_wordnet

from trueneg.corruption.views.replacement_table import (
    REPLACEMENTS_VERSION,
    ReplacementTable,
    Word,
    compile_replacements,
)
from trueneg.errors import LexiconError
from trueneg.files.arrays import ArrayFile
from trueneg.lexicon.replacements import KINDS, Kind, ReplacementOptions, Replacements
from trueneg.lexicon.tags import NUMBERS, PENN
from trueneg.lexicon.wordnet import WordNet

ARRAYS = ("text", "text_offsets", "keys", "counts", "offsets", "candidates")
CORPUS: list[Word] = [
    ("movies", "NNS", 40),
    ("films", "NNS", 30),
    ("pictures", "NNS", 20),
    ("mice", "NNS", 10),
    ("movie", "NN", 25),
    ("film", "NN", 15),
    ("show", "NN", 9),
    ("thing", "NN", 60),
    ("stayed", "VBD", 7),
    ("remained", "VBN", 5),
    ("walked", "VBD", 6),
    ("moved", "VBD", 8),
    ("the", "DT", 200),
    ("was", "VBD", 90),
    ("Paris", "NNP", 12),
]
ANY = ReplacementOptions(senses="all", min_count=0, min_ratio=0.0)


@pytest.fixture
def table(wordnet: WordNet) -> ReplacementTable:
    return compile_replacements(CORPUS, wordnet, EVERY_SENSE)


# ---- rows ----


def test_what_is_listed_is_what_the_rules_say(wordnet: WordNet) -> None:
    table, replacements = compile_replacements(CORPUS, wordnet, ANY), Replacements(wordnet, ANY)
    for form, tag, _ in CORPUS:
        listed = table.lookup(form, tag)
        listed.pop(Kind.RANDOM, None)
        assert listed == replacements.of(form, tag)
    assert table.lookup("the", "DT") == table.lookup("was", "VBD") == table.lookup("Paris", "NNP") == {}
    assert table.lookup("qwzx", "NN") == table.lookup("movies", "??") == {}


def test_the_arrays_are_sparse_rows(table: ReplacementTable) -> None:
    for row, (form, tag) in enumerate(zip(table.row_forms, table.row_tags, strict=True)):
        found = table.lookup(table.forms[form], PENN[tag])
        for k, kind in enumerate(KINDS):
            held = table.candidates[table.offsets[k, row] : table.offsets[k, row + 1]]
            assert [table.forms[n] for n in held] == found.get(kind, [])
            assert table.num_candidates(kind)[row] == len(held)
    assert [table.forms[n] for n in table.row_forms] == sorted(table.forms[n] for n in table.row_forms)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(forms=st.lists(st.integers(-2, 40), max_size=20), tag=st.integers(-1, 600))
def test_rows_of_many_words(table: ReplacementTable, forms: list[int], tag: int) -> None:
    keys = {(int(f), int(t)): row for row, (f, t) in enumerate(zip(table.row_forms, table.row_tags, strict=True))}
    for number in (tag, NUMBERS["NNS"]):
        assert table.rows(forms, number).tolist() == [keys.get((form, number), -1) for form in forms]
    grid = table.rows(np.array(forms, np.int64)[:, None], np.arange(len(PENN))[None])
    assert grid.shape == (len(forms), len(PENN))


def test_a_tag_that_is_none_has_no_row(table: ReplacementTable) -> None:
    """A key has room for 256 tags: one more must not be read as a tag of the next form."""
    form, tag = next((f, t) for f, t in zip(table.row_forms, table.row_tags, strict=True) if f % 2)
    assert table.rows(form, tag) >= 0
    assert table.rows([form - 1, form, form + 1], [256 + tag, tag - 256, tag - 256]).tolist() == [-1, -1, -1]


def test_counts_filter_candidates(wordnet: WordNet) -> None:
    def found(**options: float) -> set[str]:
        made = ReplacementOptions(senses="all", **options)  # type: ignore[arg-type]
        return set(compile_replacements(CORPUS, wordnet, made).lookup("movies", "NNS").get(Kind.SYNONYM, []))

    assert found(min_count=20, min_ratio=0.0) == {"films", "pictures"}
    assert found(min_count=21, min_ratio=0.0) == {"films"}
    assert found(min_count=0, min_ratio=0.5) == {"films", "pictures"}
    assert found(min_count=0, min_ratio=0.51) == {"films"}
    # Nothing is asked of a candidate's frequency: one that the corpus lacks is listed.
    assert compile_replacements(CORPUS, wordnet, ANY).lookup("show", "NN")[Kind.SYNONYM] == ["performance"]
    assert Kind.SYNONYM not in compile_replacements(CORPUS, wordnet, EVERY_SENSE).lookup("show", "NN")


def test_candidates_of_several_words_count_as_their_rarest(wordnet: WordNet) -> None:
    def found(*others: Word) -> list[str]:
        options = ReplacementOptions(senses="all", multiword=True, min_ratio=0.0)
        table = compile_replacements([*CORPUS, *others], wordnet, options)
        return [form for form in table.lookup("movies", "NNS")[Kind.SYNONYM] if " " in form]

    assert found() == found(("motion", "NN", 1)) == []
    assert found(("motion", "NN", 2)) == ["motion pictures"]


def test_without_rules_of_frequency_the_corpus_says_nothing_of_candidates(wordnet: WordNet) -> None:
    """One of several words has no count of its own: with both rules off it needs none."""
    off = ReplacementOptions(senses="all", multiword=True, min_count=0, min_ratio=0.0)
    table = compile_replacements(CORPUS, wordnet, off)
    assert "motion pictures" in table.lookup("movies", "NNS")[Kind.SYNONYM]
    for form, tag, _ in CORPUS:
        listed = table.lookup(form, tag)
        listed.pop(Kind.RANDOM, None)
        assert listed == Replacements(wordnet, off).of(form, tag)


def test_any_word_may_be_a_random_one(wordnet: WordNet) -> None:
    def classes(**options: object) -> set[str]:
        made = ReplacementOptions(senses="all", min_count=0, **options)  # type: ignore[arg-type]
        found = compile_replacements(CORPUS, wordnet, made).lookup("movies", "NNS")[Kind.RANDOM]
        return {tag for form, tag, _ in CORPUS if form in found}

    assert classes(random="uniform") == {"NNS"}
    assert classes(random="any") >= {"NNS", "NN", "VBD"}
    assert "was" not in compile_replacements(CORPUS, wordnet, ANY).forms


def test_coverage_is_by_occurrence(wordnet: WordNet) -> None:
    table = compile_replacements(
        [("movies", "NNS", 6), ("films", "NNS", 2), ("qwzx", "NN", 2), ("of", "IN", 9)], wordnet, ANY
    )
    assert table.provenance["num_words"] == "19" and table.provenance["num_content_words"] == "10"
    assert table.coverage(Kind.SYNONYM) == 0.8
    assert table.coverage(Kind.ANTONYM) == table.coverage() == 0.0
    assert table.coverage(*KINDS) == 0.8


# ---- capitals ----


def test_forms_are_put_into_lower_case(wordnet: WordNet) -> None:
    cased: list[Word] = [("Movies", "NNS", 4), ("MOVIES", "NNS", 1), ("movies", "NNS", 5), ("films", "NNS", 5)]
    table = compile_replacements(cased, wordnet, ANY)
    assert table.forms[table.row_forms[1]] == "movies" and table.counts.tolist() == [5, 10]
    assert table.lookup("Movies", "NNS") == {}


def test_a_form_with_capitals_only_is_a_name(wordnet: WordNet) -> None:
    words: list[Word] = [("movies", "NNS", 5), ("Films", "NNS", 5), ("FILMS", "NNS", 2), ("pictures", "NNS", 1)]
    table = compile_replacements(words, wordnet, ReplacementOptions(senses="all", min_count=1))
    assert table.lookup("films", "NNS") == {}
    assert table.lookup("movies", "NNS")[Kind.SYNONYM] == ["pictures"]
    assert table.provenance["num_only_capitalised"] == "7"


# ---- random words ----

LETTERS = "bcdfghjklm"


def made_up_words() -> list[str]:
    return [f"w{a}{b}{c}" for a in LETTERS[:3] for b in LETTERS for c in LETTERS]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WordNet, list[Word]]]:
    """300 nouns that mean nothing to each other but for two; the last is rare."""
    nouns = made_up_words()
    synsets: Synsets = {word: ("n", word, [], "made up") for word in nouns[2:]}
    synsets["pair"] = ("n", f"{nouns[0]} {nouns[1]}", [], "made up")
    wordnet = made_wordnet(tmp_path_factory.mktemp("wordnet") / "wn", synsets)
    yield (
        wordnet,
        [(word, "NN", 5 if word == nouns[-1] else round(20000 * 3 ** (-rank / 60))) for rank, word in enumerate(nouns)],
    )


def test_random_words_have_about_the_same_frequency(vocabulary: tuple[WordNet, list[Word]]) -> None:
    wordnet, words = vocabulary
    table = compile_replacements(words, wordnet, ReplacementOptions(senses="all", band=2.0, num_random=40))
    counts = {word: count for word, _, count in words}
    ranks = {word: rank for rank, (word, _, _) in enumerate(words)}
    ratios = []
    for word, tag, count in words:
        drawn = table.lookup(word, tag)[Kind.RANDOM]
        assert 1 <= len(drawn) <= max(8, min(count, 40)) and word not in drawn and len(set(drawn)) == len(drawn)
        assert all(1 / 2 <= counts[d] / count <= 2 or abs(ranks[d] - ranks[word]) <= 33 for d in drawn)
        ratios += [counts[d] / count for d in drawn]
    assert max(ratios) > 1.5 and min(ratios) < 0.7
    # A rare word has fewer of them: eight, or one less if one of the eight was the word itself.
    assert table.num_candidates(Kind.RANDOM).max() > 35
    assert len(table.lookup(*words[-1][:2])[Kind.RANDOM]) in (7, 8)


def test_a_band_has_words_on_both_sides_however_narrow(vocabulary: tuple[WordNet, list[Word]]) -> None:
    wordnet, words = vocabulary
    table = compile_replacements(words, wordnet, ReplacementOptions(senses="all", band=1.0))
    ranks = {word: rank for rank, (word, _, _) in enumerate(words)}
    drawn = [ranks[word] - 150 for word in table.lookup(words[150][0], "NN")[Kind.RANDOM]]
    assert len(drawn) == 63 and min(drawn) == -32 and max(drawn) == 31


def test_random_words_from_everywhere(vocabulary: tuple[WordNet, list[Word]]) -> None:
    wordnet, words = vocabulary
    table = compile_replacements(words, wordnet, ReplacementOptions(senses="all", random="uniform", min_count=0))
    ranks = {word: rank for rank, (word, _, _) in enumerate(words)}
    drawn = [ranks[d] for word, tag, _ in words[:100] for d in table.lookup(word, tag)[Kind.RANDOM]]
    share, _ = np.histogram(drawn, bins=3, range=(0, 300))
    assert (np.abs(share / len(drawn) - 1 / 3) < 0.03).all()


def test_no_random_word_is_near(vocabulary: tuple[WordNet, list[Word]]) -> None:
    wordnet, words = vocabulary
    two = [word for word, _, _ in words[:2]]
    drawn = compile_replacements(words, wordnet, EVERY_SENSE).lookup(two[0], "NN")[Kind.RANDOM]
    assert len(drawn) > 20 and not set(two) & set(drawn)
    # The only other word of the corpus means the same: none is left.
    assert Kind.RANDOM not in compile_replacements(words[:2], wordnet, EVERY_SENSE).lookup(two[0], "NN")


def test_random_words_stand_in_the_same_slot(table: ReplacementTable) -> None:
    def drawn(form: str, tag: str) -> set[str]:
        return set(table.lookup(form, tag).get(Kind.RANDOM, ()))

    assert drawn("mice", "NNS") <= {"movies", "films", "pictures"} and drawn("mice", "NNS")
    assert drawn("stayed", "VBD") == {"walked"}  # "remained" is a synonym, "moved" an antonym
    assert drawn("the", "DT") == set()


def test_rare_words_and_none_are_drawn_as_the_options_say(wordnet: WordNet) -> None:
    few = ReplacementOptions(senses="all", min_count=30)
    assert compile_replacements(CORPUS, wordnet, few).lookup("mice", "NNS")[Kind.RANDOM] == ["films", "movies"]
    none = compile_replacements(CORPUS, wordnet, ReplacementOptions(senses="all", num_random=0))
    assert not none.num_candidates(Kind.RANDOM).any()


# ---- whole tables ----


def test_the_order_of_the_words_makes_no_difference(wordnet: WordNet, table: ReplacementTable) -> None:
    split = [(form, tag, count - 1) for form, tag, count in CORPUS] + [(form, tag, 1) for form, tag, _ in CORPUS]
    other = compile_replacements(reversed(split), wordnet, EVERY_SENSE)
    assert other.digest == table.digest and other.provenance == table.provenance
    changed = compile_replacements([("movies", "NNS", 41), *CORPUS[1:]], wordnet, EVERY_SENSE)
    assert changed.digest != table.digest and changed.provenance["words_digest"] != table.provenance["words_digest"]


def test_provenance(table: ReplacementTable, wordnet: WordNet, tmp_path: Path) -> None:
    assert table.provenance["wordnet_digest"] == wordnet.digest
    assert json.loads(table.provenance["options"])["senses"] == "all"
    assert "sense_counts_digest" not in table.provenance
    frequent = [
        compile_replacements(CORPUS, made_wordnet(tmp_path / name, counts=film_counts(1, n))).provenance
        for n, name in enumerate(("one", "two"))
    ]
    assert frequent[0]["sense_counts_digest"] != frequent[1]["sense_counts_digest"]
    assert frequent[0]["wordnet_digest"] == frequent[1]["wordnet_digest"]


def test_no_words(wordnet: WordNet, tmp_path: Path) -> None:
    table = compile_replacements([], wordnet, EVERY_SENSE)
    assert len(table) == 0 and table.lookup("movies", "NNS") == {} and table.coverage(*KINDS) == 0.0
    assert table.rows([0, -1], [5, 5]).tolist() == [-1, -1]
    table.save(tmp_path / "none.safetensors")
    assert len(ReplacementTable.load(tmp_path / "none.safetensors")) == 0


def test_words_of_any_kind(wordnet: WordNet) -> None:
    odd: list[Word] = [("🙂", "NN", 3), ("\x00", "NN", 1), ("naïve", "JJ", 2), ("", "NN", 1), ("movie", "XYZ", 4)]
    table = compile_replacements(odd, wordnet, ANY)
    assert len(table) == 0 and table.provenance["num_words"] == "11"


def test_a_negative_count_is_an_error(wordnet: WordNet) -> None:
    with pytest.raises(LexiconError, match="'movie' with tag 'NN' is counted -1 times"):
        compile_replacements([("movie", "NN", -1)], wordnet, EVERY_SENSE)


# ---- files ----


def test_saved_and_loaded(table: ReplacementTable, tmp_path: Path) -> None:
    path = tmp_path / "made" / "replacements.safetensors"
    table.save(path)
    loaded = ReplacementTable.load(path)
    assert loaded.digest == table.digest and loaded.provenance == table.provenance
    assert loaded.forms == table.forms and loaded.lookup("movies", "NNS") == table.lookup("movies", "NNS")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def write(path: Path, table: ReplacementTable, version: str = REPLACEMENTS_VERSION, **changes: Any) -> None:
    """Write a table with other arrays or other texts, and the checksum that belongs to them."""
    arrays = {name: getattr(table, name) for name in ARRAYS} | {n: v for n, v in changes.items() if n in ARRAYS}
    about = {"kinds": list(KINDS), "tags": list(PENN), "provenance": dict(table.provenance)}
    about |= {name: value for name, value in changes.items() if name not in ARRAYS}
    ArrayFile("replacement table", version, LexiconError, "").write(path, arrays, about)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "of version 1, not"),
        ({"tags": ["NN"]}, "with other kinds or tags"),
        ({"kinds": ["synonym"]}, "with other kinds or tags"),
        ({"provenance": {"options": 3}}, "'provenance.options'"),
    ],
)
def test_another_file_is_refused(
    table: ReplacementTable, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write(tmp_path / "table", table)
    assert ReplacementTable.load(tmp_path / "table").digest == table.digest
    write(tmp_path / "table", table, **changes)
    with pytest.raises(LexiconError, match=rf"table'.*{message}.*compile it again"):
        ReplacementTable.load(tmp_path / "table")


@pytest.mark.parametrize("name", ARRAYS)
def test_damaged_arrays_are_refused(table: ReplacementTable, tmp_path: Path, name: str) -> None:
    array = getattr(table, name)
    others = [array[..., :-1], array.astype(np.float32), array[..., :0]]
    if name not in ("counts", "text", "candidates"):
        others.append(array[..., ::-1].copy())
    if name == "candidates":
        others += [np.full_like(array, -1), np.full_like(array, len(table.forms))]
    for other in others:
        write(tmp_path / "table", table, **{name: other})
        with pytest.raises(LexiconError, match="is damaged"):
            ReplacementTable.load(tmp_path / "table")


def test_missing_and_unwritable_files(table: ReplacementTable, tmp_path: Path) -> None:
    """What is torn or changed is noticed by ``ArrayFile``: tests/files/test_arrays.py."""
    with pytest.raises(LexiconError, match=r"nothing'.*compile it again"):
        ReplacementTable.load(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(LexiconError, match="cannot write the replacement table"):
        table.save(tmp_path / "file" / "table")
