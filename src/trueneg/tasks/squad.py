"""SQuAD: answer a question with a span of a paragraph, or predict that it has no answer."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, ModelError, TaskError, unknown_name
from trueneg.objectives.labelled import SpanExtraction
from trueneg.tasks.base import Encoded, Prediction, Split, Task
from trueneg.tasks.hub import as_articles, open_hub
from trueneg.tasks.squad_reading import FORMAT, SquadExample, read_squad, squad_split
from trueneg.tasks.squad_windows import Windows, best_spans, make_windows, null_scores

VERSIONS = ("1.1", "2.0")

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


class SquadTask(Task[SquadExample]):
    """SQuAD 1.1, where each question has an answer (Rajpurkar et al. 2016), or 2.0, where some have none (2018).

    Args:
        data: A folder with ``train-v1.1.json`` and ``dev-v1.1.json`` (or ``v2.0``), one file, which is ``dev``, or
            ``hub:rajpurkar/squad`` (``squad_v2``).
        version: One of ``VERSIONS``.
        doc_stride: Context tokens from the start of a window to the start of the next.
        max_query: Maximum number of tokens of a question.
        max_answer: Maximum number of tokens of an answer.
        num_best: Number of spans over which a question's answer probability is normalized.
        null_threshold: Version 2.0 predicts "no answer" if its score exceeds that of the best span by more than this;
            choose it on other data than you report.

    Raises:
        ConfigError: for an unknown version, or a number that is not positive.
    """

    kind = "squad"
    preset_family = "squad"
    metrics = ("exact_match", "squad_f1")
    labels = ()
    auto_class = "AutoModelForQuestionAnswering"

    def __init__(
        self,
        data: str | Path,
        version: str = "1.1",
        *,
        doc_stride: int = 128,
        max_query: int = 64,
        max_answer: int = 30,
        num_best: int = 20,
        null_threshold: float = 0.0,
    ) -> None:
        if version not in VERSIONS:
            raise ConfigError(unknown_name("version of SQuAD", version, VERSIONS))
        numbers = {"doc_stride": doc_stride, "max_query": max_query, "max_answer": max_answer, "num_best": num_best}
        for option, number in numbers.items():
            if number < 1:
                raise ConfigError(f"{option} must be at least 1, got {number}")
        self.name = "squad" if version == "1.1" else f"squad/v{version}"
        self.hub = open_hub(data)
        self.data = Path(data)
        self.version = version
        self.doc_stride, self.max_query = doc_stride, max_query
        self.max_answer, self.num_best, self.null_threshold = max_answer, num_best, null_threshold

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Sequence[str] | None = None) -> Self:
        """Make the task that ``squad`` or ``squad/v2.0`` names."""
        return cls(
            options.data,
            options.name.partition("/v")[2] or "1.1",
            doc_stride=options.doc_stride,
            max_query=options.max_query,
            max_answer=options.max_answer,
            num_best=options.num_best,
            null_threshold=options.null_threshold,
        )

    @property
    def num_outputs(self) -> int:
        """Two logits per token: start and end."""
        return 2

    @property
    def has_impossible(self) -> bool:
        """Whether a question may have no answer."""
        return self.version == "2.0"

    def read(self, split: str, *, is_whole: bool = False) -> Split[SquadExample]:
        """Read ``<data>/<split>-v<version>.json``, or a single file as ``dev``; see ``squad_split`` for the counts."""
        if self.hub is not None:
            articles = as_articles(self.hub.rows(split))
            return squad_split(articles, str(self.data), split, with_impossible=self.has_impossible)
        file = f"{split}-v{self.version}.json"
        if not self.data.is_dir():
            if split not in self.dev_splits:
                raise TaskError(f"'{self.data}' is no folder: to read '{split}', give one with {file}")
            return read_squad(self.data, split, with_impossible=self.has_impossible)
        if not (self.data / file).is_file():
            there = ", ".join(sorted(path.name for path in self.data.glob("*.json"))) or "no .json file"
            raise TaskError(f"'{self.data}' has no {file}, but {there}: {FORMAT}")
        return read_squad(self.data / file, split, with_impossible=self.has_impossible)

    def encode(
        self, examples: Sequence[SquadExample], tokenizer: PreTrainedTokenizerFast, length: int, *, is_training: bool
    ) -> Windows:
        """Make rows of a question and a window of its context; see ``make_windows``."""
        sizes = {"stride": self.doc_stride, "max_question": self.max_query}
        return make_windows(examples, tokenizer, length, **sizes, is_training=is_training)

    def objective(self) -> SpanExtraction:
        """Make the objective: cross-entropies of start and end."""
        return SpanExtraction()

    def predictions(
        self, examples: Sequence[SquadExample], encoded: Encoded, outputs: Sequence[NDArray[np.float32]]
    ) -> list[Prediction]:
        """Find the best span of each question, as text of its context.

        ``predicted`` is a text ("" for "no answer"), ``gold`` a list of texts; ``exact`` and ``f1`` in [0, 1] are the
        best over these; ``is_missing`` is True if nothing could be predicted (a context without text), which counts as
        wrong; ``probability`` is the best span's share among the ``num_best`` best, in version 2.0 with "no answer".
        Version 2.0 adds ``is_impossible`` and ``null_odds``, the score of "no answer" minus that of the best span (0 if
        there is none).

        Raises:
            ModelError: for outputs that are not finite.
        """
        assert isinstance(encoded, Windows), "encoded by another task"
        if not examples:
            return []
        for number, row in zip(encoded.example.tolist(), outputs, strict=True):
            if not np.isfinite(row).all():
                key = examples[number].key
                raise ModelError(
                    f"{self.name}: the model's output for '{key}' is not finite: it diverged, train it again"
                )
        spans = best_spans(encoded, outputs, num_best=self.num_best, max_length=self.max_answer)
        nulls = null_scores(encoded, outputs) if self.has_impossible else np.full(len(examples), -np.inf, np.float32)
        predictions: list[Prediction] = []
        for example, scores, characters, null in zip(examples, spans.scores, spans.characters, nulls, strict=True):
            has_span = bool(scores[0] > -np.inf)
            odds = float(null - scores[0]) if has_span else float(null)
            is_null = self.has_impossible and (not has_span or odds > self.null_threshold)
            is_missing = not has_span and not is_null
            predicted = "" if is_null or is_missing else example.context[slice(*characters[0])].strip()
            prediction: Prediction = {"key": example.key, "group": example.group, "predicted": predicted}
            if example.is_labelled:
                gold = [given.text for given in example.answers]
                scored = best_scores(None if is_missing else predicted, gold, may_be_empty=self.has_impossible)
                prediction |= {"gold": gold, "exact": scored[0], "f1": scored[1]}
            prediction |= {"is_missing": is_missing, "probability": _share_of_first(scores, null)}
            if self.has_impossible:
                prediction |= {"is_impossible": example.is_impossible, "null_odds": odds}
            predictions.append(prediction)
        return predictions

    def groups(self, examples: Sequence[SquadExample]) -> list[str | None]:
        """Return the paragraph of each question."""
        return [example.group for example in examples]

    def subset(self, examples: Sequence[SquadExample], num: int, seed: int) -> list[SquadExample]:
        """Choose questions, in their order, preserving the share of impossible ones.

        Questions are drawn, not paragraphs: they cover more contexts, and the number is exact. With the same seed, a
        larger choice contains a smaller one, up to one question of each kind where shares are rounded.
        """
        if num >= len(examples):
            return list(examples)
        order = np.random.default_rng(seed).permutation(len(examples))
        is_impossible = np.array([example.is_impossible for example in examples], np.bool_)[order]
        num_impossible = round(num * int(is_impossible.sum()) / len(examples))
        chosen = np.concatenate([order[is_impossible][:num_impossible], order[~is_impossible][: num - num_impossible]])
        return [examples[number] for number in np.sort(chosen)]


def _share_of_first(scores: NDArray[np.float32], null: float) -> float:
    """Return the best span's softmax over spans and "no answer"; 0 if there is none."""
    if scores[0] == -np.inf:
        return 0.0
    shifted = np.exp(np.append(scores, null).astype(np.float64) - float(scores[0]))
    return float(1 / shifted.sum())


def normalized(text: str) -> str:
    """Lower-case, remove ASCII punctuation, then articles that are whole words, then superfluous whitespace.

    The order matters: removing a hyphen joins the words around it before articles are searched for.

    Example:
        >>> normalized("The  Cat's  (a) pyjamas!")
        'cats pyjamas'
        >>> normalized("a-an the-atre")
        'aan theatre'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def best_scores(predicted: str | None, golds: Iterable[str], *, may_be_empty: bool = False) -> tuple[float, float]:
    """Score an answer by exact match and F1 as SQuAD's own scripts do, each against its best-matching gold answer.

    F1 is the harmonic mean of precision and recall of the words, each counted as often as it occurs.

    Args:
        predicted: The model's answer; None if it gave none at all, which counts as wrong.
        golds: All answers that annotators gave.
        may_be_empty: Score as version 2.0 does: no gold answer means that "" is right, and gold answers that
            normalize to nothing are ignored.

    Raises:
        ValueError: if there are no gold answers and ``may_be_empty`` is False.

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
    # From precision and recall, as in the official scripts: the last digit depends on it.
    precision, recall = num_same / len(predicted), num_same / len(gold)
    return 2 * precision * recall / (precision + recall)
