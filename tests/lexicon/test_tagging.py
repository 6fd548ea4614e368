from __future__ import annotations

import random
import re
import sys
import types
from collections.abc import Sequence
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.errors import ConfigError, LexiconError, MissingExtraError
from trueneg.lexicon import tagging
from trueneg.lexicon.pattern_tagger import PatternTagger
from trueneg.lexicon.tagging import Tagger, make_tagger, tag_text
from trueneg.lexicon.tags import PENN, coarse, number


class Recorder:
    """Tags every word with the same tag and keeps what it was asked."""

    name = "recorder"
    provenance: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, tag: str = "NN") -> None:
        self.tag = tag
        self.sentences: list[list[str]] = []

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        self.sentences += map(list, sentences)
        return [[self.tag] * len(words) for words in sentences]


def sentences_of(text: str) -> list[str]:
    recorder = Recorder()
    tag_text(text, recorder)
    return [" ".join(words) for words in recorder.sentences]


@pytest.fixture(scope="module")
def pattern() -> Tagger:
    return make_tagger("pattern")


def tags(tagger: Tagger, sentence: str) -> str:
    return " ".join(tagger([sentence.split(" ")])[0])


def test_tags_keep_the_numbers_that_files_hold() -> None:
    assert len(PENN) == len(set(PENN)) == 37
    assert [PENN.index(tag) for tag in ("", "CC", "JJ", "MD", "NN", "NNS", "RB", "UH", "VB", "VBZ", "WRB")] == [
        *(0, 1, 7, 11, 12, 15, 20, 26, 27, 32, 36)
    ]
    assert [number(tag) for tag in PENN] == list(range(37))
    assert number("HYPH") == number(".") == 0


