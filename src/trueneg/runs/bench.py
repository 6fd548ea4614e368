"""Speed as ratios: variants take turns within one run, so that fluctuations of the machine affect all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch

from trueneg.arithmetic import clock_of, matrix_rate
from trueneg.config.codec import override
from trueneg.config.costs import num_readings
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset as find_preset
from trueneg.config.stages import stages_of
from trueneg.errors import ConfigError, TruenegError, unknown_name
from trueneg.hardware import name_of, peak_memory, synchronize
from trueneg.runs.bottleneck import WORTH, Bottleneck, Measured, bottlenecks
from trueneg.training.precision import resolve_precision
from trueneg.training.speed import peak_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from trueneg.corpus.store import Corpus


@dataclass(frozen=True)
class Arm:
    """One variant of the step."""

    name: str
    milliseconds: float
    """Median time of a step."""
    tokens_per_second: float
    ratio: float
    """Median over rounds of this arm's time divided by the first arm's in the same round."""
    ratio_low: float
    ratio_high: float
    """Quartiles of that ratio."""


@dataclass(frozen=True)
class Benchmark:
    """Measurements, and the machine that they were made on."""

    what: str
    preset: str
    device: str
    threads: int
    rounds: int
    tokens_per_step: int
    arms: list[Arm]


def take_turns(
    arms: dict[str, Callable[[], None]],
    rounds: int,
    tokens: int,
    device: torch.device,
    most_seconds: float = float("inf"),
) -> list[Arm]:
    """Time functions in turn, in an order that changes from round to round; the first arm is the baseline.

    Args:
        arms: Functions by name.
        rounds: Timed calls of each function, after one untimed call.
        tokens: Tokens processed by a call.
        device: Device to synchronize before each reading of the clock.
        most_seconds: No round begins after this time, except the first timed one.
    """
    began = time.monotonic()
    clock = clock_of(device)
    names = list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        if round_number > 1 and time.monotonic() - began > most_seconds:
            break
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            synchronize(device)
            started = clock()
            arms[name]()
            synchronize(device)
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
    stage: str = "",
    say: Callable[[str], None] = lambda message: None,
) -> Benchmark:
    """Measure what hard correction and soft regularization add to a training step.

    Each arm trains its own model, from equal weights on equal rows. The targets are at most 1 % for hard correction, by
    table or by annotations of the corpus (here of the same table), and for token-level regularization (the paper
    reports 2 % and 1 %).

    Args:
        preset: Model and batch.
        corpus: Rows to train on; by default WordNet's definitions, with a vocabulary of 8,192.
        rounds: Timed steps of each arm.
        detectors: Each adds an arm with hard correction by this detector.
        settings: Changes to the preset.
        stage: Name of one of the preset's stages; the first by default.
        say: Called with progress messages.
    """
    base = of_stage(override(find_preset(preset), settings), stage, say)  # reports a typo before minutes of work
    with TemporaryDirectory() as scratch:
        from trueneg.corpus.glosses import build_gloss_corpus

        if corpus is None:
            say("making a corpus of WordNet's definitions")
        # Long documents, so that rows are full.
        folder = corpus or build_gloss_corpus(Path(scratch), vocab_size=8192, synsets_per_document=5000)
        return _overhead(base, folder, Path(scratch), rounds, detectors, say)


def _overhead(
    base: PretrainConfig,
    corpus: Path,
    scratch: Path,
    rounds: int,
    detectors: Sequence[str],
    say: Callable[[str], None],
) -> Benchmark:
    from trueneg.corpus.store import Corpus
    from trueneg.runs.building import build
    from trueneg.training.batches import CorpusBatches, row_index
    from trueneg.training.distributed import Processes, choose_device
    from trueneg.training.step import Run, train_step

    base = override(base, [f"corpus.path={corpus}"])
    variants = {
        "baseline": (),
        "hard correction": ("objective.correction.detector=lexical",),
        "hard correction (sidecar)": (f'objective.correction.detector=annotated:"{scratch / "annotations"}"',),
        "soft regularization (token)": ("objective.regularization.level=token",),
        "both": ("objective.correction.detector=lexical", "objective.regularization.level=token"),
        "soft regularization (sentence)": ("objective.regularization.level=sentence",),
        **{f"hard correction ({d})": (f"objective.correction.detector={d}",) for d in detectors},
    }
    opened = Corpus.open(corpus)
    tokenizer = opened.load_tokenizer()
    device = choose_device(base.train.device)
    say(f"annotating the corpus's {opened.num_tokens:,} tokens: a small corpus will do")
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
    return Benchmark("overhead", base.preset, device.type, torch.get_num_threads(), rounds, tokens, results)


@dataclass(frozen=True)
class StepBenchmark:
    """Times of a step's parts, options that were tried, and bottlenecks."""

    what: str
    preset: str
    rounds: int
    measured: Measured
    arms: list[Arm]
    """The step as configured, and with options that may help, timed in turn."""
    bottlenecks: list[Bottleneck]
    """Sorted by possible gain, the largest first."""


