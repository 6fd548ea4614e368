"""What may replace a word: kinds, senses, agreement, and what is never a candidate."""

from __future__ import annotations

import runpy
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_lexicon import TINY_WORDNET, WORDS

from trueneg.errors import ConfigError, LexiconError
from trueneg.lexicon.morphology import penn_tags
from trueneg.lexicon.replacements import Kind, ReplacementOptions, Replacements, same_spelling, sense_counts_digest
from trueneg.lexicon.tags import PENN, coarse
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PARTS_OF_SPEECH

Synsets = dict[str, tuple[str, str, list[tuple[str, str, str]], str]]

EVERY_SENSE = ReplacementOptions(senses="all")
RELEASED = ReplacementOptions(senses="all", agree=False, multiword=True, min_count=0, min_ratio=0.0)
FILM, LAYER = "film%1:03:00:: 1 {}", "film%1:03:01:: 2 {}"


def made_wordnet(folder: Path, synsets: Synsets | None = None, counts: str = "", verbs: str = "") -> WordNet:
    """A WordNet of the synsets of the tests, with some put in or in their place, counts of senses, irregular verbs."""
    module = runpy.run_path(str(TINY_WORDNET / "make.py"))
    module["SYNSETS"].update(synsets or {})
    module["EXCEPTIONS"]["verb"] += verbs
    folder.mkdir(exist_ok=True)
    for name, text in module["build"]().items():
        (folder / name).write_text(text)
    (folder / "cntlist.rev").write_text(counts)
    return WordNet.load(folder)


def film_counts(first: int, second: int) -> str:
    return f"{FILM.format(first)}\n{LAYER.format(second)}\n"


def synonyms(wordnet: WordNet, form: str, tag: str, **options: object) -> set[str]:
    found = Replacements(wordnet, ReplacementOptions(**options)).of(form, tag)  # type: ignore[arg-type]
    return set(found.get(Kind.SYNONYM, ()))


# ---- kinds ----


@pytest.mark.parametrize(
    "form, tag, wanted",
    [
        ("movies", "NNS", {"synonym": ["films", "pictures"], "hypernym": ["shows", "performances"]}),
        ("mice", "NNS", {"hypernym": ["animals", "beasts"], "inflection": ["mouse"]}),
        ("big", "JJ", {"synonym": ["large"], "antonym": ["little"], "inflection": ["bigger", "biggest"]}),
        ("bigger", "JJR", {"synonym": ["larger"], "inflection": ["big", "biggest"]}),
        ("quickly", "RB", {"synonym": ["rapidly"], "antonym": ["slowly"]}),
        ("saw", "VBD", {"synonym": ["noticed"]}),
        ("walked", "VBD", {"hypernym": ["moved"], "inflection": ["walk", "walks", "walking"]}),
        ("happy", "JJ", {"antonym": ["unhappy"]}),
    ],
)
def test_kinds(wordnet: WordNet, form: str, tag: str, wanted: dict[str, list[str]]) -> None:
    found = Replacements(wordnet, EVERY_SENSE).of(form, tag)
    assert {kind: sorted(found.get(Kind(kind), [])) for kind in wanted} == {k: sorted(v) for k, v in wanted.items()}


def test_the_other_forms_of_a_verb(wordnet: WordNet) -> None:
    found = Replacements(wordnet, EVERY_SENSE).of("went", "VBD")
    assert set(found[Kind.INFLECTION]) == {"goes", "going", "gone"}  # "go" has two letters


def test_indirect_antonyms(wordnet: WordNet) -> None:
    direct = Replacements(wordnet, EVERY_SENSE)
    indirect = Replacements(wordnet, ReplacementOptions(senses="all", indirect=True))
    assert Kind.ANTONYM not in direct.of("glad", "JJ") and Kind.ANTONYM not in direct.of("remained", "VBD")
    assert indirect.of("glad", "JJ")[Kind.ANTONYM] == ["unhappy"]  # through the head, "happy"
    assert indirect.of("remained", "VBD")[Kind.ANTONYM] == ["moved"]  # through "stay"


# ---- senses ----


def test_first_and_all_senses(wordnet: WordNet) -> None:
    assert synonyms(wordnet, "film", "NN", senses="first") == {"movie", "picture", "pic"}
    assert synonyms(wordnet, "film", "NN", senses="all") == {"movie", "picture", "pic", "coating"}


