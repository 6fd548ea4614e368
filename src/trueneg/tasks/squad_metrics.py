"""Scores of an answer, as SQuAD's own scripts say (Rajpurkar et al. 2016, section 6.1; 2018 for version 2.0)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalized(text: str) -> str:
    """Lower-case, remove ASCII punctuation, then articles that are whole words, then needless whitespace.

    The order matters: a hyphen joins the words around it before articles are looked for.

    Example:
        >>> normalized("The  Cat's  (a) pyjamas!")
        'cats pyjamas'
        >>> normalized("a-an the-atre")
        'aan theatre'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def best_scores(predicted: str | None, golds: Iterable[str], *, may_be_empty: bool = False) -> tuple[float, float]:
    """Score an answer by exact match and F1, each by the gold answer that it fits best.

    F1 is the harmonic mean of precision and recall of the words, each counted as often as it occurs.

    Args:
        predicted: The model's; None where it gave no answer at all, which counts as wrong.
        golds: All answers that annotators gave.
        may_be_empty: Score as version 2.0 does: no gold answer means that "" is right, and gold answers that
            normalize to nothing are not looked at.

    Raises:
        ValueError: if there are no gold answers and there must be.

    Example:
        >>> best_scores("Denver", ["the Broncos", "Denver Broncos"])
        (0.0, 0.6666666666666666)
        >>> best_scores("", [], may_be_empty=True)
        (1.0, 1.0)
        >>> best_scores("", ["the"]), best_scores("", ["the"], may_be_empty=True)
        ((1.0, 0.0), (1.0, 1.0))
    """
    against = [normalized(gold).split() for gold in dict.fromkeys(golds)]
    if may_be_empty:
        against = [words for words in against if words] or [[]]
    if not against:
        raise ValueError("no gold answers")
    if predicted is None:
        return 0.0, 0.0
    words = normalized(predicted).split()
    return float(words in against), max(_f1(words, gold, may_be_empty) for gold in against)


def _f1(predicted: list[str], gold: list[str], empty_matches: bool) -> float:
    if empty_matches and not (predicted and gold):
        return float(predicted == gold)
    num_same = (Counter(predicted) & Counter(gold)).total()
    if num_same == 0:
        return 0.0
    # By precision and recall, as in the official scripts: the last digit depends on it.
    precision, recall = num_same / len(predicted), num_same / len(gold)
    return 2 * precision * recall / (precision + recall)
