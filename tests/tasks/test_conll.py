"""CoNLL's columns, tagging schemes, and entities as ``conlleval`` finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueneg.errors import TaskError
from trueneg.tasks.conll import entities, read_conll, scheme_of, to_iob2

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """# sent_id = 1
# text = Don't # it
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tgone\tgo\tVERB\tVBN\t_\t1\tx\t_\t_
3\t#\t#\tSYM\tSYM\t_\t1\tx\t_\t_
"""


def write(folder: Path, content: str, name: str = "train.txt") -> Path:
    (folder / name).write_bytes(content.encode())
    return folder / name


def test_the_four_columns_of_conll_2003(tmp_path: Path) -> None:
    sentences, counts = read_conll(write(tmp_path, CONLL_2003))
    assert [(s.key, s.words, s.tags, s.line) for s in sentences] == [
        ("0", ("EU", "rejects"), ("B-ORG", "O"), 3),
        ("1", ("Peter", "Blackburn"), ("B-PER", "I-PER"), 6),
    ]
    assert counts == {"docstarts": 1}


def test_other_columns_may_be_named(tmp_path: Path) -> None:
    sentences, _ = read_conll(write(tmp_path, CONLL_2003), tag_column=1)
    assert sentences[0].tags == ("NNP", "VBZ")
    with pytest.raises(TaskError, match=r"train\.txt:3: there is no column 4, only 4"):
        read_conll(write(tmp_path, CONLL_2003), tag_column=4)


@pytest.mark.parametrize("separator", ["\t", " ", "   "])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_two_columns_however_separated(separator: str, line_end: str, tmp_path: Path) -> None:
    lines = [f"New{separator}B-LOC", f"York{separator}I-LOC", "", "", f"#{separator}O"]
    sentences, counts = read_conll(write(tmp_path, line_end.join(lines)))
    assert [(s.words, s.tags) for s in sentences] == [(("New", "York"), ("B-LOC", "I-LOC")), (("#",), ("O",))]
    assert counts == {}


def test_comments_at_the_head_are_no_words(tmp_path: Path) -> None:
    sentences, counts = read_conll(write(tmp_path, "# a title\n\n# id 5 domain=en\nAnna _ _ B-PER\n# _ _ O\n"))
    assert [(s.words, s.tags) for s in sentences] == [(("Anna", "#"), ("B-PER", "O"))]
    assert counts == {"comments": 2}


@pytest.mark.parametrize("name", ["train.tsv", "train.iob2", "train.txt"])
def test_comments_between_tabs_are_no_words_however_many_parts_they_have(name: str, tmp_path: Path) -> None:
    lines = "# newdoc\nHello\tUH\n# two\n#\tSYM\n\n# newpar\n# text = He\nHe\tPRP\n"
    sentences, counts = read_conll(write(tmp_path, lines, name))
    assert [(s.words, s.tags) for s in sentences] == [(("Hello", "#"), ("UH", "SYM")), (("He",), ("PRP",))]
    assert counts == {"comments": 4}


def test_comments_of_conll_u_are_known_between_spaces(tmp_path: Path) -> None:
    """The second has as many parts as the words have columns."""
    sentences, counts = read_conll(write(tmp_path, "# newdoc\n# text = Hi\nHi _ _ O\n# _ _ O\n"))
    assert [s.words for s in sentences] == [("Hi", "#")] and counts == {"comments": 2}


def test_tabs_keep_words_with_spaces_whole(tmp_path: Path) -> None:
    assert read_conll(write(tmp_path, "1 000\tNUM\n"))[0][0].words == ("1 000",)


def test_universal_dependencies(tmp_path: Path) -> None:
    sentences, counts = read_conll(write(tmp_path, CONLLU, "en-ud-train.conllu"))
    assert [(s.words, s.tags) for s in sentences] == [(("Do", "n't", "#"), ("AUX", "PART", "SYM"))]
    assert counts == {"comments": 2}


def test_one_column_has_no_tags(tmp_path: Path) -> None:
    sentences, _ = read_conll(write(tmp_path, "New\nYork\n\nnow\n"))
    assert [(s.words, s.tags) for s in sentences] == [(("New", "York"), None), (("now",), None)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a O\nb\n", r"train\.txt:2: 2 columns expected"),
        ("a O\n\nb x O\n", r"train\.txt:3: 2 columns expected"),
        ("a\tO\nb\t\n", r"train\.txt:2: the word or its tag is empty"),
        ("\n\n", r"train\.txt: no sentences"),
    ],
)
def test_broken_lines_are_errors_with_file_and_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        read_conll(write(tmp_path, content))


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["I-PER I-PER O", "I-PER B-PER I-LOC"], "IOB1"),
        (["B-PER I-PER O", "B-PER B-PER B-LOC"], "IOB2"),
        (["B-PER I-PER O", "O I-PER"], "IOB2"),  # with a mistake: in IOB1 no sentence begins with B
        (["B-PER E-PER S-LOC"], "IOBES"),
        (["B-PER L-PER U-LOC"], "IOBES"),
        (["B-PER M-PER E-PER"], "IOBES"),
        (["NN O -LRB- B"], "none"),
        (["O O"], "none"),
    ],
)
def test_schemes_are_told(sentences: list[str], scheme: str) -> None:
    assert scheme_of(sentence.split() for sentence in sentences) == scheme


def test_tags_of_two_kinds_are_refused() -> None:
    with pytest.raises(TaskError, match="the tag 'LOC' is neither O nor marked as 'B-PER' is"):
        scheme_of([["B-PER", "LOC"]])


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        # IOB2
        ("B-PER I-PER O B-PER", {("PER", 0, 2), ("PER", 3, 4)}),
        ("B-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),
        ("B-PER I-LOC", {("PER", 0, 1), ("LOC", 1, 2)}),
        # IOB1
        ("I-PER I-PER B-PER I-LOC", {("PER", 0, 2), ("PER", 2, 3), ("LOC", 3, 4)}),
        ("O I-PER O I-PER", {("PER", 1, 2), ("PER", 3, 4)}),
        # IOBES, BILOU
        ("S-PER S-PER B-LOC I-LOC E-LOC", {("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 5)}),
        ("U-PER B-LOC L-LOC U-LOC", {("PER", 0, 1), ("LOC", 1, 3), ("LOC", 3, 4)}),
        # invalid, as conlleval has it: an end closes, what goes on opens again
        ("B-PER E-PER I-PER", {("PER", 0, 2), ("PER", 2, 3)}),
        ("E-PER E-PER", {("PER", 0, 1), ("PER", 1, 2)}),
        ("O O", set()),
        ("B-a-b I-a-b", {("a-b", 0, 2)}),
        ("", set()),
    ],
)  # fmt: skip
def test_entities_are_those_of_conlleval(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected


MARKED = st.lists(st.sampled_from("O B-x I-x E-x S-x B-y I-y E-y S-y".split()), max_size=9)  # noqa: SIM905


@given(MARKED)
def test_writing_tags_as_iob2_changes_no_entity(tags: list[str]) -> None:
    written = to_iob2(tags)
    assert entities(written) == entities(tags)
    assert to_iob2(written) == written
    assert [tag == "O" for tag in written] == [tag == "O" for tag in tags]


@given(MARKED)
def test_entities_cover_each_marked_word_once(tags: list[str]) -> None:
    covered = [at for _, begin, end in entities(tags) for at in range(begin, end)]
    assert sorted(covered) == [at for at, tag in enumerate(tags) if tag != "O"]


@given(st.lists(st.tuples(st.sampled_from(["O", "x", "y"]), st.integers(1, 3)), max_size=5))
def test_every_scheme_gives_back_what_it_was_written_from(spans: list[tuple[str, int]]) -> None:
    expected, written = set(), {"IOB2": [], "IOB1": [], "IOBES": []}  # type: ignore[var-annotated]
    at, before = 0, "O"
    for kind, size in spans:
        if kind == "O":
            for tags in written.values():
                tags += ["O"] * size
        else:
            expected.add((kind, at, at + size))
            inside = [f"I-{kind}"] * (size - 1)
            written["IOB2"] += [f"B-{kind}", *inside]
            written["IOB1"] += [f"B-{kind}" if before == kind else f"I-{kind}", *inside]
            written["IOBES"] += [f"S-{kind}"] if size == 1 else [f"B-{kind}", *inside[1:], f"E-{kind}"]
        at, before = at + size, kind
    for tags in written.values():
        assert entities(tags) == expected
