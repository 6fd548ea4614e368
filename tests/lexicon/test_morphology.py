"""The tags of forms, and base forms in the place of a word: inflected and cased as the word is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.lexicon.morphology import agreeing_substitute, inflections, penn_tags
from trueneg.lexicon.surface import casing
from trueneg.lexicon.wordnet_location import PartOfSpeech


@pytest.mark.parametrize(
    "form, base, pos, tags",
    [
        ("movies", "movie", "n", "NNS"),
        ("film", "film", "n", "NN"),  # which is also listed as a plural
        ("sheep", "sheep", "n", "NN NNS"),
        ("stay", "stay", "v", "VB VBP"),
        ("staying", "stay", "v", "VBG"),
        ("rested", "rest", "v", "VBD VBN"),
        ("went", "go", "v", "VBD"),
        ("gone", "go", "v", "VBN"),
        ("larger", "large", "a", "JJR"),
        ("rapidly", "rapidly", "r", "RB"),
        ("zzyzx", "zzyzx", "n", "NN"),
        ("zzyzxs", "zzyzx", "n", ""),  # no guesses
        ("beautifuler", "beautiful", "a", ""),
    ],
)
def test_tags_of_a_form(form: str, base: str, pos: PartOfSpeech, tags: str) -> None:
    assert penn_tags(form, base, pos) == set(tags.split())


@pytest.mark.parametrize(
    "target, lemma, substitute, pos, wanted",
    [
        ("reached", "reach", "climb to", "v", "climbed to"),
        ("reaches", "reach", "climb to", "v", "climbs to"),
        ("reaching", "reach", "get", "v", "getting"),
        ("reach", "reach", "get", "v", "get"),
        ("put", "put", "leave", "v", "leave"),
        ("movies", "movie", "film", "n", "films"),
        ("movie", "movie", "film", "n", "film"),
        ("moments", "moment", "point in time", "n", "points in time"),
        ("moments", "moment", "working day", "n", "working days"),
        ("people", "people", "man", "n", "man"),
        ("men", "man", "mouse", "n", "mice"),
        ("bigger", "big", "large", "a", "larger"),
        ("biggest", "big", "good", "a", "best"),
        ("bigger", "big", "beautiful", "a", "more beautiful"),
        ("biggest", "big", "beautiful", "a", "most beautiful"),
        ("bigger", "big", "more useful", "a", "more useful"),
        ("bigger", "big", "better", "a", "better"),
        ("faster", "fast", "quickly", "r", "more quickly"),
        ("sooner", "soon", "early", "r", "earlier"),
        ("movies", "movie", "qwzx", "n", "qwzx"),
        ("bigger", "big", "qwzx", "a", "qwzx"),
        ("qwzxes", "qwzx", "film", "n", "film"),
        ("reached", "reach", "accept, adopt", "v", "accept, adopt"),
        ("reached", "reach", "climb to", None, "climb to"),
        ("Movies", "movie", "film", "n", "Films"),
        ("MOVIES", "movie", "film", "n", "FILMS"),
        ("Two", "two", "a few", None, "A few"),
        ("A", "a", "one", None, "One"),
        ("channels", "channel", "TV show", "n", "TV shows"),
    ],
)
def test_forms(target: str, lemma: str, substitute: str, pos: PartOfSpeech | None, wanted: str) -> None:
    assert agreeing_substitute(target, lemma, substitute, pos) == wanted


@pytest.mark.parametrize(
    "before, wanted",
    [
        ("She ", "went"),
        ("", "went"),
        ("She has ", "gone"),
        ("He was never really ", "gone"),
        ("They've ", "gone"),
        ("They’d just ", "gone"),
        ("She hasn't ", "gone"),
        ("What I had. She ", "went"),
        ("She has it and ", "went"),
    ],
)
def test_a_past_is_told_from_a_participle(before: str, wanted: str) -> None:
    assert agreeing_substitute("left", "leave", "go", "v", before=before) == wanted


def test_a_form_that_is_its_own_base_is_a_participle_after_an_auxiliary() -> None:
    assert agreeing_substitute("put", "put", "leave", "v", before="It has been ") == "left"


WORDS = {"n": "movie film mouse man thing", "v": "stay go put be see", "a": "big good happy main", "r": "fast quickly"}


@settings(deadline=None)
@given(data=st.data(), pos=st.sampled_from(sorted(WORDS)))
def test_the_substitute_has_the_form_and_casing_of_the_target(data: st.DataObject, pos: PartOfSpeech) -> None:
    """In the target's form, the substitute has a tag that the target has; back again gives the target's base."""
    base, substitute = (data.draw(st.sampled_from(WORDS[pos].split())) for _ in range(2))
    tag, forms = data.draw(st.sampled_from(sorted(inflections(base, pos).items())))
    form = data.draw(st.sampled_from(forms))
    cased = data.draw(st.sampled_from([str.lower, str.upper, str.capitalize]))
    found = agreeing_substitute(cased(form), base, substitute, pos)
    assert casing(found) == casing(cased(form)) or " " in found
    bare = found.lower()
    if " " in bare:
        assert bare in {f"more {substitute}", f"most {substitute}"} and tag[-1] in "RS"
    else:
        assert penn_tags(bare, substitute, pos) & penn_tags(form, base, pos) or bare == substitute


PLACES: list[tuple[str, str, PartOfSpeech]] = [
    ("movies", "movie", "n"),
    ("stayed", "stay", "v"),
    ("bigger", "big", "a"),
    ("faster", "fast", "r"),
]


@settings(deadline=None)
@given(st.text(max_size=12), st.sampled_from(PLACES), st.text(max_size=30))
def test_one_word_at_most_is_changed(substitute: str, place: tuple[str, str, PartOfSpeech], before: str) -> None:
    target, lemma, pos = place
    words, found = substitute.split(" "), agreeing_substitute(target, lemma, substitute, pos, before=before).split(" ")
    if found != ["more", *words]:
        assert sum(old != new for old, new in zip(words, found, strict=True)) <= 1
    assert agreeing_substitute(target, lemma, substitute, None, before=before) == substitute
