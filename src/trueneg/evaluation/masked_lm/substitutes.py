"""A masked LM's predictions in a word's place, against the words that people accept there: SWORDS' generation task.

Lee et al. (2021) score a ranked list of words for each target. Forms of one lemma count as one word, and the target's
own lemma is skipped. *Acceptable* words are accepted by more than half of the annotators, *conceivable* ones by one in
ten. *Strict* uses the list as it is; *lenient* first drops words that nobody judged. Precision and recall use sums
over targets: right words among the best ten, divided by the words given, or by all right words (up to ten).
GAP ranks the judged words by the model's probability; words that no single token writes come last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trueneg.errors import ConfigError, ModelError, unknown_name
from trueneg.evaluation.detectors.candidates import Candidates, Lemmatizer, is_phrase, lemmatizer, merge_candidates
from trueneg.evaluation.detectors.swords import Benchmark, Item, read_benchmark
from trueneg.evaluation.masked_lm.kept_checkpoints import run_config
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.store import Result, columns_of, save_result
from trueneg.evaluation.statistics.bootstrap import Bootstrap
from trueneg.evaluation.statistics.intervals import Interval, percentiles
from trueneg.evaluation.statistics.ranking import generalized_average_precision
from trueneg.files.digests import fingerprint_of
from trueneg.files.names import distinct_names
from trueneg.lexicon.surface import surfaces
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import PartOfSpeech
from trueneg.models.backbone import max_length
from trueneg.models.loading import load_trained_masked_lm, resolve_checkpoint
from trueneg.models.reading import Span, SpanReader, by_budget, padded
from trueneg.tasks.metrics import GAP, METRICS, SUBSTITUTION_LEVELS, SUBSTITUTION_LISTS, SUBSTITUTION_METRICS
from trueneg.terminal.progress import ProgressCallback, counted, no_progress
from trueneg.tokenizer import load_tokenizer, special_ids
from trueneg.training.distributed import choose_device
from trueneg.training.folder import METRICS as METRICS_FILE
from trueneg.training.log import read_metrics

TASK = "substitution"

WAYS = ("masked", "visible")
"""The sentence with a mask in the target's place; or the sentence as it is, followed by that (Qiang et al. 2020)."""

CUTOFF = 10
"""Number of words that count: F10."""

_WINDOW = 512

FIGURES = (*SUBSTITUTION_METRICS, GAP)

Written = Sequence[tuple[str, float]]
"""Words and their log probabilities, the most probable first."""

Ranked = Mapping[str, float]
"""Judged lemmas to the log probability of their most probable form; those that no token writes are left out."""


@dataclass(frozen=True)
class Substitutes:
    """Results of one checkpoint on one benchmark, with one of ``WAYS``."""

    result: Result
    predictions: list[dict[str, Any]]
    """One per target."""
    intervals: Mapping[str, Interval]
    """Metric to its figure and 95 % interval over targets."""
    ceilings: Mapping[str, float]
    """Level to the F10 of a perfect model that predicts single tokens of this vocabulary."""

    def save(self, folder: Path) -> Path:
        """Write the result where ``compare`` and ``report`` look for it: ``substitution/seed-<seed>/<split>.json``."""
        return save_result(self.result, self.predictions, folder / TASK / f"seed-{self.result.seed}")

    def summary(self) -> dict[str, Any]:
        """Return the metrics as plain data."""
        intervals = {name: [one.low, one.high] for name, one in self.intervals.items()}
        return asdict(self.result) | {"intervals": intervals, "ceilings": dict(self.ceilings)}


