"""Where recipes look for data: folders below ``--data``, what a command reads there, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from trueneg.tasks.records import SPLIT_NAMES

GLUE_FOLDERS = {
    **{"cola": "CoLA", "sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B", "qqp": "QQP", "mnli": "MNLI"},
    **{"qnli": "QNLI", "rte": "RTE"},
}
SOURCES = {
    "corpus": "your own text: .txt files with a blank line between documents, as trueneg corpus build reads them",
    "glue": "gluebenchmark.com/tasks: one folder a task, below glue/",
    "squad": "rajpurkar.github.io/SQuAD-explorer: train-v1.1.json and dev-v1.1.json, below squad/",
    "cline_eval": "the releases that docs/finetuning.md lists (aclImdb/, snli/, contrast-sets/, …), below cline_eval/",
    "vectors": "nlp.stanford.edu/projects/glove (glove.6B.50d.txt), and the counter-fitted vectors of Mrkšić et al. "
    "2016 (counter-fitted-vectors.txt, or a JSON of neighbours), below vectors/",
    "wikitext": "wikitext-2-raw-v1: wiki.test.raw, below wikitext/",
    "substitution": "github.com/p-lambda/swords: swords-v1.1_dev.json.gz, below substitution/",
}
"""Folder below the data folder to what belongs there."""
CLINE_FOLDERS = {
    **{"imdb": "aclImdb", "snli": "snli", "perspectrum": "perspectrum", "boolq": "boolq", "ag": "ag_news_csv"},
    "mr": "rt-polaritydata",
}
"""Task of CLINE's paper to its folder below ``cline_eval/``."""
CONTRAST_FOLDERS = {
    **{"imdb": "contrast-sets", "boolq": "contrast-sets", "perspectrum": "contrast-sets"},
    "snli": "counterfactually-augmented-data",
}
"""Task to the folder of its contrast set, below ``cline_eval/``."""


def _named(suffix: str, *splits: str) -> tuple[str, ...]:
    return tuple("|".join(f"*{name}*{suffix}" for name in SPLIT_NAMES[split]) for split in splits)


_REVIEWS = tuple(f"{split}/{side}/*.txt" for split in ("train", "test") for side in ("pos", "neg"))
_GLUE_TRAINED = {
    "MNLI": ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"),
    "MRPC": ("train.tsv|msr_paraphrase_train.txt", "dev.tsv"),
}
_GLUE_TESTED = {"MNLI": ("test_matched.tsv", "test_mismatched.tsv"), "MRPC": ("test.tsv|msr_paraphrase_test.txt",)}
"""Task to its files, where they have other names than those of most tasks."""
FILES: Mapping[str, tuple[str, ...]] = {
    "squad": ("train-v1.1.json", "dev-v1.1.json"),
    "glue/STS-B": ("dev.tsv",),
    "cline_eval/aclImdb": _REVIEWS,
    "cline_eval/snli": _named(".jsonl", "train", "dev", "test"),
    "cline_eval/perspectrum": (
        *("**/perspectrum_with_answers_v1.0.json", "**/dataset_split_v1.0.json", "**/perspective_pool_v1.0.json"),
    ),
    "cline_eval/boolq": _named(".jsonl", "train", "dev"),
    "cline_eval/ag_news_csv": _named(".csv", "train", "test"),
    "cline_eval/rt-polaritydata": ("rt-polarity.pos", "rt-polarity.neg"),
}
"""Folder to the files that a command reads there; ``|`` separates alternative names of one file."""
CONTRAST_FILES = {
    "imdb": ("**/test_original.tsv|**/test_paired.tsv",),
    "boolq": ("**/boolq_perturbed.json",),
    "perspectrum": ("**/perspectrum_contrast_sets.csv",),
    "snli": ("**/original/test.tsv", "**/revised_premise/test.tsv", "**/revised_hypothesis/test.tsv"),
}
"""Task to the files of its contrast set."""


def files_needed(place: str, parts: tuple[str, ...] = (), *, is_tested: bool = False) -> tuple[str, ...]:
    """List the files that a command reads in a folder, or in parts of it.

    Args:
        place: Folder below the data folder.
        parts: GLUE's tasks.
        is_tested: List the files of test splits, not those that training reads.

    Example:
        >>> files_needed("glue", ("CoLA", "MRPC"))
        ('CoLA/train.tsv', 'CoLA/dev.tsv', 'MRPC/train.tsv|MRPC/msr_paraphrase_train.txt', 'MRPC/dev.tsv')
    """
    if not parts:
        return FILES.get(place, ())
    named, usual = (_GLUE_TESTED, ("test.tsv",)) if is_tested else (_GLUE_TRAINED, ("train.tsv", "dev.tsv"))
    return tuple(
        "|".join(f"{part}/{name}" for name in file.split("|")) for part in parts for file in named.get(part, usual)
    )


def place_of(task: str) -> tuple[str, tuple[str, ...]]:
    """Return the folder of the data of a task, or of several GLUE tasks, and what is read there."""
    family = task.partition("/")[0]
    if family == "glue":
        return "glue", tuple(GLUE_FOLDERS[name.removeprefix("glue/")] for name in task.split(","))
    if family == "squad":
        return "squad", ()
    return f"cline_eval/{CLINE_FOLDERS[task]}", ()
