"""The six tasks that CLINE is fine-tuned on (Wang et al. 2021, §4.2), read from the released files.

=============  ====================================  =============================================================
task           looked for in ``--data``              files
=============  ====================================  =============================================================
imdb           ``aclImdb/``                          ``<split>/{pos,neg}/<id>_<rating>.txt`` (Maas et al. 2011)
snli           ``snli/``, ``snli_1.0/``              ``*<split>*.jsonl`` (Bowman et al. 2015)
perspectrum    ``perspectrum/``                      ``data/dataset/*_v1.0.json`` (Chen et al. 2019): the stance
boolq          ``boolq/``                            ``*<split>*.jsonl`` (Clark et al. 2019)
ag             ``ag_news_csv/``                      ``<split>*.csv`` (Zhang et al. 2015)
mr             ``rt-polaritydata/``                  ``rt-polarity.{pos,neg}`` (Pang and Lee 2005)
=============  ====================================  =============================================================

All but perspectrum can also be read from the hub (``hub:stanfordnlp/imdb``, ``hub:stanfordnlp/snli``,
``hub:google/boolq``, ``hub:fancyzhx/ag_news``, ``hub:cornell-movie-review-data/rotten_tomatoes``), with its splits.

Where no validation file was released (imdb, ag, mr), and for mr no test file either, a tenth of the training examples
is set aside, the same for every training seed. ``Split.counts`` has their number, the number of released examples that
the files at hand lack (``missing_from_release``), and that of oddities.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError, unknown_name
from trueneg.files.text import csv_rows
from trueneg.tasks.base import Split
from trueneg.tasks.contrast_sets import originals_next_to
from trueneg.tasks.hub import open_hub
from trueneg.tasks.records import SPLIT_NAMES, Records, as_records, listing, read_json, read_lines, read_records
from trueneg.tasks.split import split_off
from trueneg.tasks.text import TextColumns, TextExample, TextTask, examples_of, fingerprint, plain_review

SET_ASIDE = 0.1
"""Share of the training examples that serves as a split that was not released."""
SET_ASIDE_SEED = 0

_SENTIMENT = ("negative", "positive")


@dataclass(frozen=True)
class ClineDataset:
    """Where a task's files are, and what their release holds."""

    places: tuple[str, ...]
    """Possible names of its folder below the data folder."""
    records: Callable[[Path, str], Records]
    """Reads the rows of a split, or all rows, from a folder."""
    columns: TextColumns
    labels: tuple[str, ...]
    """Class ``i`` is ``labels[i]``."""
    released: Mapping[str, int]
    """Number of labelled examples in the official release, by the split they are read from."""
    hub: TextColumns | None = None
    """The columns on the hub; None if it does not have the task."""
    hub_labels: tuple[str, ...] = ()
    """The names of the same classes on the hub, if they differ."""
    set_aside: tuple[str, ...] = ()
    """Splits that are parts of the training examples."""
    dev_splits: tuple[str, ...] = ("dev", "test")
    undecided: str | None = None
    shared_text: Literal["text", "second"] | None = None
    """The text that several examples share: SNLI's premise, BoolQ's passage (see ``TextTask``)."""
    oddities: Mapping[str, str] = field(default_factory=dict)
    """Name of a count to a regular expression: texts that match are kept as released, and counted."""


def _place(name: str, dataset: ClineDataset, data: Path) -> Path:
    if not data.is_dir():
        raise TaskError(f"--data {data}: no such folder: give one that holds {dataset.places[0]}/, or hub:NAME")
    found = [data / place for place in dataset.places if (data / place).is_dir()]
    if len(found) > 1:
        raise TaskError(f"--data {data}: {found[0].name} and {found[1].name} both hold {name}: name one of them")
    return found[0] if found else data


def _split_file(place: Path, split: str, suffix: str) -> Path:
    """Find the file whose name contains the split's as a word: ``snli_1.0_dev.jsonl``, ``train.subset1886.jsonl``."""
    words = SPLIT_NAMES.get(split, (split,))
    files = [path for path in sorted(place.glob(f"*{suffix}")) if {*re.split(r"[-_.]", path.stem)} & {*words}]
    if not files:
        raise TaskError(f"--data {place}: no *{split}*{suffix} in it: it holds {listing(place)}")
    if len(files) > 1:
        raise TaskError(f"--data {place}: {files[0].name} and {files[1].name} are both '{split}': move one away")
    return files[0]


def _json_lines(place: Path, split: str) -> Records:
    return read_records(_split_file(place, split, ".jsonl"))


def _imdb(place: Path, split: str) -> Records:
    found: list[tuple[str, str, str]] = []
    num_latin = 0
    for side, label in zip(("neg", "pos"), _SENTIMENT, strict=True):
        for path in (place / split / side).glob("*.txt"):
            text, is_latin = decoded(path.read_bytes())
            num_latin += is_latin
            found.append((f"{side}/{path.stem}", text, label))
    if not found:
        raise TaskError(f"--data {place}: no {split}/pos/*.txt and {split}/neg/*.txt in it: get the data set again")
    found.sort(key=lambda row: (row[2], [int(number) for number in re.findall(r"\d+", row[0])], row[0]))
    records = as_records(place, ("key", "text", "label"), list(enumerate(found, start=1)))
    return replace(records, counts={**records.counts, "latin1_texts": num_latin})


