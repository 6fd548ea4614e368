"""CoNLL files (words and tags in columns), tagging schemes, and the entities that tags encode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trueneg.errors import TaskError
from trueneg.tasks.records import read_lines

EXTENSIONS = (".conll", ".conllu", ".txt", ".tsv", ".bio", ".iob", ".iob2", ".train", ".testa", ".testb")
OUTSIDE = "O"

Scheme = Literal["IOB1", "IOB2", "IOBES", "none"]
"""How tags mark entities; ``none`` if each word has a tag of its own (parts of speech)."""

_MARKED = re.compile(r"([BIESLUM])-(.+)")
_BEGINS = frozenset("BSU")
_ENDS = frozenset("ESLU")  # L and U are the E and S of BILOU


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence's words and, where they are known, their tags."""

    key: str
    """Number of the sentence in its file, from 0."""
    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int
    """Line of the first word, from 1."""


Entity = tuple[str, int, int]
"""Type, first word, word after the last."""


def read_conll(
    path: Path, word_column: int | None = None, tag_column: int | None = None
) -> tuple[list[Sentence], dict[str, int]]:
    """Read words and tags, one word per line, with a blank line after each sentence.

    Columns are separated by tabs if the line has any, else by spaces. ``-DOCSTART-`` lines are skipped, and so are
    comments: ``# id …`` (MultiCoNER's), ``# newdoc``, ``# newpar``, ``# key = value``, and other lines that begin with
    ``#`` if they have not as many columns as words.
    In ``.conllu``, ranges (``3-4``) and empty nodes (``3.1``) are skipped, too.

    Args:
        path: A file with one column is unlabelled.
        word_column: From 0, or from -1 backwards; by default the first (in ``.conllu`` the second).
        tag_column: By default the last (in ``.conllu`` the fourth, the universal part of speech).

    Returns:
        The sentences, and counts of ``docstarts`` and ``comments``.

    Raises:
        TaskError: naming file and line: for a line of more or fewer columns than those before, an empty file, or a
            column that does not exist.
    """
    is_conllu = path.suffix.lower() == ".conllu"
    word_at = (1 if is_conllu else 0) if word_column is None else word_column
    tag_at = (3 if is_conllu else -1) if tag_column is None else tag_column
    sentences: list[Sentence] = []
    counts = {"docstarts": 0, "comments": 0}
    rows: list[list[str]] = []
    lines = list(read_lines(path))
    plain = (line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-")))
    head = next(plain, "")
    width, is_tabbed = len(_columns(head)), "\t" in head
    first = 0

    def close() -> None:
        if rows:
            tags = tuple(row[tag_at] for row in rows) if width > 1 else None
            sentences.append(Sentence(str(len(sentences)), tuple(row[word_at] for row in rows), tags, first))
            rows.clear()

    for number, line in lines:
        if not line.strip():
            close()
            continue
        row = _columns(line)
        if row[0].startswith("-DOCSTART-"):
            close()
            counts["docstarts"] += 1
        elif _COMMENT.match(line) or (
            line.startswith("#") and ((is_tabbed and "\t" not in line) or (len(row) != width and (width or is_conllu)))
        ):
            counts["comments"] += 1
        elif is_conllu and not row[0].isdigit():
            continue
        else:
            if width and len(row) != width:
                raise TaskError(f"{path}:{number}: {width} columns expected, as before, {len(row)} found: fix it")
            width = len(row)
            for at in (word_at, tag_at):
                if not -width <= at < width:
                    raise TaskError(f"{path}:{number}: there is no column {at}, only {width}: name another")
            if not row[word_at] or (width > 1 and not row[tag_at]):
                raise TaskError(f"{path}:{number}: the word or its tag is empty: fix or remove the line")
            if not rows:
                first = number
            rows.append(row)
    close()
    if not sentences:
        raise TaskError(f"{path}: no sentences: write one word and its tag a line, and a blank line between sentences")
    return sentences, {what: how_many for what, how_many in counts.items() if how_many}


_COMMENT = re.compile(r"# (?:id |newdoc\b|newpar\b|\S+ = )(?!.*\t)")
"""Comments as in CoNLL-U, which other files may have as well."""


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [value.strip() for value in line.split("\t")]
    return [value for value in line.split(" ") if value]


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Detect the tagging scheme.

    ``IOBES`` (also as BILOU or BMES) marks ends; in ``IOB1``, B only separates two adjacent entities of one type; in
    ``IOB2``, each entity begins with B. A file without any entity that begins with I is IOB2.

    Raises:
        TaskError: naming the tag: if some are marked (``B-PER``) and others neither marked nor ``O``.

    Example:
        >>> scheme_of([["I-PER", "O"]]), scheme_of([["B-PER", "I-PER"]]), scheme_of([["S-PER"]]), scheme_of([["NN"]])
        ('IOB1', 'IOB2', 'IOBES', 'none')
    """
    tags = [list(sentence) for sentence in sentences]
    kinds = sorted({tag for sentence in tags for tag in sentence} - {OUTSIDE})
    odd = [tag for tag in kinds if not _MARKED.fullmatch(tag)]
    if len(odd) == len(kinds):
        return "none"
    if odd:
        raise TaskError(f"the tag '{odd[0]}' is neither O nor marked as '{next(k for k in kinds if k not in odd)}' is")
    if any(tag[0] in "ESLUM" for tag in kinds):
        return "IOBES"
    has_inside_first = has_needless_begin = False
    for sentence in tags:
        previous = OUTSIDE
        for tag in sentence:
            is_after_own_kind = tag != OUTSIDE and previous[1:] == tag[1:]
            has_inside_first |= tag[0] == "I" and not is_after_own_kind
            has_needless_begin |= tag[0] == "B" and not is_after_own_kind
            previous = tag
    return "IOB1" if has_inside_first and not has_needless_begin else "IOB2"


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Convert a sentence's tags from any scheme to IOB2: each entity begins with B and continues with I.

    Entities begin where they do in ``conlleval``: at a B (or S, U), after an end (E, S, L, U), after ``O`` and where
    the type changes. So a stray I begins one.

    Example:
        >>> to_iob2(["I-PER", "I-PER", "B-PER", "O", "S-LOC", "B-ORG", "E-ORG"])
        ['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC', 'B-ORG', 'I-ORG']
    """
    written, previous = [], OUTSIDE
    for tag in tags:
        if tag == OUTSIDE:
            written.append(tag)
        else:
            begins = tag[0] in _BEGINS or previous == OUTSIDE or previous[0] in _ENDS or previous[1:] != tag[1:]
            written.append(("B" if begins else "I") + tag[1:])
        previous = tag
    return written


def entities(tags: Sequence[str]) -> set[Entity]:
    """Find the entities in a sentence's tags, of any scheme, valid or not, as ``conlleval`` does.

    Example:
        >>> sorted(entities(["B-PER", "I-PER", "O", "I-LOC", "I-PER"]))
        [('LOC', 3, 4), ('PER', 0, 2), ('PER', 4, 5)]
    """
    found: set[Entity] = set()
    begin = 0
    written = to_iob2(tags)
    for at, tag in enumerate(written):
        if tag.startswith("B-"):
            begin = at
        if tag != OUTSIDE and not (at + 1 < len(written) and written[at + 1].startswith("I-")):
            found.add((tag[2:], begin, at + 1))
    return found