MOST_SECONDS = 60.0
"""Time limit of the arms that are timed in turn, not counting their first round."""


def bench_step(
    *,
    preset: str = "electra-mini",
    corpus: Path | None = None,
    rounds: int = 20,
    settings: Sequence[str] = (),
    stage: str = "",
    say: Callable[[str], None] = lambda message: None,
) -> StepBenchmark:
    """Measure a training step on this machine, part by part, and find its bottlenecks.

    It times the step with its data ready, a step of a single row, reading alone, and large matrix products;
    options that may help (``--pack``, the other precision, on a GPU ``train.compile``) are tried.

    Args:
        preset: Model and batch.
        corpus: Rows to train on; by default WordNet's definitions, with a vocabulary of 8,192.
        rounds: Timed steps of each arm; fewer if they take more than a minute.
        settings: Changes to the preset.
        stage: Name of one of the preset's stages; the first by default.
        say: Called with progress messages.

    Example::

        print(bench_step(corpus=Path("corpus")).bottlenecks[0])
    """
    config = of_stage(override(find_preset(preset), settings), stage, say)
    with TemporaryDirectory() as scratch:
        from trueneg.corpus.glosses import build_gloss_corpus

        if corpus is None:
            say("making a corpus of WordNet's definitions")
        folder = corpus or build_gloss_corpus(Path(scratch), vocab_size=8192, synsets_per_document=5000)
        return _measure_step(override(config, [f"corpus.path={folder}"]), rounds, say)


def of_stage(config: PretrainConfig, name: str, say: Callable[[str], None]) -> PretrainConfig:
    """Choose the stage of a run that is measured, by default the first, with full batches from the first step.

    Raises:
        ConfigError: for an unknown name, a name if there are no stages, or a mixture.
    """
    stages = {stage.name: stage for stage in stages_of(config)}
    if name and not config.stages:
        raise ConfigError(f"--stage {name}: preset '{config.preset}' has no stages: leave it out")
    if name and name not in stages:
        raise ConfigError(unknown_name("stage", name, stages))
    stage = stages[name] if name else next(iter(stages.values()))
    if stage.name:
        say(f"measuring stage '{stage.name}' of {', '.join(stages)}")
    config = override(replace(stage.config, stages=()), ["train.batch_warmup_steps=0"])
    if config.corpus.mixture:
        raise ConfigError("corpus.mixture: a step is measured on one corpus, where it takes as long: name --corpus")
    return config


def _measure_step(config: PretrainConfig, rounds: int, say: Callable[[str], None]) -> StepBenchmark:
    from trueneg.corpus.store import Corpus
    from trueneg.runs.automatic import resolve_packing
    from trueneg.runs.doctor import usable_cores
    from trueneg.training.batches import row_index
    from trueneg.training.distributed import choose_device

    device = choose_device(config.train.device)
    config = replace(config, train=resolve_precision(config.train, device))
    opened = Corpus.open(config.corpus.path)
    fills = {
        packs: row_index(override(config, [f"corpus.pack={packs}"]), opened).mean_fill for packs in ("true", "false")
    }
    config, packing = resolve_packing(config, row_index(config, opened), device)
    if packing:
        say(packing)
    fill = fills["true" if config.corpus.is_packed else "false"]
    say("taking a step apart")
    arm = _StepArm(config, opened, device)
    step, one_row, read = arm.time(rounds), _StepArm(_of_one_row(config), opened, device).time(rounds), arm.read_time()
    tried = {"as it is": arm}
    for option, setting in _worth_trying(config, fills, device):
        try:
            tried[option] = _StepArm(override(config, [setting]), opened, device)
        except TruenegError as error:
            say(f"{option} was not tried: {error}")
    say(f"{', '.join(tried)}: {rounds} rounds, {torch.get_num_threads()} threads")
    # The order of timing changes from round to round; the number of useful tokens differs between arms.
    arms = [
        replace(one, tokens_per_second=1000 * tried[one.name].tokens / one.milliseconds)
        for one in take_turns({name: made.step for name, made in tried.items()}, rounds, 1, device, MOST_SECONDS)
    ]
    used, limit = peak_memory(device)
    peak = peak_of(device, config.train.precision)
    measured = Measured(
        device=name_of(device),
        threads=torch.get_num_threads(),
        cores=usable_cores(),
        precision=config.train.precision,
        rows=arm.micro_batch,
        accumulation=config.train.accumulation,
        positions=arm.positions,
        flops=arm.flops,
        step=step,
        one_row=one_row,
        read=read,
        host=arm.host_time() if device.type != "cpu" else None,
        matrix_rate={
            precision: matrix_rate(device, precision)
            for precision in dict.fromkeys(("fp32", "bf16", config.train.precision))
        },
        peak=0.0 if device.type == "cpu" else peak.flops,
        fill=fill,
        packed_fill=fills["true"],
        memory=used,
        memory_limit=limit,
        is_compiled=arm.is_compiled,
        tried={one.name: tried[one.name].tokens / arm.tokens / one.ratio for one in arms[1:]},
    )
    return StepBenchmark("step", config.preset, rounds, measured, arms, bottlenecks(measured))