def test_content_words_have_a_class() -> None:
    classes = {tag: coarse(tag) for tag in PENN}
    assert {tag for tag in PENN if classes[tag] == "n"} == {"NN", "NNS", "NNP", "NNPS"}
    assert {tag for tag in PENN if classes[tag] == "v"} == {"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"}
    assert {tag for tag in PENN if classes[tag] == "a"} == {"JJ", "JJR", "JJS"}
    assert {tag for tag in PENN if classes[tag] == "r"} == {"RB", "RBR", "RBS"}
    assert set(classes.values()) == {"n", "v", "a", "r", ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One ends. Two ends! Three?", ["One ends .", "Two ends !", "Three ?"]),
        ('He said: "Go." She went.', ['He said : " Go . "', "She went ."]),
        ("Mr. Smith met J. R. Tolkien. They ate.", ["Mr . Smith met J . R . Tolkien .", "They ate ."]),
        ("It costs 3.5 in the U.S. today.", ["It costs 3 . 5 in the U . S . today ."]),
        ("a line\nbroken here\nAnother line", ["a line broken here", "Another line"]),
        ("I don't, can’t; we'll go", ["I do n't , ca n't ; we 'll go"]),
        ("the man's well-known isn't", ["the man 's well - known is n't"]),
        ("cafe\u0301s na\u0131ve_x 3rd", ["cafe\u0301s na\u0131ve _ x 3rd"]),
        ("山川 ☂\ufe0f \x00a", ["山川 ☂ \ufe0f \x00 a"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_words_and_sentences(text: str, expected: list[str]) -> None:
    assert sentences_of(text) == expected


# What a sentence's end is; slow, since a run of blank lines is tried from each of its lines.
END = re.compile(rf"[.!?…]{tagging._NOT_ENDED}['\"”’)\]]*\s+(?![a-z\s])|\n\s*(?![a-z\s])")


@settings(deadline=None)
@given(st.text(st.sampled_from(" \n\t\u00a0.!?…'”)]aBz1"), max_size=40))
def test_sentences_end_where_they_are_said_to(text: str) -> None:
    bounds = pairwise([0, *(match.end() for match in END.finditer(text)), len(text)])
    words = [tagging._WORD.findall(text[start:stop]) for start, stop in bounds]
    assert sentences_of(text) == [" ".join(sentence) for sentence in words if sentence]


@pytest.mark.parametrize(("end", "expected"), [("\n", ["one two", "Three"]), (".\n", ["one . two .", "Three"])])
def test_a_long_run_of_blank_lines_is_read_once(end: str, expected: list[str]) -> None:
    many = end + "\n" * 100_000  # trying it from each of its lines takes minutes
    assert sentences_of(f"one{many}two{many}Three") == expected


def test_text_without_full_stops_is_cut() -> None:
    words = ["word"] * 1000
    sentences = [sentence.split() for sentence in sentences_of(" ".join(words))]
    assert list(chain.from_iterable(sentences)) == words
    assert max(map(len, sentences)) == 256


def test_punctuation_has_no_tag_whatever_the_tagger_says() -> None:
    text = "Yes, it's ☂ – I'd 5_go."
    found = tag_text(text, Recorder())
    without = [text[s:e] for s, e, tag in zip(found.starts, found.ends, found.tags, strict=True) if not tag]
    assert without == [",", "☂", "–", "_", "."]
    assert set(tag_text("what a tag", Recorder("HYPH")).tags) == {0}


@settings(deadline=None)
@given(st.text(st.one_of(st.sampled_from("ant'’. \n-É\u0301_5?😀山"), st.characters(codec="utf-8")), max_size=60))
def test_words_hold_every_character_but_white_space_once(text: str) -> None:
    found = tag_text(text, make_tagger("pattern-fast"))
    spans = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    covered = [place for start, end in spans for place in range(start, end)]
    assert covered == [place for place, letter in enumerate(text) if not letter.isspace()]
    assert len(found.tags) == len(spans)
    assert found.tags.max(initial=0) < len(PENN)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The quick fox jumps over lazy dogs .", "DT JJ NN NNS IN JJ NNS ."),
        ("They want to walk home", "PRP VBP TO VB NN"),
        ("You can help now", "PRP MD VB RB"),
        ("The painter had finished it", "DT NN VBD VBN PRP"),
        ("He quickly wrote three letters", "PRP RB VBD CD NNS"),
        ("IT WAS THE WORST FILM", "PRP VBD DT JJS NN"),
        ("Zorblax flimmed the quuxly 1984 山川", "NNP VBD DT RB CD FW"),
    ],
)
def test_the_words_around_decide(pattern: Tagger, sentence: str, expected: str) -> None:
    assert tags(pattern, sentence) == expected


def made_up_sentences(count: int) -> list[list[str]]:
    """Words that rules are about, among others of every class."""
    choose = random.Random(0)
    words = re.split(
        " ",
        "the a to will have be n't that as such from with about most up down said help run walk love plans looks "
        "put walked taken taken seen more better fast hard old American first , . '' `` and but not who which this "
        "her him they John he ago than so little all one making building being quickly well it 's there these",
    )
    return [choose.choices(words, k=choose.randint(1, 12)) for _ in range(count)]


def test_every_rule_as_textblob_itself_applies_it() -> None:
    from textblob.en import lexicon, parser

    tagger = make_tagger("pattern-all")
    changed = 0
    for words in made_up_sentences(400):
        alone = parser.find_tags(words)
        expected = [tag for _, tag in lexicon.context.apply(alone)]
        assert tagger([words]) == [expected], words
        changed += expected != [tag for _, tag in alone]
    assert changed > 200


def test_without_rules_as_textblobs_tagger() -> None:
    from textblob.en.taggers import PatternTagger as Theirs

    tagger = make_tagger("pattern-fast")
    for words in made_up_sentences(50):
        kept = [word for word in words if word.isalpha()]
        if kept:
            assert list(zip(kept, tagger([kept])[0], strict=True)) == Theirs().tag(" ".join(kept), tokenize=False)


def test_safe_rules_keep_the_class_or_see_what_leads_up(pattern: Tagger) -> None:
    plain = make_tagger("pattern-fast")
    sentence = "the IN-house National Bank used him while workers strike"  # where the other rules do harm
    kept = [coarse(tag) for tag in tags(pattern, sentence).split()]
    assert kept == [coarse(tag) for tag in tags(plain, sentence).split()]
    assert kept != [coarse(tag) for tag in tags(make_tagger("pattern-all"), sentence).split()]


def test_a_sentence_does_not_depend_on_the_others(pattern: Tagger) -> None:
    sentences = made_up_sentences(50)
    assert pattern(sentences) == [pattern([words])[0] for words in sentences]
    assert pattern([]) == []
    assert pattern([[]]) == [[]]


def test_provenance_names_the_version(pattern: Tagger) -> None:
    assert isinstance(pattern, PatternTagger)
    assert pattern.name == "pattern"
    assert list(pattern.provenance) == ["textblob"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("patern", "unknown tagger 'patern': did you mean 'pattern'"),
        ("spacy", "spacy:MODEL"),
        ("pattern:en", "pattern:en"),
    ],
)
def test_names_that_are_none(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_tagger(name)


@pytest.mark.parametrize("name", [name for name in tagging.TAGGERS if name != "spacy"])
def test_every_tagger_calls_itself_what_options_call_it(name: str) -> None:
    assert make_tagger(name).name == name


def test_spacy_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trueneg\[spacy\]'"):
        make_tagger("spacy:en_core_web_sm")


class MadeUpPipeline:
    """As much of spaCy as a tagger asks for: tags are the words in capitals."""

    vocab = object()

    def __init__(self, *pipe_names: str, lang: str = "en") -> None:
        self.pipe_names = pipe_names
        self.meta = {"version": "3.8.0", "lang": lang}

    def pipe(self, documents: object) -> object:
        return documents


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str, exclude: Sequence[str]) -> MadeUpPipeline:
        if model == "missing":
            raise OSError("[E050] Can't find model 'missing'")
        names = {
            "good": ("en", "tagger"),
            "gut": ("de", "tagger"),
            "bon": ("fr", "morphologizer"),
            "en": ("en", "morphologizer"),
        }
        lang, *parts = names.get(model, ("en",))
        return MadeUpPipeline(*parts, lang=lang)

    def document(vocab: object, words: list[str]) -> list[types.SimpleNamespace]:
        assert vocab is MadeUpPipeline.vocab
        return [types.SimpleNamespace(tag_=word.upper(), pos_=word) for word in words]

    module, tokens = types.ModuleType("spacy"), types.ModuleType("spacy.tokens")
    module.load, tokens.Doc = load, document  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", module)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    monkeypatch.setattr("importlib.metadata.version", lambda package: f"{package} 1.0")


def test_spacy_tags_words_as_they_are_handed_over(spacy: None) -> None:
    tagger = make_tagger("spacy:good")
    assert tagger.name == "spacy:good"
    assert tagger.provenance == {"spacy": "spacy 1.0", "model": "good", "model_version": "3.8.0"}
    assert tagger([["do", "n't"], [], ["go"]]) == [["DO", "N'T"], [], ["GO"]]


def test_of_other_languages_spacys_universal_parts_of_speech_count(spacy: None) -> None:
    for model in ("gut", "bon"):  # French pipelines have a morphologizer and no tagger
        found = make_tagger(f"spacy:{model}")([["NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV", "DET", "PUNCT", "X"]])
        assert found == [["NN", "NNP", "VB", "MD", "JJ", "RB", "DT", "", ""]]


@pytest.mark.parametrize(
    ("model", "message"),
    [("missing", "python -m spacy download missing"), ("plain", "has no tagger"), ("en", "has no tagger")],
)
def test_spacys_pipelines_that_do_not_tag(spacy: None, model: str, message: str) -> None:
    with pytest.raises(LexiconError, match=message):
        make_tagger(f"spacy:{model}")
