"""The figures of the tables that recipes reproduce, as the papers print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

TRUE_NEGATIVES = "Zhang et al. 2023 (True Negatives)"
CLINE = "Wang et al. 2021 (CLINE)"
AVERAGE = "Average"


@dataclass(frozen=True)
class PrintedTable:
    """A table as printed: each row's figures in the order of the columns, None where the paper has none."""

    source: str
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    is_ours: bool = False
    """Whether it is from no paper: a claim is then that a row is better than its baseline."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """Baseline of a claim to the row that the paper takes its difference from, where the two differ."""
    differences: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """Row, baseline and column to the difference as printed, where the paper computed it from unrounded figures and so
    it is not the difference of the printed ones."""

    def figure(self, row: str, column: str) -> float | None:
        """Look up a figure; None where the paper has none.

        Example:
            >>> TN_TABLE3.figure("BERT-base HC", "CoLA")
            62.9
        """
        figures = self.rows.get(row)
        return figures[self.columns.index(column)] if figures and column in self.columns else None

    def difference(self, row: str, baseline: str, column: str) -> float | None:
        """Subtract a baseline's figure from a row's; None where the paper lacks one of them.

        Example:
            >>> TN_TABLE3.difference("BERT-base HC", "BERT-base", "Average")  # 83.5 and 82.9
            0.7
        """
        if (printed := self.differences.get((row, baseline, column))) is not None:
            return printed
        ours, theirs = self.figure(row, column), self.figure(self.baselines.get(baseline, baseline), column)
        return None if ours is None or theirs is None else round(ours - theirs, 6)

    def averaged(self, columns: Sequence[str]) -> PrintedTable:
        """Add ``AVERAGE`` over some of the columns, rounded to two decimals; over all columns, a printed one is kept.

        Example:
            >>> TN_TABLE3.averaged(["CoLA", "MRPC", "RTE"]).figure("BERT-base", "Average")
            71.93
        """
        others = [name for name in self.columns if name != AVERAGE]
        if AVERAGE in self.columns and set(columns) == set(others):
            return self
        rows: dict[str, tuple[float | None, ...]] = {}
        for row in self.rows:
            own = [self.figure(row, column) for column in columns]
            known = [figure for figure in own if figure is not None]
            mean = round(fmean(known), 2) if known and len(known) == len(own) else None
            rows[row] = (*(self.figure(row, name) for name in others), mean)
        return replace(self, columns=(*others, AVERAGE), rows=rows, differences={})


_GLUE = ("CoLA", "SST", "MRPC", "STS", "QQP", "MNLI", "QNLI", "RTE", AVERAGE)

TN_TABLE2 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 2",
    "False negatives over training, % of rows (Iter.) and of mispredictions (Pred.), on wikitext-2-raw",
    ("base Iter.", "base Pred.", "large Iter.", "large Pred."),
    {
        "6.25 %": (6.90, 1.31, 7.46, 1.50),
        "12.5 %": (6.96, 1.34, 7.58, 1.55),
        "25 %": (6.97, 1.36, 7.31, 1.49),
        "50 %": (7.05, 1.36, 7.46, 1.56),
        "80 %": (7.06, 1.40, 7.38, 1.57),
        "100 %": (7.07, 1.41, 7.44, 1.60),
    },
)
TN_TABLE3 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 3",
    "GLUE, development sets",
    _GLUE,
    {
        "BERT-base": (61.1, 93.0, 86.8, 87.1, 90.8, 84.7, 91.4, 67.9, 82.9),
        "BERT-base HC": (62.9, 93.2, 87.5, 87.4, 90.9, 84.9, 91.5, 69.3, 83.5),
        "BERT-base SR": (61.2, 93.5, 89.0, 87.5, 90.9, 84.8, 91.6, 68.6, 83.4),
        "BERT-large": (61.7, 93.7, 88.5, 90.1, 91.3, 86.7, 92.4, 72.9, 84.7),
        "BERT-large HC": (62.3, 93.4, 89.0, 90.5, 91.5, 87.0, 93.0, 73.7, 85.1),
        "BERT-large SR": (62.3, 94.2, 89.2, 90.1, 91.4, 87.0, 92.8, 74.0, 85.1),
        "ELECTRA-small": (56.8, 88.3, 87.4, 86.8, 88.3, 78.9, 87.9, 68.5, 80.4),
        "ELECTRA-small HC": (62.0, 89.8, 87.0, 86.7, 89.0, 80.4, 88.0, 67.9, 81.4),
        "ELECTRA-small SR": (61.1, 90.1, 89.5, 87.0, 89.4, 80.8, 88.8, 68.6, 81.9),
        "ELECTRA-base": (68.3, 95.3, 90.9, 91.3, 91.7, 88.5, 93.0, 82.3, 87.7),
        "ELECTRA-base HC": (70.9, 95.6, 91.2, 91.3, 92.0, 88.7, 93.6, 83.8, 88.4),
        "ELECTRA-base SR": (70.4, 95.4, 90.4, 91.2, 91.9, 89.1, 93.4, 84.8, 88.3),
    },
    differences={("BERT-base HC", "BERT-base", AVERAGE): 0.7, ("BERT-base SR", "BERT-base", AVERAGE): 0.6},
)
TN_TABLE4 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 4",
    "SQuAD 1.1, development set",
    ("EM", "F1"),
    {
        "ELECTRA-small": (75.8, 83.9),
        "ELECTRA-small HC": (77.7, 85.6),
        "ELECTRA-small SR": (76.0, 84.2),
        "ELECTRA-base": (85.1, 91.6),
        "ELECTRA-base HC": (85.7, 92.1),
        "ELECTRA-base SR": (85.6, 92.0),
    },
)
TN_TABLE5 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 5",
    "SQuAD under attack: what is left, and how much less that is",
    tuple(
        f"{attack} {figure}"
        for attack in ("AddSentenceDiverse", "SwapSynWordNet")
        for figure in ("EM before", "EM", "drop of EM", "F1 before", "F1", "drop of F1")
    ),
    {
        "ELECTRA-small": (80.55, 25.60, 54.95, 85.10, 26.43, 58.67, 80.67, 74.67, 6.00, 85.38, 80.43, 4.95),
        "ELECTRA-small HC": (82.59, 34.13, 48.46, 86.78, 36.60, 50.18, 82.33, 79.67, 2.66, 86.68, 83.65, 3.03),
        "ELECTRA-small SR": (78.84, 37.20, 41.64, 80.84, 38.29, 42.55, 78.67, 75.67, 3.00, 80.88, 78.51, 2.37),
    },
)
TN_TABLE6 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 6",
    "Where synonyms come from, and what is regularized: GLUE, development sets",
    _GLUE,
    {
        "ELECTRA-small": TN_TABLE3.rows["ELECTRA-small"],
        "ELECTRA-small HC": TN_TABLE3.rows["ELECTRA-small HC"],
        "ELECTRA-small HC GloVe": (59.0, 88.5, 87.0, 86.4, 88.8, 79.6, 87.9, 67.1, 80.6),
        "ELECTRA-small SR": TN_TABLE3.rows["ELECTRA-small SR"],
        "ELECTRA-small SR sentence": (59.5, 89.6, 90.0, 86.7, 89.1, 80.4, 90.0, 68.2, 81.6),
    },
)
TN_TABLE7 = PrintedTable(
    f"{TRUE_NEGATIVES}, Table 7",
    "GLUE, test sets, scored by its server",
    _GLUE,
    {
        "ELECTRA-small": (53.6, 88.9, 83.9, 80.7, 87.1, 80.1, 87.9, 63.1, 78.2),
        "ELECTRA-small HC": (55.3, 90.3, 84.1, 82.0, 87.2, 80.6, 88.4, 64.3, 79.0),
        "ELECTRA-small SR": (58.3, 90.6, 85.4, 81.4, 87.9, 80.6, 88.0, 64.3, 79.6),
        "ELECTRA-base": (62.4, 95.3, 87.3, 88.8, 89.0, 87.6, 93.1, 77.6, 85.1),
        "ELECTRA-base HC": (67.5, 95.8, 88.6, 89.9, 89.7, 89.0, 93.6, 79.1, 86.7),
        "ELECTRA-base SR": (65.7, 95.7, 88.3, 90.0, 89.9, 89.1, 93.6, 78.8, 86.4),
    },
)
TN_COST = PrintedTable(
    f"{TRUE_NEGATIVES}, section 5, Pre-training Efficiency",
    "Time of a step relative to the baseline's (the paper: 100, 102 and 101 hours for 200k steps of BERT-base)",
    ("ratio",),
    {"baseline": (1.00,), "HC": (1.02,), "SR": (1.01,)},
)

CLINE_TABLE2 = PrintedTable(
    f"{CLINE}, Table 2",
    "Adversarial training on adversarial (Adv) and on revised examples (Rev), accuracy",
    ("IMDB Adv", "IMDB Rev", "SNLI Adv", "SNLI Rev"),
    {
        "BERT": (88.7, 89.8, 48.6, 73.0),
        "BERT FreeLB": (91.9, 87.7, 56.1, 71.4),
        "RoBERTa": (93.9, 93.0, 55.1, 75.2),
        "RoBERTa FreeLB": (95.2, 92.6, 58.1, 74.6),
    },
)
CLINE_TABLE3 = PrintedTable(
    f"{CLINE}, section 2.3 and Table 3",
    "Revised reviews that one model has right and the other wrong, %",
    ("IMDB Rev",),
    {"right without FreeLB only": (None,), "right with FreeLB only": (None,)},
)
_CONTRAST_SETS = tuple(
    f"{task} {figure}" for task in ("IMDB", "PERSPECTRUM", "BoolQ", "SNLI") for figure in ("Ori", "Rev", "Con")
)
CLINE_TABLE4 = PrintedTable(
    f"{CLINE}, Table 4",
    "Contrast sets: accuracy on originals (Ori) and revisions (Rev), consistency (Con)",
    _CONTRAST_SETS,
    {
        "BERT": (92.2, 89.8, 82.4, 74.7, 72.8, 57.6, 60.9, 57.6, 36.1, 89.8, 73.0, 65.1),
        "RoBERTa": (93.6, 93.0, 87.1, 80.6, 78.8, 65.0, 69.6, 60.6, 43.9, 90.8, 75.2, 67.8),
        "CLINE": (94.5, 93.9, 88.5, 81.6, 80.2, 72.2, 73.9, 63.9, 47.8, 91.3, 76.0, 69.2),
    },
)
CLINE_TABLE5 = PrintedTable(
    f"{CLINE}, Table 5",
    "Accuracy on adversarial examples of TextFooler",
    ("IMDB", "AG", "MR", "SNLI"),
    {
        "BERT": (88.7, 88.8, 68.4, 48.6),
        "BERT FreeLB": (91.9, 93.3, 75.9, 56.1),
        "RoBERTa": (93.9, 91.9, 79.7, 55.1),
        "RoBERTa FreeLB": (95.2, 93.5, 81.0, 58.1),
        "CLINE": (94.7, 92.3, 80.4, 55.4),
        "CLINE FreeLB": (95.9, 94.2, 82.1, 58.7),
    },
)
_ABLATIONS = tuple(
    f"{task} {share} {figure}"
    for task in ("PERSPECTRUM", "BoolQ")
    for share in ("1 %", "10 %", "100 %")
    for figure in ("Ori", "Rev", "Con")
)
CLINE_TABLE6 = PrintedTable(
    f"{CLINE}, Table 6",
    "Ablations, with parts of the training examples: contrast sets",
    _ABLATIONS,
    {
        "CLINE": (
            *(71.4, 60.4, 33.6, 75.1, 69.1, 55.3, 81.6, 80.2, 72.2),
            *(66.7, 52.8, 33.7, 68.1, 54.0, 36.1, 73.9, 63.9, 47.8),
        ),
        "CLINE w/o RTD": (
            *(67.3, 59.4, 29.0, 73.4, 67.7, 53.0, 81.1, 78.3, 68.9),
            *(64.8, 52.5, 32.2, 68.0, 53.7, 35.8, 72.5, 63.0, 46.6),
        ),
        "CLINE w/o hard negatives": (
            *(59.0, 53.0, 14.7, 71.4, 68.8, 38.2, 80.9, 78.2, 65.9),
            *(60.1, 49.0, 30.0, 68.1, 53.4, 35.2, 69.6, 61.8, 44.5),
        ),
        "RoBERTa": (
            *(55.8, 54.8, 13.8, 72.4, 66.8, 45.2, 80.6, 78.8, 65.0),
            *(60.9, 49.3, 27.5, 65.2, 53.1, 32.8, 69.6, 60.6, 43.9),
        ),
    },
)
CLINE_TABLE7 = PrintedTable(
    f"{CLINE}, Table 7",
    "Hits of any layer on triplets of MR, %",
    ("CLS", "MEAN", "BS"),
    {
        "BERT": (42.4, 45.2, 47.0),
        "CLINE-B": (58.0, 59.2, 66.8),
        "RoBERTa": (None, 42.5, 45.1),
        "CLINE-R": (42.1, 42.8, 49.4),
    },
)

_WRITTEN = ("F10", "F10 conceivable", "GAP", "F10 visible", "GAP visible", "STS-B", "gold loss")
CORRECTIONS = PrintedTable(
    "trueneg", "What a masked model writes after each way of treating false negatives", _WRITTEN, is_ours=True
)
CORRECTIONS_GLUE = PrintedTable(
    "trueneg", "GLUE after each way of treating false negatives, development sets", ("CoLA", "SST", "MRPC", "RTE"),
    is_ours=True,
)  # fmt: skip