def _worth_trying(
    config: PretrainConfig, fills: Mapping[str, float], device: torch.device
) -> Iterator[tuple[str, str]]:
    """Options that may make a step faster, as written on the command line, and as settings."""
    if not config.corpus.is_packed and fills["true"] > WORTH * fills["false"]:
        yield "--pack", "corpus.pack=true"
    other = "bf16" if config.train.precision == "fp32" else "fp32"
    if device.type == "cpu" or other == "bf16":
        yield f"--precision {other}", f"train.precision={other}"
    if device.type == "cuda" and not config.train.compile:
        yield "train.compile=true", "train.compile=true"


def _of_one_row(config: PretrainConfig) -> PretrainConfig:
    """The same number of micro-batches, of one row each."""
    return override(config, [f"train.batch_size={config.train.accumulation}"])


class _StepArm:
    """A model with its batches, whose steps are timed."""

    def __init__(self, config: PretrainConfig, corpus: Corpus, device: torch.device) -> None:
        from trueneg.models.flops import training_flops
        from trueneg.objectives import objective_kind
        from trueneg.runs.automatic import resolve_attention
        from trueneg.runs.building import build, reader_of
        from trueneg.training.batches import CorpusBatches, row_index
        from trueneg.training.distributed import Processes
        from trueneg.training.step import Run

        tokenizer, rows = corpus.load_tokenizer(), row_index(config, corpus)
        model, objective = build(config, tokenizer)
        resolve_attention(config, rows, device, objective_kind(config.objective.name).encoders(model))
        self._batches = CorpusBatches(rows, config.train, Processes(), reader_of(config, rows, tokenizer))
        self._given = [self._batches.micro_batches(number) for number in range(4)]
        self._run = Run.new(model, objective, config.optimizer, config.train, device)
        self._device = device
        self.is_compiled = self._run.is_compiled
        self.micro_batch, self.tokens = self._batches.micro_batch, self._batches.tokens_per_step
        self.positions = int(self._batches.positions_per_step)
        encoders = objective_kind(config.objective.name).encoders(model)
        masked, readings = config.objective.masking.rate, num_readings(config)
        self.flops = self.positions * training_flops(encoders, config.corpus.length, masked, readings)

    def step(self) -> None:
        from trueneg.training.step import train_step

        train_step(self._run, self._given[self._run.step % len(self._given)])

    def time(self, rounds: int) -> float:
        """Milliseconds of a step with its data ready, including device synchronization."""
        (arm,) = take_turns({"": self.step}, rounds, 1, self._device, MOST_SECONDS)
        return arm.milliseconds

    def read_time(self, num: int = 5) -> float:
        """Milliseconds that one thread takes to read a step's rows."""
        cpu = torch.device("cpu")
        numbers = iter(range(len(self._given), len(self._given) + num + 1))
        (arm,) = take_turns({"": lambda: _forget(self._batches.micro_batches(next(numbers)))}, num, 1, cpu)
        return arm.milliseconds

    def host_time(self, num: int = 5) -> float:
        """Milliseconds that the host takes to launch a step on an idle device."""
        times = []
        for _ in range(num):
            synchronize(self._device)
            started = time.perf_counter()
            self.step()
            times.append(1000 * (time.perf_counter() - started))
        return float(np.median(times))


def _forget(_: object) -> None:
    """Discard a result."""


BENCHMARKS = ("step", "overhead")


def _annotate(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, config: PretrainConfig, out: Path) -> None:
    """Write the lookup table's substitutes for every token as annotations of the corpus."""
    from trueneg.corpus.annotate import write_annotations
    from trueneg.detectors.annotator import DetectorAnnotator
    from trueneg.detectors.table import TableDetector
    from trueneg.lexicon.table import cached_table

    correction = config.objective.correction
    table = TableDetector(cached_table(tokenizer, wordnet=correction.wordnet or None, forms=correction.forms))
    annotator = DetectorAnnotator(table, "lexical")
    write_annotations(corpus.path, annotator, out, splits=[corpus.split], most=table.max_substitutes)