class SubstituteWriter:
    """A masked LM that predicts whole words of its vocabulary in a word's place.

    Args:
        checkpoint: A run folder (of an ELECTRA run, the generator is used), a Hugging Face folder or a hub name.
        way: One of ``WAYS``. Both sentences are one segment, as rows are in training.
        window: Maximum input length in tokens; longer contexts are cut around the target. 0 for the model's, up to 512.
        device: Device to compute on; by default a GPU if there is one.

    Raises:
        ConfigError: for an unknown way, or a window that is wider than the model's or has no room for a sentence.
        ModelError: for a checkpoint without a masked-LM head, a fast tokenizer, or whole words in its vocabulary.
    """

    def __init__(self, checkpoint: str, way: str = "masked", window: int = 0, device: str = "") -> None:
        if way not in WAYS:
            raise ConfigError(unknown_name("target", way, WAYS))
        self.tokenizer = load_tokenizer(resolve_checkpoint(checkpoint))
        if not any(self.words):
            raise ModelError(
                f"the tokenizer of '{checkpoint}' has no token that is a whole word, so the model writes none: give a "
                "folder that holds its tokenizer.json, or another model"
            )
        self.device = choose_device(device)
        self.model = load_trained_masked_lm(checkpoint, self.tokenizer).to(self.device).eval()
        longest = max_length(self.model.model)
        if window > longest:
            raise ConfigError(f"--window {window}: '{checkpoint}' reads at most {longest:,} tokens")
        self.window = window or min(longest, _WINDOW)
        self.way = way
        num_texts = 1 + WAYS.index(way)
        room = (self.window - 1 - num_texts) // num_texts
        if room < 1:
            raise ConfigError(f"--window {self.window} has no room for {num_texts} sentences: give a wider one")
        self.reader = SpanReader(self.tokenizer, room + self.tokenizer.num_special_tokens_to_add())
        self.room = room
        self.counts = dict.fromkeys(("contexts_cut", "targets_cut", "not_read"), 0)

    @cached_property
    def words(self) -> list[str]:
        """The word that each token is by itself; empty for a token that is no word, or only part of one."""
        return [entry.word if entry.starts_word and entry.word.isalnum() else "" for entry in surfaces(self.tokenizer)]

    @cached_property
    def _is_word(self) -> dict[bool, torch.Tensor]:
        """Tokens that can follow a space (True), and those that can follow anything else (False): bool ``[vocab]``."""
        prefixes = np.array([entry.prefix for entry in surfaces(self.tokenizer)])
        is_word = np.array([bool(word) for word in self.words])
        has_start = bool((is_word & (prefixes == "start")).any())
        after_space = is_word & (prefixes == "start") if has_start else is_word
        return {True: torch.from_numpy(after_space), False: torch.from_numpy(is_word)}

    def write(
        self,
        spans: Sequence[Span],
        num: int,
        asked: Sequence[Mapping[str, Sequence[int]]] = (),
        progress: ProgressCallback = no_progress,
    ) -> tuple[list[Written], list[Ranked]]:
        """Predict the ``num`` most probable words in each span's place, and rank the lemmas asked for.

        Args:
            spans: Texts, each with the position of a word.
            num: Words to predict.
            asked: For each span, the lemmas to rank and the tokens that are forms of them; none by default.
            progress: Called with the number of spans read and the total.

        Returns:
            The words predicted for each span, and the lemmas asked for with their log probabilities; both empty for a
            span that does not fit into the window.
        """
        written, ranked = list[Written]([()] * len(spans)), list[Ranked]([{}] * len(spans))
        for numbers, scores in self._log_probabilities(spans, progress):
            values, tokens = (found.tolist() for found in scores.topk(min(num, scores.shape[1])))
            for at, of_row, best, row in zip(numbers, values, tokens, scores, strict=True):
                pairs = zip(best, of_row, strict=True)
                written[at] = [(self.words[token], value) for token, value in pairs if value > -np.inf]
                forms = asked[at] if asked else {}
                ranked[at] = {lemma: float(row[list(forms[lemma])].max()) for lemma in forms}
        return written, ranked

    @torch.no_grad()
    def _log_probabilities(
        self, spans: Sequence[Span], progress: ProgressCallback
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield indices of spans and the log probabilities in their places: ``[spans, words]``, -inf if not a word."""
        rows = [self._row(span) for span in spans]
        lengths = np.array([len(ids) for ids, _ in rows])
        readable = np.array([at >= 0 for _, at in rows], np.bool_)
        self.counts["not_read"] += int((~readable).sum())
        order = np.argsort(lengths, kind="stable")
        batches = list(by_budget(order[readable[order]], lengths, self.device))
        for chosen in counted(batches, map(len, batches), len(spans), progress):
            numbers = chosen.tolist()
            yield numbers, self._of_rows([rows[at] for at in numbers], [spans[at] for at in numbers])

    def _of_rows(self, rows: Sequence[tuple[list[int], int]], spans: Sequence[Span]) -> torch.Tensor:
        input_ids, mask = (tensor.to(self.device) for tensor in padded([ids for ids, _ in rows], self.tokenizer))
        states = self.model.model.base_model(input_ids=input_ids, attention_mask=mask, return_dict=True)
        places = torch.tensor([at for _, at in rows], device=self.device)
        hidden = states.last_hidden_state[torch.arange(len(rows), device=self.device), places]
        logits = self.model.logits(hidden)[:, : len(self.words)].float()
        allowed = torch.stack([self._is_word[text[:start][-1:].isspace()] for text, start, _ in spans])
        return logits.log_softmax(-1).masked_fill(~allowed.to(self.device), -torch.inf).cpu()

    def _row(self, span: Span) -> tuple[list[int], int]:
        """Return an input's token ids and the position of its mask; -1 if the window does not contain it."""
        roles, (text, start, end) = special_ids(self.tokenizer), span
        mask = str(self.tokenizer.convert_ids_to_tokens(int(roles["mask"] or 0)))
        masked: Span = (text[:start] + mask + text[end:], start, start + len(mask))
        texts = [masked] if self.way == "masked" else [span, masked]
        cut = [self.reader.cut(one) for one in texts]
        self.counts["contexts_cut"] += any(len(one[0]) < len(given[0]) for one, given in zip(cut, texts, strict=True))
        self.counts["targets_cut"] += any(b - a < end - start for (_, a, b) in cut[:-1])
        ids, place = [int(roles["start"] or 0)], -1
        for number, (one, first, last) in enumerate(cut, 1):
            encoded = self.tokenizer(one, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            tokens = list(encoded["input_ids"])[: self.room]
            if number == len(cut):
                places = [
                    at
                    for at, (token, (a, b)) in enumerate(zip(tokens, encoded["offset_mapping"], strict=False))
                    if token == roles["mask"] and a < last and b > first
                ]
                place = len(ids) + places[0] if places else -1
            ids += [*tokens, int(roles["end"] or 0)]
        return ids, place


@dataclass(frozen=True)
class Judged:
    """A benchmark that predicted words are scored against.

    Args:
        benchmark: Substitutions with human judgements.
        lemmatize: See :func:`~trueneg.evaluation.detectors.candidates.lemmatizer`.
    """

    benchmark: Benchmark
    lemmatize: Lemmatizer

    @cached_property
    def candidates(self) -> Candidates:
        """The substitutes merged by lemma, including phrases."""
        return merge_candidates(self.benchmark.items, self.lemmatize, phrases="keep")

    @cached_property
    def targets(self) -> dict[str, Item]:
        """One item of each target that has candidates."""
        first = {item.target_id: item for item in reversed(self.benchmark.items)}
        return {target: first[target] for target in self.candidates.by_target()}

    @cached_property
    def shares(self) -> dict[str, dict[str, float]]:
        """Target to lemma to the share of annotators that accept it, or the number of annotators that proposed it."""
        candidates = self.candidates
        return {
            target: {candidates.lemmas[at]: float(candidates.gains[at]) for at in numbers.tolist()}
            for target, numbers in candidates.by_target().items()
        }

    @property
    def spans(self) -> list[Span]:
        """The text and position of each target."""
        return [(place.text, place.start, place.end) for place in (item.substitution for item in self.targets.values())]

    def forms(self, vocabulary: Sequence[str]) -> dict[PartOfSpeech | None, dict[str, list[int]]]:
        """Map parts of speech to the lemmas that a vocabulary can write, with the tokens that are forms of each."""
        found: dict[PartOfSpeech | None, dict[str, list[int]]] = {}
        for pos in {item.substitution.pos for item in self.targets.values()}:
            found[pos] = {}
            for token, word in enumerate(vocabulary):
                if word:
                    found[pos].setdefault(self.lemmatize(word, pos), []).append(token)
        return found

    def asked(self, vocabulary: Sequence[str]) -> list[dict[str, list[int]]]:
        """Return for each target the judged lemmas, and the tokens that are forms of them."""
        forms = self.forms(vocabulary)
        return [
            {lemma: tokens for lemma in self.shares[target] if (tokens := forms[item.substitution.pos].get(lemma))}
            for target, item in self.targets.items()
        ]

    def predictions(
        self, written: Sequence[Written], ranked: Sequence[Ranked], vocabulary: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Score the words predicted for ``targets``: one prediction per target, with the columns of the metrics.

        Args:
            written: Words, the best first, ``[targets]``.
            ranked: Lemmas with their scores, ``[targets]``.
            vocabulary: Words that could have been predicted.
        """
        in_reach, found = self.forms(vocabulary), []
        for (target, item), words, scores in zip(self.targets.items(), written, ranked, strict=True):
            place, shares = item.substitution, self.shares[target]
            own = self.lemmatize(place.target, place.pos)
            lemmas = [one for one in dict.fromkeys(self.lemmatize(word, place.pos) for word, _ in words) if one != own]
            lists = {"strict": lemmas, "lenient": [lemma for lemma in lemmas if lemma in shares]}
            assert lists.keys() == set(SUBSTITUTION_LISTS)
            one: dict[str, Any] = {"key": target, "text": place.text, "target": place.target, "written": lemmas}
            for level, is_right in SUBSTITUTION_LEVELS.items():
                right = {lemma for lemma, share in shares.items() if is_right(share)}
                one[f"num_{level}"] = min(len(right), CUTOFF)
                one[f"num_{level}_in_reach"] = min(len(right & in_reach[place.pos].keys()), CUTOFF)
                for way, listed in lists.items():
                    one[f"num_{way}_{level}_10"] = sum(lemma in right for lemma in listed[:CUTOFF])
                    one[f"num_{way}_{level}_1"] = sum(lemma in right for lemma in listed[:1])
            for way, listed in lists.items():
                one[f"num_{way}_10"], one[f"num_{way}_1"] = len(listed[:CUTOFF]), len(listed[:1])
            # Where annotators proposed words, phrases are not ranked: see ``merge_candidates``.
            lemmas_ranked = [lemma for lemma in shares if not (item.is_proposed and is_phrase(lemma))]
            gains = np.array([shares[lemma] for lemma in lemmas_ranked])
            one["has_gain"] = int((gains > 0).any())
            order = np.array([scores.get(lemma, -np.inf) for lemma in lemmas_ranked])
            one["gap"] = generalized_average_precision(gains, order) if one["has_gain"] else 0.0
            found.append(one)
        return found


def ceilings(columns: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Compute the F10 of predicting all right words of the vocabulary, and nothing else."""
    found = {}
    for level in SUBSTITUTION_LEVELS:
        right, possible = columns[f"num_{level}_in_reach"].sum(), columns[f"num_{level}"].sum()
        found[level] = float(2 * right / (right + possible)) if possible else 0.0
    return found


def evaluate_substitution(
    checkpoints: Sequence[str],
    data: str | Path,
    *,
    ways: Sequence[str] = ("masked",),
    num_words: int = 50,
    window: int = 0,
    limit: int = 0,
    wordnet: str = "",
    device: str = "",
    resamples: int = 1000,
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> list[Substitutes]:
    """Predict substitutes for a benchmark's targets with masked LMs, and score them (Lee et al. 2021).

    Args:
        checkpoints: Run folders (of ELECTRA runs, the generators are used), Hugging Face folders or hub names.
        data: A file in SWORDS' JSON, or a folder of them.
        ways: Some of ``WAYS``.
        num_words: Words to predict, before forms are merged and unjudged words dropped.
        window: Maximum input length in tokens; 0 for the model's, up to 512.
        limit: Targets to use, drawn at random; 0 for all.
        wordnet: WordNet's folder, whose base forms are the lemmas; empty to search the usual places.
        device: Device to compute on; by default a GPU if there is one.
        resamples: Bootstrap samples over targets.
        seed: Seed of ``limit`` and the bootstrap.
        progress: Called with the number of targets read and the total.

    Returns:
        Results, by checkpoint and then by way.

    Raises:
        TruenegError: if the data, a checkpoint or the lexicon cannot be used.
    """
    for names in (checkpoints, ways):
        if twice := [name for name in names if [*names].count(name) > 1]:
            raise ConfigError(f"'{twice[0]}' is named twice: once is enough")
    read = read_benchmark(data)
    judged = Judged(read.sample(limit, seed) if limit else read, lemmatizer(WordNet.load(wordnet or None)))
    split = "+".join(name.removesuffix(".gz").removesuffix(".json") for name in read.digests)
    found = []
    for checkpoint in checkpoints:
        for way in ways:
            started = time.monotonic()
            writer = SubstituteWriter(checkpoint, way, window, device)
            written, ranked = writer.write(judged.spans, num_words, judged.asked(writer.words), progress)
            predictions = judged.predictions(written, ranked, writer.words)
            columns = columns_of(predictions)
            run = run_config(checkpoint)
            result = Result(
                task=TASK,
                split=split if way == "masked" else f"{split}-{way}",
                seed=run.train.seed if run else 0,
                metrics={name: METRICS[name](columns) for name in FIGURES},
                num_examples=len(predictions),
                model=checkpoint,
                selection="as it is",
                step=_step(Path(checkpoint)) if run else 0,
                counts={**writer.counts, **_reach(judged, writer.words)},
                seconds=time.monotonic() - started,
                config={
                    "substitution": {"target": way, "words": num_words, "window": writer.window, "limit": limit},
                    "data": dict(read.digests),
                },
                data=fingerprint_of([*read.digests.values(), limit, seed if limit else 0]),
                versions=versions(),
            )
            found.append(Substitutes(result, predictions, _intervals(columns, resamples, seed), ceilings(columns)))
    return found


def _step(run: Path) -> int:
    """Read how many steps a run's model was trained for from its metrics file."""
    return max((int(record["step"]) for record in read_metrics(run / METRICS_FILE)), default=0)


def _reach(judged: Judged, vocabulary: Sequence[str]) -> dict[str, int]:
    """Count acceptable substitutes: all, phrases, and those of which no single token is a form."""
    lemmas = judged.forms(vocabulary)
    right = [
        (lemma, judged.targets[target].substitution.pos)
        for target, shares in judged.shares.items()
        for lemma, share in shares.items()
        if SUBSTITUTION_LEVELS["acceptable"](share)
    ]
    return {
        "acceptable": len(right),
        "acceptable_phrases": sum(" " in lemma for lemma, _ in right),
        "acceptable_out_of_reach": sum(lemma not in lemmas[pos] for lemma, pos in right),
    }


def _intervals(columns: Mapping[str, NDArray[Any]], resamples: int, seed: int) -> dict[str, Interval]:
    num = len(columns["num_strict_10"])
    found = {}
    for name in FIGURES:
        bounds = (float("nan"), float("nan"))
        if num > 1:
            bounds = percentiles(Bootstrap(range(num), resamples, seed).measure(METRICS[name], [columns])[:, 0])
        found[name] = Interval(METRICS[name](columns), *bounds, num)
    return found


def folders_of(checkpoints: Sequence[str], out: Path | None) -> dict[str, Path | None]:
    """Return the folder of each checkpoint's results: ``out``, or below it if there are several; else the run's own."""
    if out is None:
        return {one: Path(one) if run_config(one) else None for one in checkpoints}
    names = [name.replace("/", "-") for name in distinct_names(checkpoints)]
    return {one: out / name if len(names) > 1 else out for one, name in zip(checkpoints, names, strict=True)}