@pytest.mark.parametrize("first, second, is_frequent", [(8, 2, True), (9, 2, False), (0, 1, True), (0, 0, False)])
def test_a_frequent_sense_has_a_share_of_the_counts(tmp_path: Path, first: int, second: int, is_frequent: bool) -> None:
    wordnet = made_wordnet(tmp_path / "wn", counts=film_counts(first, second))
    found = synonyms(wordnet, "film", "NN")
    assert {"movie", "picture", "pic"} <= found, "the first sense always counts"
    assert ("coating" in found) == is_frequent
    # "coating" has this one sense, and a reader takes "film" for it only where that is frequent.
    assert (synonyms(wordnet, "coating", "NN") == {"film"}) == is_frequent


def test_a_hypernym_is_read_in_its_frequent_sense(tmp_path: Path) -> None:
    thin: Synsets = {"skin": ("n", "skin", [("@", "layer", "0000")], "a film that grows")}
    rare = Replacements(made_wordnet(tmp_path / "rare", thin, film_counts(9, 1)))
    frequent = Replacements(made_wordnet(tmp_path / "frequent", thin, film_counts(5, 5)))
    assert rare.of("skin", "NN")[Kind.HYPERNYM] == ["coating"]
    assert frequent.of("skin", "NN")[Kind.HYPERNYM] == ["film", "coating"]


def test_counts_are_read_from_an_archive(tmp_path: Path) -> None:
    made_wordnet(tmp_path / "wn", counts=film_counts(1, 1))
    with zipfile.ZipFile(tmp_path / "wn.zip", "w") as archive:
        for file in (tmp_path / "wn").iterdir():
            archive.write(file, f"wordnet/{file.name}")
    assert "coating" in synonyms(WordNet.load(tmp_path / "wn.zip"), "film", "NN")
    assert sense_counts_digest(tmp_path / "wn.zip") == sense_counts_digest(tmp_path / "wn")


def test_a_wordnet_without_counts(wordnet: WordNet) -> None:
    with pytest.raises(LexiconError, match=r"has no cntlist\.rev.*choose senses=first"):
        Replacements(wordnet)


@pytest.mark.parametrize("line", ["film%1:03:00:: 1", "film 1 2", "film%9:03:00:: 1 2", "film%1:03:00:: one 2"])
def test_a_malformed_count_is_named(tmp_path: Path, line: str) -> None:
    wordnet = made_wordnet(tmp_path / "wn", counts=f"{FILM.format(3)}\n{line}\n")
    with pytest.raises(LexiconError, match=r"cntlist\.rev, line 2"):
        Replacements(wordnet)


# ---- agreement ----


def test_base_forms_are_the_papers(wordnet: WordNet) -> None:
    found = Replacements(wordnet, RELEASED).of("movies", "NNS")
    assert found[Kind.SYNONYM] == ["movie", "film", "picture", "motion picture", "pic"][1:]
    assert found[Kind.HYPERNYM] == ["show", "performance"]


def test_all_that_is_tagged(tmp_path: Path) -> None:
    """Section 3.1 extracts verbs, nouns, adjectives and adverbs, and says nothing of stop words or short ones."""
    more: Synsets = {
        "be": ("v", "be exist live", [], "there is"),
        "more": ("r", "more rather", [], "to a degree"),
        "depart": ("v", "depart go", [], "leave"),
    }
    wordnet = made_wordnet(tmp_path / "wn", more, verbs="was be\n")
    tagged = ReplacementOptions(senses="all", agree=False, words="tagged")
    content = ReplacementOptions(senses="all", agree=False)
    for form, tag, wanted in (("was", "VBD", "exist"), ("more", "RBR", "rather"), ("depart", "VB", "go")):
        assert wanted in Replacements(wordnet, tagged).of(form, tag)[Kind.SYNONYM]
        assert wanted not in Replacements(wordnet, content).of(form, tag).get(Kind.SYNONYM, [])
    assert "be" in Replacements(wordnet, tagged).of("exist", "VB")[Kind.SYNONYM]
    for form, tag in (("of", "IN"), ("paris", "NNP"), ("will", "MD"), ("the", "DT")):
        assert Replacements(wordnet, tagged).of(form, tag) == {}