def decoded(content: bytes) -> tuple[str, bool]:
    """Decode a text, and tell whether it was in Latin-1, as some releases are."""
    try:
        return content.decode("utf-8"), False
    except UnicodeDecodeError:
        return content.decode("latin-1"), True


def _perspectrum(place: Path, split: str) -> Records:
    folder = next((path for path in (place / "data" / "dataset", place / "dataset") if path.is_dir()), place)
    names = ("perspectrum_with_answers_v1.0.json", "dataset_split_v1.0.json", "perspective_pool_v1.0.json")
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise TaskError(f"--data {folder}: no {missing[0]} in it: it holds {listing(folder)}")
    claims, split_of, pool = (read_json(folder / name) for name in names)
    rows: list[tuple[str, ...]] = []
    num_unknown = 0
    try:
        text_of = {perspective["pId"]: perspective["text"] for perspective in pool}
        for claim in (claim for claim in claims if split_of.get(str(claim["cId"])) == split):
            for cluster in claim["perspectives"]:
                known = [pid for pid in cluster["pids"] if pid in text_of]
                num_unknown += len(cluster["pids"]) - len(known)
                stance = cluster["stance_label_3"].lower()
                if not all(isinstance(text, str) for text in (claim["text"], *(text_of[pid] for pid in known))):
                    raise TypeError(f"claim {claim['cId']} has a text that is not text")
                rows += [
                    (f"{claim['cId']}/{pid}", str(claim["cId"]), claim["text"], text_of[pid], stance) for pid in known
                ]
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"{folder}: not as PERSPECTRUM v1.0 is written ({error!r}): get its files again") from error
    records = as_records(
        folder / names[0], ("key", "claim", "text", "perspective", "stance"), list(enumerate(rows, start=1))
    )
    return replace(records, counts={**records.counts, "perspectives_without_text": num_unknown})


_HUB_TEXT = TextColumns("text", None, "label")
_QUESTION = TextColumns("question", "passage", "answer")
_TOPICS = ("World", "Sports", "Business", "Sci/Tech")


def _ag(place: Path, split: str) -> Records:
    path = _split_file(place, split, ".csv")
    cells = list(csv_rows(path, (f"{line}\n" for _, line in read_lines(path)), ",", TaskError))
    records = as_records(path, ("class", "title", "description"), cells)
    topics = dict(zip("1234", _TOPICS, strict=True))
    rows = [(topics.get(number, number), f"{title} {description}") for number, title, description in records.rows]
    return replace(records, names=("label", "text"), rows=rows)


def _mr(place: Path, split: str) -> Records:
    if split != "train":
        raise TaskError(f"mr has no '{split}': the splits are train, test, dev, drawn from all of its sentences")
    rows: list[tuple[int, tuple[str, ...]]] = []
    num_latin = 0
    for side, label in (("neg", _SENTIMENT[0]), ("pos", _SENTIMENT[1])):
        path = place / f"rt-polarity.{side}"
        if not path.is_file():
            raise TaskError(f"--data {place}: no {path.name} in it: it holds {listing(place)}")
        text, is_latin = decoded(path.read_bytes())
        num_latin += is_latin
        lines = [line.strip() for line in text.split("\n")]
        rows += [(n, (f"{side}/{n}", line, label)) if line else (n, ("", "", "")) for n, line in enumerate(lines, 1)]
        # The last newline starts no line.
        rows = rows[:-1] if not lines[-1] else rows
    records = as_records(place, ("key", "text", "label"), rows)
    return replace(records, counts={**records.counts, "latin1_files": num_latin})


CLINE: Mapping[str, ClineDataset] = {
    "imdb": ClineDataset(
        ("aclImdb",), _imdb, TextColumns("text", None, "label", "key"), _SENTIMENT,
        {"train": 25_000, "test": 25_000}, _HUB_TEXT, ("neg", "pos"), set_aside=("dev",),
    ),
    "snli": ClineDataset(
        ("snli", "snli_1.0"), _json_lines, TextColumns("sentence1", "sentence2", "gold_label", "pairID"),
        ("contradiction", "entailment", "neutral"),
        {"train": 549_367, "dev": 9_842, "test": 9_824}, TextColumns("premise", "hypothesis", "label"), undecided="-",
        shared_text="text",
    ),
    "perspectrum": ClineDataset(
        ("perspectrum",), _perspectrum, TextColumns("text", "perspective", "stance", "key", "claim"),
        ("undermine", "support"), {},
    ),
    "boolq": ClineDataset(
        ("boolq",), _json_lines, _QUESTION, ("false", "true"),
        {"train": 9_427, "dev": 3_270, "test": 3_245}, _QUESTION, dev_splits=("dev",), shared_text="second",
    ),
    "ag": ClineDataset(
        ("ag_news_csv",), _ag, _HUB_TEXT, _TOPICS, {"train": 120_000, "test": 7_600}, _HUB_TEXT, set_aside=("dev",),
        oddities={"html_leftovers": r"&lt;|&gt;|#\d+;|\bquot;|\bamp;", "backslashes": r"\\"},
    ),
    "mr": ClineDataset(
        ("rt-polaritydata",), _mr, TextColumns("text", None, "label", "key"), _SENTIMENT,
        {"train": 10_662}, _HUB_TEXT, ("neg", "pos"), set_aside=("test", "dev"),
    ),
}  # fmt: skip
"""Name to task. In perspectrum the second text is a perspective on the claim, which is the ``group``; in boolq the
passage, whose end is cut first; in ag the text is title and description. BoolQ's test split has no labels."""


