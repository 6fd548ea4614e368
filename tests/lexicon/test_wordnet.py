from __future__ import annotations

import multiprocessing
import runpy
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_lexicon import TINY_WORDNET

from trueneg.errors import LexiconError
from trueneg.lexicon import wordnet_location
from trueneg.lexicon.wordnet import WordNet, find_wordnet, split_gloss


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY_WORDNET, tmp_path / "copy"))


def zipped(folder: Path, archive: Path) -> Path:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in wordnet_location.FILES:
            file.write(folder / name, f"wordnet/{name}")
    return archive


def test_the_fixture_is_what_its_maker_writes() -> None:
    made = runpy.run_path(str(TINY_WORDNET / "make.py"))["build"]()
    assert {name: (TINY_WORDNET / name).read_text() for name in wordnet_location.FILES} == made


# ---- finding ----


def test_without_wordnet_the_error_names_both_ways_to_get_it() -> None:
    with pytest.raises(LexiconError, match=r"apt-get install .*wordnet-base.*trueneg lexicon fetch"):
        find_wordnet()


def test_places_are_tried_in_their_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(place: Path) -> Path:
        return Path(shutil.copytree(TINY_WORDNET, place))

    # from the last resort to the first choice: each new place wins over those before it
    fetched = fill(nowhere / "cache" / "wordnet")
    assert find_wordnet() == fetched
    home = zipped(TINY_WORDNET, nowhere / "home" / "nltk_data" / "corpora" / "wordnet.zip")
    assert find_wordnet() == home
    unpacked = fill(nowhere / "home" / "nltk_data" / "corpora" / "wordnet")
    assert find_wordnet() == unpacked
    monkeypatch.setenv("NLTK_DATA", str(nowhere / "nltk"))
    assert find_wordnet() == unpacked
    nltk = fill(nowhere / "nltk" / "corpora" / "wordnet")
    assert find_wordnet() == nltk
    debian = fill(nowhere / "debian")
    assert find_wordnet() == debian
    variable = fill(nowhere / "princeton" / "dict")
    monkeypatch.setenv("WNSEARCHDIR", str(nowhere / "princeton"))
    assert find_wordnet() == variable
    assert find_wordnet(TINY_WORDNET) == TINY_WORDNET


def test_a_named_place_that_is_not_wordnet_is_an_error(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy / "data.adv").unlink()
    (copy / "noun.exc").unlink()
    shutil.copytree(TINY_WORDNET, wordnet_location.DEBIAN)  # a good one elsewhere must not hide the mistake
    with pytest.raises(LexiconError, match=r"--wordnet .*copy is not WordNet: it lacks noun\.exc, data\.adv;"):
        find_wordnet(copy)
    monkeypatch.setenv("WNSEARCHDIR", str(copy))
    with pytest.raises(LexiconError, match=r"\$WNSEARCHDIR .*lacks"):
        find_wordnet()
    with pytest.raises(LexiconError, match="no such folder"):
        find_wordnet(copy / "none")


def test_a_half_installed_system_place_is_passed_over(nowhere: Path) -> None:
    wordnet_location.DEBIAN.mkdir()
    (wordnet_location.DEBIAN / "index.noun").touch()
    last = shutil.copytree(TINY_WORDNET, nowhere / "cache" / "wordnet")
    assert find_wordnet() == last


def test_the_digest_tells_content_from_content(copy: Path) -> None:
    before = wordnet_location.wordnet_digest(copy)
    assert before == wordnet_location.wordnet_digest(TINY_WORDNET) == WordNet.load(copy).digest
    index = (copy / "index.verb").read_text()
    (copy / "index.verb").write_text(index.replace("walk v", "wolk v"))  # same size
    assert wordnet_location.wordnet_digest(copy) != before


# ---- reading ----


def test_a_zip_archive_reads_like_the_folder(tmp_path: Path, wordnet: WordNet) -> None:
    archive = zipped(TINY_WORDNET, tmp_path / "wordnet.zip")
    packed = WordNet.load(archive)
    assert list(packed.all_synsets()) == list(wordnet.all_synsets())
    assert packed.digest == wordnet_location.wordnet_digest(archive)


def test_entries_are_lemmas_with_a_part_of_speech(wordnet: WordNet) -> None:
    made = runpy.run_path(str(TINY_WORDNET / "make.py"))["SYNSETS"].values()
    entries = {(kind.replace("s", "a"), w.split("(")[0].lower()) for kind, words, *_ in made for w in words.split()}
    assert len(wordnet) == len(entries)
    assert sum(1 for _ in wordnet.glosses()) == len(made)


@pytest.mark.parametrize(
    ("word", "pos", "bases"),
    [
        ("movies", "n", ("movie",)),
        ("Movies", "n", ("movie",)),
        ("mice", "n", ("mouse",)),
        ("cities", "n", ("city",)),
        ("bigger", "a", ("big",)),
        ("larger", "a", ("large",)),
        ("stayed", "v", ("stay",)),
        ("saw", "v", ("saw", "see")),  # an entry itself, and an irregular form
        ("went", "v", ("go", "move")),  # on two lines
        ("motion pictures", "n", ("motion picture",)),
        ("walkings", "v", ()),  # walkings, walking, walk: two steps are one too many
        ("quicklier", "r", ()),
        ("", "n", ()),
        ("s", "n", ()),
    ],
)
def test_morphy(wordnet: WordNet, word: str, pos: wordnet_location.PartOfSpeech, bases: tuple[str, ...]) -> None:
    assert wordnet.morphy(word, pos) == bases