def test_past_and_participle_that_look_the_same_take_only_such(tmp_path: Path) -> None:
    """Taggers confuse them: "selected" would be "chose" after "had" as often as not."""
    wordnet = made_wordnet(tmp_path / "wn", {"pick": ("v", "select choose pick", [], "take one")})
    assert synonyms(wordnet, "selects", "VBZ", senses="all") == {"chooses", "picks"}
    for tag in ("VBD", "VBN"):
        assert synonyms(wordnet, "selected", tag, senses="all") == {"picked"}
    assert synonyms(wordnet, "went", "VBD", senses="all") == {"moved"}


def test_slots(wordnet: WordNet) -> None:
    words = [("walked", "VBD"), ("walked", "VBN"), ("went", "VBD"), ("walk", "VBP"), ("walk", "VB"), ("mice", "NNS")]
    agreeing, papers = (Replacements(wordnet, EVERY_SENSE), Replacements(wordnet, RELEASED))
    assert [agreeing.slot(*word) for word in words] == ["VBD=VBN", "VBD=VBN", "VBD", "VB", "VB", "NNS"]
    assert [papers.slot(*word) for word in words] == ["v", "v", "v", "v", "v", "n"]


def test_a_tag_that_the_form_cannot_have(wordnet: WordNet) -> None:
    assert Replacements(wordnet, EVERY_SENSE).of("movies", "NN") == {}
    assert Replacements(wordnet, EVERY_SENSE).readings("saw", "VBD") == ("see",)
    assert Replacements(wordnet, ReplacementOptions(senses="all", agree=False)).readings("saw", "VBD") == ("saw", "see")


def test_several_words(wordnet: WordNet) -> None:
    assert "motion pictures" in synonyms(wordnet, "movies", "NNS", senses="all", multiword=True)
    assert not any(" " in found for found in synonyms(wordnet, "movies", "NNS", senses="all"))


def test_the_first_word_of_several_is_inflected(tmp_path: Path) -> None:
    leave: Synsets = {"leave": ("v", "leave go_away", [], "go from a place")}
    wordnet = made_wordnet(tmp_path / "wn", leave, verbs="left leave\n")
    found = {tag: synonyms(wordnet, "left", tag, senses="all", multiword=True) for tag in ("VBD", "VBN")}
    assert found == {"VBD": {"went away"}, "VBN": {"gone away"}}
    # The form alone would be a base form.
    cut = made_wordnet(tmp_path / "cut", {"cut": ("v", "cut trim_down reduce", [], "make less")})
    found = {tag: synonyms(cut, "cut", tag, senses="all", multiword=True) for tag in ("VB", "VBD")}
    assert found == {"VB": {"trim down", "reduce"}, "VBD": {"trimmed down", "reduced"}}


# ---- what is left out ----


def test_a_synonym_is_no_hypernym_too(tmp_path: Path) -> None:
    dogs: Synsets = {"cur": ("n", "cur mutt", [("@", "dog", "0000")], "bad"), "dog": ("n", "dog mutt", [], "barks")}
    found = Replacements(made_wordnet(tmp_path / "wn", dogs), EVERY_SENSE).of("cur", "NN")
    assert found[Kind.SYNONYM] == ["mutt"] and found[Kind.HYPERNYM] == ["dog"]


@pytest.mark.parametrize(
    "form, tag",
    [
        ("movies", "NNP"),
        ("movies", ""),
        ("movies", "IN"),
        ("was", "VBD"),
        ("done", "VBN"),
        ("more", "RB"),
        ("will", "NN"),
        ("paris", "NN"),
        ("1990", "NN"),
        ("two", "NN"),
        ("x", "NN"),
        ("movie-film", "NN"),
        ("", "NN"),
        ("qwzx", "NN"),
    ],
)
def test_not_replaced(tmp_path: Path, form: str, tag: str) -> None:
    more: Synsets = {
        "do": ("v", "do act", [], "be active"),
        "be": ("v", "be exist", [], "there is"),
        "two": ("n", "two pair", [], "one and one"),
        "x": ("n", "x cross", [], "a mark"),
        "more": ("r", "more rather", [], "to a degree"),
    }
    wordnet = made_wordnet(tmp_path / "wn", more, verbs="done do\nwas be\n")
    for options in (EVERY_SENSE, RELEASED):
        assert Replacements(wordnet, options).of(form, tag) == {}