class ClineTask(TextTask):
    """One of CLINE's tasks. The metric of all of them is accuracy.

    Originals of the validation and test contrast sets next to its files are not trained on, and are counted as
    ``in_contrast_set``: those of IMDb all come from its training reviews.

    Args:
        name: Name of the task in ``CLINE``.
        data: The task's folder, or one that contains it; or ``hub:NAME``.

    Attributes:
        place: Folder that is read; None for a hub dataset.

    Raises:
        ConfigError: for an unknown name.
        TaskError: if there is no such folder or file.

    Example:
        >>> ClineTask("imbd", "data/cline")
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown CLINE task 'imbd': did you mean 'imdb'? Known: ag, boolq, imdb, ...
    """

    def __init__(self, name: str, data: str | Path) -> None:
        if name not in CLINE:
            raise ConfigError(unknown_name("CLINE task", name, CLINE))
        self.dataset = CLINE[name]
        super().__init__(name, metrics=("accuracy",), labels=self.dataset.labels, shared_text=self.dataset.shared_text)
        self.dev_splits = self.dataset.dev_splits
        self.data = data
        self.set_aside = self.dataset.set_aside
        self.hub = open_hub(data)
        self.place: Path | None = None
        if self.hub is None:
            self.place = _place(name, self.dataset, Path(data))
            self.left_out = originals_next_to(name, self.place)
        elif self.dataset.hub is None:
            raise TaskError(f"--data {data}: the hub does not have {name}: give its files")
        else:
            self.set_aside = tuple(split for split in self.set_aside if split not in self.hub.splits)

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make the task of ``CLINE`` with this name; its labels are fixed."""
        return cls(options.name, options.data)

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        """Read a split, or the part of the training examples that is set aside for it (counts are of all of them).

        Raises:
            TaskError: as ``Task.read``; up to 1 % of malformed lines are left out and counted.
        """
        is_part = split in ("train", *self.set_aside)
        source = "train" if is_part else split
        whole = self._released(split, source)
        counts = dict(whole.counts)
        if self.hub is None:
            counts["missing_from_release"] = self.dataset.released.get(source, 0) - len(whole.examples)
        for oddity, pattern in self.dataset.oddities.items():
            counts[oddity] = sum(bool(re.search(pattern, f"{e.text} {e.second or ''}")) for e in whole.examples)
        examples = list(whole.examples)
        if is_part:
            examples = [e for e in examples if not self.left_out or fingerprint(e) not in self.left_out]
            counts["in_contrast_set"] = len(whole.examples) - len(examples)
            num_usable = len(examples)
            examples = self._part(examples, split)
            counts["set_aside" if split == "train" else "of_train"] = num_usable - len(examples)
        return replace(whole, examples=examples, counts={name: number for name, number in counts.items() if number > 0})

    def released(self, split: str) -> Sequence[TextExample]:
        """Read all usable examples of a split as it was released, including those of ``left_out``."""
        return self._released(split, split).examples

    def _released(self, split: str, source: str) -> Split[TextExample]:
        known = self.dataset
        if self.hub is not None and known.hub is not None:
            read = examples_of(split, self.hub.records(source), known.hub, known.hub_labels or self.labels)
        else:
            assert self.place is not None
            records = known.records(self.place, source)
            read = examples_of(split, records, known.columns, self.labels, undecided=known.undecided)
        return replace(read, examples=[*map(self.cleaned, read.examples)])

    def cleaned(self, example: TextExample) -> TextExample:
        """Remove the markup of IMDb's reviews."""
        return replace(example, text=plain_review(example.text)) if self.name == "imdb" else example

    def _part(self, rest: list[TextExample], split: str) -> list[TextExample]:
        """Return the part set aside for the split, or what remains of the training examples after all such parts."""
        for name in self.set_aside:
            if len(rest) < 2:
                raise TaskError(f"{self.name}: {self.data} has too few examples to set '{name}' aside: add more")
            stays, aside = split_off([example.label for example in rest], SET_ASIDE, SET_ASIDE_SEED)
            if name == split:
                return [rest[number] for number in aside]
            rest = [rest[number] for number in stays]
        return rest