def test_synsets_come_in_the_order_of_senses(wordnet: WordNet) -> None:
    assert [s.definition for s in wordnet.synsets("films")] == ["a story in moving pictures", "a thin layer"]
    assert [s.pos for s in wordnet.synsets("stay")] == ["n", "v"]
    assert wordnet.synsets("stay", "v")[0].examples == ("she stayed", "they remained")
    assert len(wordnet.synsets("went", "v")) == 1  # two bases, one meaning
    assert wordnet.synsets("unknown") == ()
    assert "mice" in wordnet and "unknown" not in wordnet


def test_synonyms(wordnet: WordNet) -> None:
    assert wordnet.synonyms("remained") == {"stay", "remain", "rest"}
    assert wordnet.synonyms("main") == {"primary", "main", "chief"}  # "(a)" is a marker, not part of the word
    assert wordnet.synonyms("film", "n") == {"movie", "film", "picture", "motion picture", "pic", "coating"}
    assert wordnet.synonyms("film", "v") == frozenset()


def test_antonyms_hold_between_words_and_indirectly_through_heads(wordnet: WordNet) -> None:
    assert wordnet.antonyms("large") == {"small"}
    assert wordnet.antonyms("big") == {"little"}
    assert wordnet.antonyms("biggest") == {"little"}
    assert wordnet.antonyms("big", indirect=True) == {"little", "small"}
    assert wordnet.antonyms("remain") == frozenset()
    assert wordnet.antonyms("remain", indirect=True) == {"move"}
    assert wordnet.antonyms("glad") == frozenset()
    assert wordnet.antonyms("glad", indirect=True) == {"unhappy"}


@pytest.mark.parametrize(
    ("gloss", "definition", "examples"),
    [
        ("of first rank", "of first rank", ()),
        ('of rank; "main thing"; "main road"', "of rank", ("main thing", "main road")),
        ('"a happy child"; "happy days"', "", ("a happy child", "happy days")),
        ('a word like "on the job"', 'a word like "on the job"', ()),
        ('(as in "make strides"); "they made strides"', '(as in "make strides")', ("they made strides",)),
        ('gay; "when hearts were young"- Wordsworth; "jolly"', "gay", ("when hearts were young", "jolly")),
        ('calm (of seas) "a calm sea"', "calm (of seas)", ("a calm sea",)),
        ('a sale; "a notice of sale', "a sale", ("a notice of sale",)),
        ("", "", ()),
    ],
)
def test_glosses_split(gloss: str, definition: str, examples: tuple[str, ...]) -> None:
    assert split_gloss(gloss) == (definition, examples)


def test_glosses_come_with_their_words(wordnet: WordNet) -> None:
    first = next(wordnet.glosses())
    assert (first.lemmas, first.pos, first.definition) == (("thing", "entity"), "n", "whatever there is")


# ---- damage ----


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        ("index.verb", "cut v 1", "cut v 2", 3),
        ("index.verb", "cut v 1", "cut v x", 3),
        ("index.verb", "cut v 1 0 1 0 00000325", "cut v", 3),
        ("verb.exc", "went go", "went", 2),
        ("index.verb", "stay v", "st\udce9y v", 11),
    ],
)
def test_a_malformed_line_is_named(copy: Path, name: str, old: str, new: str, line: int) -> None:
    text = (copy / name).read_text()
    assert old in text
    (copy / name).write_bytes(text.replace(old, new, 1).encode(errors="surrogateescape"))
    with pytest.raises(LexiconError, match=rf"{name}, line {line}: "):
        WordNet.load(copy)


def test_a_torn_index_is_refused(copy: Path) -> None:
    content = (copy / "index.noun").read_bytes()
    (copy / "index.noun").write_bytes(content[:-3])
    with pytest.raises(LexiconError, match=r"index\.noun is torn"):
        WordNet.load(copy)


@pytest.mark.parametrize("damage", ["shifted", "short", "number", "count", "gloss"])
def test_a_damaged_synset_is_named_when_read(copy: Path, damage: str) -> None:
    text = (copy / "data.verb").read_text()
    start = text.index("\n00000180") + 1
    changed = {
        "shifted": text.replace("Free to use.  ", "Free to use. "),
        "short": text[:start],
        "number": text.replace("\n00000180", "\n00000181"),
        "count": text.replace("v 02 move", "v 0z move"),
        "gloss": text.replace("| change", "  change"),
    }[damage]
    assert changed != text
    (copy / "data.verb").write_text(changed)
    loaded = WordNet.load(copy)
    with pytest.raises(LexiconError, match=r"data\.verb, line 4: no synset at byte 180"):
        loaded.synsets("move")


# ---- threads and forks ----


def lookups(wordnet: WordNet) -> list[tuple[frozenset[str], frozenset[str]]]:
    words = ("film", "mice", "saw", "bigger", "glad", "stay", "Paris", "none")
    return [(wordnet.synonyms(word), wordnet.antonyms(word, indirect=True)) for word in words * 20]


def test_threads_share_one_wordnet(wordnet: WordNet) -> None:
    expected = lookups(wordnet)
    with ThreadPoolExecutor(8) as pool:
        assert all(answer == expected for answer in pool.map(lambda _: lookups(wordnet), range(32)))


def test_forks_share_one_wordnet(wordnet: WordNet) -> None:
    expected = lookups(wordnet)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    children = [context.Process(target=lambda: answers.put(lookups(wordnet))) for _ in range(4)]
    for child in children:
        child.start()
    assert [answers.get() for _ in children] == [expected] * 4
    for child in children:
        child.join()