def test_a_synonym_that_is_an_antonym_too(tmp_path: Path) -> None:
    both: Synsets = {
        "permit": ("v", "let allow", [("!", "forbid", "0201")], "give leave"),
        "forbid": ("v", "forbid let", [("!", "permit", "0102")], "refuse leave"),
    }
    wordnet = made_wordnet(tmp_path / "wn", both)
    assert synonyms(wordnet, "let", "VB", senses="all") == set()
    apart: Synsets = {name: (kind, words, [], gloss) for name, (kind, words, _, gloss) in both.items()}
    assert synonyms(made_wordnet(tmp_path / "apart", apart), "let", "VB", senses="all") == {"allow", "forbid"}


def test_another_spelling_is_no_synonym(tmp_path: Path) -> None:
    wordnet = made_wordnet(tmp_path / "wn", {"hue": ("n", "colour color hue", [], "red or green")})
    assert synonyms(wordnet, "colors", "NNS", senses="all") == {"hues"}


@pytest.mark.parametrize(
    "word, other, is_same",
    [
        ("grey", "gray", True),
        ("theatre", "theater", True),
        ("programme", "program", True),
        ("jewellery", "jewelry", True),
        ("aesthetic", "esthetic", True),
        ("sulphur", "sulfur", True),
        ("judgement", "judgment", True),
        ("traveller", "traveler", True),
        ("well-known", "wellknown", True),
        ("cheque", "check", False),
        ("movie", "film", False),
        ("begin", "start", False),
        ("historic", "historical", False),
        ("car", "motorcar", False),
    ],
)
def test_same_spelling(word: str, other: str, is_same: bool) -> None:
    assert same_spelling(word, other) == same_spelling(other, word) == is_same


def test_names_are_no_candidates(tmp_path: Path) -> None:
    gothic: Synsets = {
        "gothic": ("a", "Gothic medieval", [], "of the middle ages"),
        "rude": ("a", "gothic uncouth", [], "without manners"),
    }
    wordnet = made_wordnet(tmp_path / "wn", gothic)
    assert synonyms(wordnet, "medieval", "JJ", senses="all") == set()
    assert synonyms(wordnet, "gothic", "JJ", senses="all") == {"uncouth"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_what_never_happens(
    wordnet: WordNet, shared: Callable[[ReplacementOptions], Replacements], data: st.DataObject
) -> None:
    """No word replaces itself, none is in two kinds, and what is to agree has the tag that the word has."""
    form, tag = data.draw(st.sampled_from(WORDS)), data.draw(st.sampled_from(PENN))
    options = data.draw(
        st.builds(
            ReplacementOptions,
            senses=st.sampled_from(["first", "all"]),
            agree=st.booleans(),
            multiword=st.booleans(),
            indirect=st.booleans(),
        )
    )
    found = shared(options).of(form, tag)
    candidates = [candidate for kind in found.values() for candidate in kind]
    assert len(candidates) == len(set(candidates)) and form not in candidates
    assert all(found.values()) and Kind.RANDOM not in found
    assert all(candidate == candidate.lower() for candidate in candidates)
    assert options.multiword or all(candidate.isalpha() for candidate in candidates)
    if options.agree and not options.multiword:
        for kind in {*found} - {Kind.INFLECTION}:
            for candidate in found[kind]:
                bases = wordnet.morphy(candidate, coarse(tag))  # type: ignore[arg-type]
                assert any(tag in penn_tags(candidate, base, coarse(tag)) for base in bases)  # type: ignore[arg-type]
    if coarse(tag) not in PARTS_OF_SPEECH:
        assert not found


@pytest.fixture
def shared(wordnet: WordNet) -> Callable[[ReplacementOptions], Replacements]:
    made: dict[ReplacementOptions, Replacements] = {}
    return lambda options: made.setdefault(options, Replacements(wordnet, options))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"senses": "frequnt"}, "did you mean 'frequent'"),
        ({"random": "bend"}, "did you mean 'band'"),
        ({"min_share": 0.0}, "min_share must be"),
        ({"words": "tags"}, "did you mean 'tagged'"),
        ({"min_count": -1}, "min_count must be"),
        ({"min_ratio": 1.5}, "min_ratio must be"),
        ({"band": 0.5}, "band must be"),
        ({"num_random": -1}, "num_random must be"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReplacementOptions(**options)  # type: ignore[arg-type]
