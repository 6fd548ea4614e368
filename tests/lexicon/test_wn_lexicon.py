"""A lexicon of another language, made up, by way of ``wn``: its meanings, what they replace, what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import wn

from trueneg.corruption.views.replacement_table import compile_replacements
from trueneg.errors import ConfigError, LexiconError, MissingExtraError
from trueneg.lexicon.replacements import Kind, ReplacementOptions, Replacements
from trueneg.lexicon.wn_lexicon import WnLexicon

SYNSETS = {
    "film": ("n", "hypernym obra"),
    "obra": ("n", ""),
    "perro": ("n", "hypernym animal"),
    "animal": ("n", "hyponym perro"),
    "grande": ("a", ""),
    "chico": ("a", ""),
    "enorme": ("s", "similar grande"),
    "ver": ("v", ""),
    "casa": ("n", ""),
    "hogar": ("n", ""),
}
ENTRIES = [
    ("película", "n", ["film"], ["películas"]),
    ("filme", "n", ["film"], ["filmes"]),
    ("obra", "n", ["obra"], []),
    ("perro", "n", ["perro"], ["perros"]),
    ("chucho", "n", ["perro"], []),
    ("animal", "n", ["animal"], []),
    ("grande", "a", ["grande"], []),
    ("pequeño", "a", ["chico"], []),
    ("enorme", "s", ["enorme"], []),
    ("ver", "v", ["ver"], ["vio"]),
    ("mirar", "v", ["ver"], []),
    ("casa", "n", ["hogar", "casa"], []),
    ("vivienda", "n", ["casa"], []),
    ("residencia", "n", ["hogar"], []),
    ("Madrid", "n", ["obra"], []),
]
OPTIONS = ReplacementOptions(senses="first", agree=False, min_count=0, min_ratio=0.0)


def lmf(language: str = "es", name: str = "made-up") -> str:
    def entry(word: str, pos: str, meanings: list[str], forms: list[str]) -> str:
        opposite = {"grande": "pequeño-chico", "pequeño": "grande-grande"}.get(word)
        relation = f'<SenseRelation relType="antonym" target="{opposite}"/>' if opposite else ""
        senses = "".join(f'<Sense id="{word}-{m}" synset="{name}-{m}">{relation}</Sense>' for m in meanings)
        inflected = "".join(f'<Form writtenForm="{form}"/>' for form in forms)
        lemma = f'<Lemma writtenForm="{word}" partOfSpeech="{pos}"/>'
        return f'<LexicalEntry id="{name}-{word}">{lemma}{inflected}{senses}</LexicalEntry>'

    def synset(meaning: str, pos: str, relation: str) -> str:
        kind, _, target = relation.partition(" ")
        inside = f'<SynsetRelation relType="{kind}" target="{name}-{target}"/>' if relation else ""
        return f'<Synset id="{name}-{meaning}" ili="" partOfSpeech="{pos}">{inside}</Synset>'

    head = f'id="{name}" label="{name}" language="{language}" email="a@b.c" license="CC0" version="1.0"'
    entries = "".join(entry(*each) for each in ENTRIES)
    synsets = "".join(synset(meaning, *each) for meaning, each in SYNSETS.items())
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE LexicalResource SYSTEM "http://globalwordnet.github.io/schemas/WN-LMF-1.0.dtd">\n'
        '<LexicalResource xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<Lexicon {head}>{entries}{synsets}</Lexicon></LexicalResource>"
    )


@pytest.fixture(scope="module", autouse=True)
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A database of its own, with the lexicon in Spanish and, under another name, as English."""
    folder = tmp_path_factory.mktemp("wn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wn.config, "data_directory", folder)
        for language, name in (("es", "made-up"), ("en", "made-up-en")):
            file = folder / f"{name}.xml"
            file.write_text(lmf(language, name), encoding="utf-8")
            wn.add(file, progress_handler=None)
        yield


@pytest.fixture
def lexicon() -> WnLexicon:
    return WnLexicon("made-up")


@pytest.mark.parametrize(
    ("form", "tag", "wanted"),
    [
        ("película", "NN", {"synonym": ["filme"], "hypernym": ["obra"]}),
        ("películas", "NN", {"synonym": ["filme"], "hypernym": ["obra"]}),
        ("perros", "NN", {"synonym": ["chucho"], "hypernym": ["animal"]}),
        ("grande", "JJ", {"antonym": ["pequeño"]}),
        ("pequeño", "JJ", {"antonym": ["grande"]}),
        ("vio", "VB", {"synonym": ["mirar"]}),
        ("casa", "NN", {"synonym": ["residencia"]}),
        ("perro", "VB", {}),
        ("perro", "NNP", {}),
        ("madrid", "NN", {}),
        ("desconocido", "NN", {}),
    ],
)
def test_candidates_by_kind(lexicon: WnLexicon, form: str, tag: str, wanted: dict[str, list[str]]) -> None:
    """Base forms, as the lexicon lists them; neither English inflections nor what is a name."""
    assert {kind.value: words for kind, words in Replacements(lexicon, OPTIONS).of(form, tag).items()} == wanted


def test_all_senses(lexicon: WnLexicon) -> None:
    every = ReplacementOptions(senses="all", agree=False, min_count=0, min_ratio=0.0)
    assert Replacements(lexicon, every).of("casa", "NN") == {Kind.SYNONYM: ["residencia", "vivienda"]}


def test_indirect_antonyms_go_by_way_of_the_head(lexicon: WnLexicon) -> None:
    indirect = ReplacementOptions(senses="first", agree=False, indirect=True)
    assert Replacements(lexicon, indirect).of("enorme", "JJ")[Kind.ANTONYM] == ["pequeño"]


def test_a_corpus_is_compiled_like_any_other(lexicon: WnLexicon) -> None:
    words = [("película", "NN", 9), ("filme", "NN", 5), ("perro", "NN", 8), ("chucho", "NN", 3), ("casa", "NN", 7)]
    table = compile_replacements(words, lexicon, OPTIONS)
    assert table.provenance["source"] == "wn:made-up:1.0"
    assert table.lookup("película", "NN")[Kind.SYNONYM] == ["filme"]
    assert set(table.lookup("película", "NN")[Kind.RANDOM]) == {"perro", "chucho", "casa"}, "filme is too near"
    assert table.coverage(*Kind) == 1.0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("made-up", {}, r"wn:made-up:1.0 \(es\) .* inflections and counts of senses: choose agree=false and senses=f"),
        ("made-up", {"senses": "all"}, "without inflections: choose agree=false"),
        ("made-up-en", {}, "without counts of senses: choose senses=first"),
    ],
)
def test_what_it_knows_nothing_of_is_refused(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Replacements(WnLexicon(name), ReplacementOptions(**options))  # type: ignore[arg-type]


def test_an_english_one_is_inflected() -> None:
    lexicon = WnLexicon("made-up-en:1.0")
    assert lexicon.is_english and not WnLexicon("made-up").is_english
    Replacements(lexicon, ReplacementOptions(senses="all"))
    assert lexicon.digest != WnLexicon("made-up").digest == WnLexicon("made-up").digest


def test_a_lexicon_that_is_not_there() -> None:
    with pytest.raises(
        LexiconError, match=r"wn:odenet: no such lexicon \(installed: made-up.*python -m wn download ode"
    ):
        WnLexicon("odenet")
    with pytest.raises(LexiconError, match=r"wn:made-u\*: several lexicons: name its version"):
        WnLexicon("made-u*")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'trueneg\[wn\]'"):
        WnLexicon("made-up")
