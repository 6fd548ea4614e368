"""Speed as ratios: the arms take turns within one run, so that a machine's moods fall on all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset as find_preset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from trueneg.corpus.store import Corpus


@dataclass(frozen=True)
class Arm:
    """One way of taking the step."""

    name: str
    milliseconds: float
    """Median of a step."""
    tokens_per_second: float
    ratio: float
    """Median over rounds of this arm's time by the first arm's, in the same round."""
    ratio_low: float
    ratio_high: float
    """Quartiles of that ratio."""


@dataclass(frozen=True)
class Benchmark:
    """What was measured, and on what."""

    what: str
    preset: str
    device: str
    threads: int
    rounds: int
    tokens_per_step: int
    arms: list[Arm]


def take_turns(arms: dict[str, Callable[[], None]], rounds: int, tokens: int, device: torch.device) -> list[Arm]:
    """Time functions in turn, in an order that changes from round to round; the first arm is the yardstick.

    Args:
        arms: Name to function.
        rounds: Turns each takes, after one that does not count.
        tokens: Tokens that a call handles.
        device: Waited for before each reading of the clock.
    """
    # One thread's processor time is not disturbed by other programs; of several, their waiting counts as work.
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if is_alone else time.perf_counter
    names = list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            _wait(device)
            started = clock()
            arms[name]()
            _wait(device)
            if round_number:
                seconds[name].append(clock() - started)
    base = np.array(seconds[names[0]])
    results = []
    for name in names:
        times = np.array(seconds[name])
        low, middle, high = np.quantile(times / base, [0.25, 0.5, 0.75])
        median = float(np.median(times))
        results.append(Arm(name, 1000 * median, tokens / median, float(middle), float(low), float(high)))
    return results


def bench_overhead(
    *,
    preset: str = "electra-mini",
    corpus: Path | None = None,
    rounds: int = 20,
    detectors: Sequence[str] = (),
    settings: Sequence[str] = (),
    say: Callable[[str], None] = lambda message: None,
) -> Benchmark:
    """What hard correction and soft regularization add to a training step.

    The arms train one model each, from equal weights on equal rows. Held to: at most 1 % for hard correction, by
    table or by annotations of the corpus (here of the same table, written for all of it), and for token-level
    regularization (the paper reports 2 % and 1 %).

    Args:
        preset: Model and batch.
        corpus: Rows to train on; without one, WordNet's definitions serve, in a vocabulary of 8,192.
        rounds: Turns each arm takes.
        detectors: Hard correction with each of these is an arm besides.
        settings: Changes to the preset.
        say: Told what is going on.
    """
    override(find_preset(preset), settings)  # a typo is told before minutes of work
    with TemporaryDirectory() as scratch:
        from trueneg.corpus.glosses import build_gloss_corpus

        if corpus is None:
            say("making a corpus of WordNet's definitions")
        # Long documents: the rows of a benchmark should be full.
        folder = corpus or build_gloss_corpus(Path(scratch), vocab_size=8192, synsets_a_document=5000)
        return _overhead(preset, folder, Path(scratch), rounds, detectors, settings, say)


def _overhead(
    preset: str,
    corpus: Path,
    scratch: Path,
    rounds: int,
    detectors: Sequence[str],
    settings: Sequence[str],
    say: Callable[[str], None],
) -> Benchmark:
    from trueneg.corpus.store import Corpus
    from trueneg.runs.pretraining import build
    from trueneg.training.batches import CorpusBatches, row_index
    from trueneg.training.distributed import Processes, choose_device
    from trueneg.training.step import Run, train_step

    base = override(find_preset(preset), [f"corpus.path={corpus}", *settings])
    variants = {
        "baseline": (),
        "hard correction": ("objective.correction.detector=lexical",),
        "hard correction (sidecar)": (f"objective.correction.detector=annotated:{scratch / 'annotations'}",),
        "soft regularization (token)": ("objective.regularization.level=token",),
        "both": ("objective.correction.detector=lexical", "objective.regularization.level=token"),
        "soft regularization (sentence)": ("objective.regularization.level=sentence",),
        **{f"hard correction ({d})": (f"objective.correction.detector={d}",) for d in detectors},
    }
    opened = Corpus.open(corpus)
    tokenizer = opened.load_tokenizer()
    device = choose_device(base.train.device)
    say("annotating the corpus")
    _annotate(opened, tokenizer, base, scratch / "annotations")

    def arm(config: PretrainConfig) -> Callable[[], None]:
        order = CorpusBatches(row_index(config, opened), config.train, Processes())
        batches = [order.micro_batches(step) for step in range(4)]
        model, objective = build(config, tokenizer)
        run = Run.new(model, objective, config.optimizer, config.train, device)

        def step() -> None:
            train_step(run, batches[run.step % len(batches)])

        return step

    say(f"{len(variants)} arms, {rounds} rounds, {torch.get_num_threads()} threads")
    arms = {name: arm(override(base, extra)) for name, extra in variants.items()}
    tokens = base.train.batch_size * base.corpus.length
    results = take_turns(arms, rounds, tokens, device)
    return Benchmark("overhead", preset, device.type, torch.get_num_threads(), rounds, tokens, results)


BENCHMARKS = {"overhead": bench_overhead}


def _annotate(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, config: PretrainConfig, out: Path) -> None:
    """Write down what the lookup table lists in the place of every token."""
    from trueneg.corpus.annotate import write_annotations
    from trueneg.detectors.annotator import DetectorAnnotator
    from trueneg.detectors.table import TableDetector
    from trueneg.lexicon.table import cached_table

    correction = config.objective.correction
    table = TableDetector(cached_table(tokenizer, wordnet=correction.wordnet or None, forms=correction.forms))
    annotator = DetectorAnnotator(table, "lexical")
    write_annotations(corpus.path, annotator, out, splits=[corpus.split], most=table.max_substitutes)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
