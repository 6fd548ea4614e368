"""Adversarial examples that others have published.

======================  ================================================================================================
TextAttack's log        CSV with ``original_text``, ``perturbed_text`` (changed words in ``[[ ]]``), ``result_type``, …
TextFooler's output     ``orig sent (1):`` and ``adv sent (0):``, or ``orig premise:``, ``orig hypothesis (1):`` and
                        ``adv hypothesis (0):``, a blank line after each
a table of your own     TSV, CSV or JSONL with ``original``, ``adversarial``, ``label`` and, for pairs, ``first``, the
                        text that both share
adversarial SQuAD       SQuAD's JSON; versions of question ``56be…02ec`` have ids such as ``56be…02ec-high-conf-turk0``
======================  ================================================================================================

The first two hold attacks on *their* victim: evaluating another model measures transfer, not that model's own
robustness, and TextFooler's files contain only successful attacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from trueneg.attacks.base import AdversarialExample, Outcome
from trueneg.errors import TaskError
from trueneg.tasks.records import Records, read_lines, read_records
from trueneg.tasks.squad_reading import SquadExample, read_squad
from trueneg.tasks.text import TextExample

_OUTCOMES: Mapping[str, Outcome] = {
    "Successful": "succeeded",
    "Failed": "failed",
    "Skipped": "skipped",
    "Maximized": "succeeded",
}
_CHANGED = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_COLUMN = re.compile(r"\[\[\[\[\w+\]\]\]\]: ")
_NEXT_COLUMN = re.compile(rf"(?:<SPLIT>|>>>>)(?={_COLUMN.pattern})")
_LINE_BREAK = "<SPLIT>"  # stands for every line break in TextAttack's log, also for those between the texts of a pair
_LINE = re.compile(r"(orig|adv) (sent|premise|hypothesis)(?: \((.*?)\))?:\s*(.*)")
_Texts = tuple[str | None, str]
"""For a pair, the first text (the shared one in TextFooler's files and tables) and the second; else None and the
text."""
FORMATS = (
    "give a log of TextAttack's, TextFooler's output, a table with the columns original, adversarial and label, or, "
    "for a model of SQuAD, adversarial SQuAD"
)


@dataclass(frozen=True)
class _Row:
    line: int
    original: _Texts
    adversarial: _Texts
    label: str
    outcome: Outcome
    num_queries: int = 0
    has_position: bool = True
    """Whether the label is the number of a class, as attacks write it, rather than its name."""


def read_published(
    path: Path, labels: Sequence[str], names: Sequence[str] = (), *, is_of_pairs: bool | None = None
) -> list[AdversarialExample[TextExample]]:
    """Read published examples of a task, in the order of the file; keys are line numbers.

    Args:
        path: The file; its format is detected from its content.
        labels: Of the task.
        names: Names of the file's labels 0, 1, …, each one of ``labels``; by default the labels themselves.
        is_of_pairs: Whether the task's examples are pairs of texts; None to accept both.

    Raises:
        TaskError: naming file and line: for a file of another format, a label that the task does not have, or pairs
            where single texts are expected, or vice versa.
    """
    for name in names:
        if name not in labels:
            raise TaskError(f"--label-names: the task has no label '{name}', but {', '.join(labels)}")
    rows = list(_rows(path))
    if not rows:
        raise TaskError(f"'{path}' holds no adversarial examples: {FORMATS}")
    for row in rows:
        if is_of_pairs not in (None, row.original[0] is not None):
            there, expected = (
                ("a single text", "pairs of texts") if is_of_pairs else ("a pair of texts", "single texts")
            )
            raise TaskError(f"{path}:{row.line}: {there}, and the task is of {expected}: give examples of its kind")
    numbered = _numbered(rows, labels, names)
    return [_example_of(path, row, labels, numbered) for row in rows]


def read_published_squad(path: Path) -> list[AdversarialExample[SquadExample]]:
    """Read adversarial SQuAD (Jia and Liang 2017): AddSent has up to five versions of a question, AddOneSent one.

    The outcome of a version is ``changed``, its note ``version`` the suffix of the question's id. A question without a
    version counts unchanged (``failed``), as in the authors' evaluation. Keys are those of the questions, so several
    examples may have the same key.

    Args:
        path: A file in SQuAD's format, with the original questions.

    Raises:
        TaskError: if it cannot be read, holds no version, or a version of a question that it does not have.
    """
    read = read_squad(path, path.stem, with_impossible=False).examples
    originals = {example.key: example for example in read if "-" not in example.key}
    versions = [example for example in read if "-" in example.key]
    if not versions:
        raise TaskError(f"'{path}' is no adversarial SQuAD: no question's id is that of another and '-…': {FORMATS}")
    changed: dict[str, list[AdversarialExample[SquadExample]]] = {key: [] for key in originals}
    for version in versions:
        key, _, name = version.key.partition("-")
        if key not in originals:
            raise TaskError(f"'{path}' has '{version.key}' without its original '{key}': give the whole file")
        original = originals[key]
        adversarial = replace(version, key=key, group=original.group)
        changed[key].append(AdversarialExample(original, adversarial, "changed", notes={"version": name}))
    untouched = {"reason": "no version was published"}
    return [
        found
        for key, original in originals.items()
        for found in changed[key] or [AdversarialExample(original, original, "failed", notes=untouched)]
    ]


def _rows(path: Path) -> Iterator[_Row]:
    if not path.is_file():
        raise TaskError(f"--load {path}: no such file")
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    if _LINE.match(first):
        return _textfooler(path)
    records = read_records(path)
    return _textattack(records) if "perturbed_text" in records.names else _table(records)


def _textattack(records: Records) -> Iterator[_Row]:
    columns = ("original_text", "perturbed_text", "ground_truth_output", "result_type")
    places = [records.column(name) for name in columns]
    queries = records.names.index("num_queries") if "num_queries" in records.names else None
    for number, row in enumerate(records.rows):
        original_text, perturbed_text, label, kind = (row[place] for place in places)
        try:
            original, adversarial = _texts(original_text), _texts(perturbed_text)
            num_queries = 0 if queries is None else int(float(row[queries]))
            outcome = _OUTCOMES[kind]
            label = f"{float(label):.0f}" if float(label).is_integer() else label
        except (KeyError, ValueError, OverflowError) as error:
            raise TaskError(f"{records.where(number)}: no row of TextAttack's log ({error!r}): {FORMATS}") from error
        yield _Row(records.lines[number], original, adversarial, label, outcome, num_queries)


def _texts(text: str) -> _Texts:
    r"""Texts of a cell of the log, without column names and marks of changed words.

    Example:
        >>> _texts("[[[[Premise]]]]: He ran.<SPLIT>[[[[Hypothesis]]]]: He [[moved]].")
        ('He ran.', 'He moved.')
        >>> _texts("A [[fine]] film.<SPLIT>We liked it.")
        (None, 'A fine film.\nWe liked it.')
    """
    parts = [_CHANGED.sub(r"\1", _COLUMN.sub("", part)).replace(_LINE_BREAK, "\n") for part in _NEXT_COLUMN.split(text)]
    if len(parts) > 2:
        raise ValueError(f"{len(parts)} texts in an example")
    return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[0])


def _textfooler(path: Path) -> Iterator[_Row]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    last = 0
    for number, line in chain(read_lines(path), [(0, "")]):
        if line.strip():
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise TaskError(f"{path}:{number}: neither 'orig …:' nor 'adv …:': {FORMATS}")
            whose, what, label, content = match.groups()
            found[whose, what] = (content, label or "")
            last = number
        elif found:
            kind = "hypothesis" if ("orig", "hypothesis") in found else "sent"
            for whose in ("orig", "adv"):
                if (whose, kind) not in found:
                    raise TaskError(f"{path}:{last}: the entry that ends here has no '{whose} {kind}': fix it")
            first = found.get(("orig", "premise"), (None, ""))[0]
            original, label = found["orig", kind]
            yield _Row(last, (first, original), (first, found["adv", kind][0]), label, "succeeded")
            found = {}


def _table(records: Records) -> Iterator[_Row]:
    original, adversarial, label = (records.column(name) for name in ("original", "adversarial", "label"))
    first = records.names.index("first") if "first" in records.names else None
    for number, row in enumerate(records.rows):
        shared = None if first is None else row[first]
        texts, changed = (shared, row[original]), (shared, row[adversarial])
        yield _Row(records.lines[number], texts, changed, row[label], "changed", has_position=False)


def _numbered(rows: Sequence[_Row], labels: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Names of a file's labels 0, 1, …; empty if its labels are names, which may be numbers, too, as for stars."""
    if names or rows[0].has_position:
        return names or labels
    are_names = all(row.label in labels for row in rows) or not all(row.label.isdecimal() for row in rows)
    return () if are_names else labels


def _example_of(
    path: Path, row: _Row, labels: Sequence[str], numbered: Sequence[str]
) -> AdversarialExample[TextExample]:
    """Make an example from a row, whose label is an index into ``numbered``, or a name if that is empty."""
    if row.label.isdecimal() and int(row.label) < len(numbered):
        label = labels.index(numbered[int(row.label)])
    elif row.label in labels and not (numbered and row.label.isdecimal()):
        label = labels.index(row.label)
    else:
        raise TaskError(
            f"{path}:{row.line}: the task has no label '{row.label}', but {', '.join(labels)}: "
            f"say with --label-names what 0, 1, … stand for"
        )

    def example(texts: _Texts) -> TextExample:
        first, text = texts
        if first is None:
            return TextExample(str(row.line), text, None, label)
        return TextExample(str(row.line), first, text, label)

    return AdversarialExample(example(row.original), example(row.adversarial), row.outcome, row.num_queries)
