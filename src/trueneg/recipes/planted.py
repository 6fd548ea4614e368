"""The planted experiment: how to use false negatives, measured where all of them are known.

In a real corpus, frequent words are split at random into interchangeable spellings. Predicting another spelling than
gold's is then a false negative, and the only kind. Small models are trained with each way of using a detector, with any
precision and recall, and evaluated by the probability of the right *class* of spellings on held-out text.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from trueneg.config.codec import encode, override
from trueneg.corpus.glosses import build_gloss_corpus
from trueneg.corpus.store import CorpusInfo
from trueneg.errors import ConfigError, Interrupted, LostProcessError, unknown_name
from trueneg.evaluation.statistics.intervals import t_interval
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.whole import write_json
from trueneg.recipes.folder import claim_folder
from trueneg.recipes.planted_arms import ARMS, ELECTRA, MASKED_LM, Arm, ArmResult, PlantedConfig, run_arm
from trueneg.recipes.scripts import ScriptedJob
from trueneg.reporting.planted import LEGEND, PLANTED, PlantedArm, PlantedResults, about, planted_tables
from trueneg.version import __version__
from trueneg.workers import follow_parent

SCALES = {
    "mini": PlantedConfig(),
    "tiny": PlantedConfig(
        num_words=100,
        length=16,
        hidden_size=32,
        num_heads=2,
        intermediate_size=64,
        steps=30,
        warmup_steps=5,
        eval_rows=512,
    ),
}
"""``mini``: 1,200 steps of a 2-layer model of width 128, about a minute a run on a free core. ``tiny``: seconds, to
check that it runs; its numbers mean nothing."""

_MINUTES = {"mini": 2.0, "tiny": 0.1}

GRID = [
    f"{use}@{precision}/{recall}"
    for use in ("drop", "marginal", "soft_targets")
    for precision in (0.25, 0.5, 0.75, 0.9, 1.0)
    for recall in (0.25, 0.5, 1.0)
]
GROUPS = {"all": list(ARMS), "mlm": list(MASKED_LM), "rtd": list(ELECTRA), "grid": GRID}
"""Names for several arms; ``grid`` sweeps the detector's precision and recall."""

RUNS, RESULTS, TABLE = "runs", PLANTED, "table.md"
VOCAB_SIZE = 2048
"""Vocabulary size of the tokenizer trained on WordNet's text: enough for such a small model and so few steps."""


def reproduce(
    out: str | Path,
    *,
    scale: str = "mini",
    arms: Sequence[str] = ("all",),
    seeds: int = 5,
    corpus: str | Path | None = None,
    wordnet: str = "",
    workers: int = 1,
    settings: Sequence[str] = (),
    say: Callable[[str], None] = lambda message: None,
) -> tuple[dict[str, Any], str]:
    """Run the planted experiment, or the missing part of it.

    Each run (an arm and a seed) is saved when it is done, and not repeated. Results do not depend on ``workers``.

    Args:
        out: Folder of the results; arms and seeds can be added later.
        scale: ``tiny`` or ``mini``.
        arms: Names from ``ARMS`` or ``GROUPS``, or ``use@precision/recall``.
        seeds: Runs of each arm, with seeds 1, 2, …
        corpus: A corpus with held-out text; by default, one is built from WordNet's text in ``out``.
        wordnet: WordNet's folder; empty to search the usual places.
        workers: Number of processes, with one thread each.
        settings: Changes to the scale's configuration, as ``key=value``.
        say: Called with a line of progress.

    Returns:
        Content of ``results.json``, and of ``table.md``.

    Raises:
        ConfigError: for unknown names, or a folder with results of other settings.
        Interrupted: after Ctrl-C; finished runs are kept.
    """
    if workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    config, jobs, folder = _configured(scale, settings), _jobs(arms, seeds), Path(out)
    with locked(folder, "reproduce planted"):
        path, described = _prepared(folder, config, corpus, wordnet)
        done = {(Arm.parse(result.arm), result.seed) for result in load_results(folder)}
        missing = [job for job in jobs if job not in done]
        say(f"{len(jobs)} runs, {len(jobs) - len(missing)} of them done before")
        try:
            for number, result in enumerate(_run_all(missing, folder, config, path, workers), start=1):
                shown = ", ".join(f"{name} {value:.3f}" for name, value in result.metrics.items())
                say(f"{number} of {len(missing)}: {result.arm}, seed {result.seed}: {shown} ({result.seconds:.0f} s)")
        except KeyboardInterrupt:
            raise Interrupted(f"finished runs are kept in '{folder}': run the same command again to continue") from None
        summary = summarise(described, load_results(folder))
        results, table = dataclasses.asdict(summary), markdown(summary)
        write_json(folder / RESULTS, results)
        (folder / TABLE).write_text(table, encoding="utf-8")
        return results, table


def reproduce_seed(
    out: str | Path,
    seed: int,
    *,
    scale: str = "mini",
    arms: Sequence[str] = ("all",),
    corpus: str | Path | None = None,
    wordnet: str = "",
    settings: Sequence[str] = (),
) -> list[ArmResult]:
    """Run one seed of some arms, or the missing part of it, while other processes do other runs of the same folder.

    Args:
        out: Folder of the results; all arguments but ``seed`` are as for ``reproduce``.
        seed: The seed.
        scale: Name of the scale.
        arms: Names of arms.
        corpus: A corpus with held-out text.
        wordnet: WordNet's folder.
        settings: Changes to the scale's configuration.

    Raises:
        ConfigError: for unknown names, or a folder with results of other settings.
        BusyError: if another process is doing the same run, or building the corpus.
    """
    if seed < 1:
        raise ConfigError(f"seed must be at least 1, got {seed}")
    config, folder = _configured(scale, settings), Path(out)
    path, _ = _prepared(folder, config, corpus, wordnet)
    found = []
    for arm in parse_arms(arms):
        file = run_file(folder, arm, seed)
        with locked(file.parent, f"reproduce planted --seed {seed}", f".{file.name}.lock"):
            found.append(load_result(file) if file.is_file() else _run(arm, seed, folder, config, path))
    return found


def _prepared(folder: Path, config: PlantedConfig, corpus: str | Path | None, wordnet: str) -> tuple[Path, Settings]:
    """Prepare what all runs need: the corpus, and the folder's settings."""
    path = Path(corpus or build_gloss_corpus(folder / "wordnet", vocab_size=VOCAB_SIZE, wordnet=wordnet, valid=0.05))
    settings = Settings(config, CorpusInfo.read(path).fingerprint)
    claim_folder(folder, settings)
    (folder / RUNS).mkdir(exist_ok=True)
    return path, settings


@dataclass(frozen=True)
class PlannedRun:
    """A run of the plan, done or not."""

    arm: str
    seed: int
    is_done: bool
    minutes: float
    """Mean time of the finished runs; without any, the usual time of a run at this scale."""


def plan(
    out: str | Path,
    *,
    scale: str = "mini",
    arms: Sequence[str] = ("all",),
    seeds: int = 5,
    settings: Sequence[str] = (),
) -> list[PlannedRun]:
    """List the runs of the experiment in a folder, without running any.

    Args:
        out: Folder of the results.
        scale: Name of the scale; all arguments are as for ``reproduce``.
        arms: Names of arms.
        seeds: Runs of each arm.
        settings: Changes to the scale's configuration.

    Raises:
        ConfigError: for unknown names, or a damaged result.
    """
    _configured(scale, settings)
    results = {(Arm.parse(result.arm), result.seed): result.seconds / 60 for result in load_results(Path(out))}
    usual = round(fmean(results.values()), 1) if results else _MINUTES[scale]
    return [PlannedRun(str(job[0]), job[1], job in results, usual) for job in _jobs(arms, seeds)]


def scripted(
    out: str | Path,
    *,
    scale: str = "mini",
    arms: Sequence[str] = ("all",),
    seeds: int = 5,
    corpus: str | Path | None = None,
    wordnet: str = "",
    settings: Sequence[str] = (),
) -> list[ScriptedJob]:
    """List the remaining runs as jobs of a script; all others depend on the first, which builds the corpus.

    Args:
        out: Folder of the results; all arguments are as for ``reproduce``.
        scale: Name of the scale.
        arms: Names of arms.
        seeds: Runs of each arm.
        corpus: A corpus with held-out text.
        wordnet: WordNet's folder.
        settings: Changes to the scale's configuration.

    Raises:
        ConfigError: as ``plan``.
    """
    left = [run for run in plan(out, scale=scale, arms=arms, seeds=seeds, settings=settings) if not run.is_done]
    given = {"--out": out, "--scale": scale, "--corpus": corpus, "--wordnet": wordnet}
    options = [str(word) for option, value in given.items() if value for word in (option, value)]
    options += [word for setting in settings for word in ("--set", setting)]
    jobs: list[ScriptedJob] = []
    for run in left:
        command = ["trueneg", "reproduce", "planted", *options, "--arms", run.arm, "--seed", str(run.seed)]
        first = [job.name for job in jobs[:1]]
        jobs.append(ScriptedJob(f"{run.arm}-s{run.seed}", shlex.join(command), first))
    return jobs


def _configured(scale: str, settings: Sequence[str]) -> PlantedConfig:
    if scale not in SCALES:
        raise ConfigError(unknown_name("scale", scale, SCALES))
    return override(SCALES[scale], settings)


def _jobs(arms: Sequence[str], seeds: int) -> list[tuple[Arm, int]]:
    """List runs seed by seed, so that what is finished at any time can be compared."""
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, got {seeds}")
    chosen = parse_arms(arms)
    return [(arm, seed) for seed in range(1, seeds + 1) for arm in chosen]


def parse_arms(names: Iterable[str]) -> list[Arm]:
    """Parse names of arms and groups; each arm once, in the given order.

    Example:
        >>> [str(arm) for arm in parse_arms(["baseline", "marginal@0.5/1", "baseline"])]
        ['baseline', 'marginal@0.5/1']
    """
    written = [arm for name in names for arm in GROUPS.get(name, [name])]
    return list(dict.fromkeys(Arm.parse(arm) for arm in written))


def _run_all(
    jobs: Sequence[tuple[Arm, int]], folder: Path, config: PlantedConfig, corpus: Path, workers: int
) -> Iterator[ArmResult]:
    """Yield results as runs finish."""
    if workers == 1:
        yield from (_run(arm, seed, folder, config, corpus) for arm, seed in jobs)
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=follow_parent)
    try:
        for future in as_completed([pool.submit(_run, arm, seed, folder, config, corpus) for arm, seed in jobs]):
            yield future.result()
    except BrokenProcessPool as error:
        raise LostProcessError(
            "a process of --workers died, likely for lack of memory: run the same again with fewer workers"
        ) from error
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()  # otherwise, an interruption would wait for the current runs
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _run(arm: Arm, seed: int, folder: Path, config: PlantedConfig, corpus: Path) -> ArmResult:
    """Do one run and save its result in the same process, so that no interruption loses it."""
    result = run_arm(arm, seed, config, corpus)
    write_json(run_file(folder, arm, seed), dataclasses.asdict(result))
    return result


@dataclass(frozen=True)
class Settings:
    """Settings of a folder of results."""

    config: PlantedConfig
    corpus_fingerprint: str


def run_file(folder: Path, arm: Arm, seed: int) -> Path:
    """Return the path of a run's result."""
    return folder / RUNS / f"{str(arm).replace('/', '-')}.seed{seed}.json"


def load_results(folder: Path) -> list[ArmResult]:
    """Read the results of all runs in a folder.

    Raises:
        ConfigError: for a file that is not a result.
    """
    return [load_result(path) for path in sorted((folder / RUNS).glob("*.json"))]


def load_result(path: Path) -> ArmResult:
    """Read the result of a run.

    Raises:
        ConfigError: for a file that is not a result.
    """
    return read_record(ArmResult, path, ConfigError, "delete it to have the run done again")


def summarise(settings: Settings, results: Sequence[ArmResult]) -> PlantedResults:
    """Summarise runs: values, means, and paired differences to each arm's baseline."""
    by_arm: dict[Arm, dict[int, ArmResult]] = {}
    for result in results:
        by_arm.setdefault(Arm.parse(result.arm), {})[result.seed] = result
    rank = {use: number for number, use in enumerate(ARMS)}
    ordered = sorted(by_arm, key=lambda arm: (rank[arm.use], -arm.precision, -arm.recall))
    return PlantedResults(
        recipe="planted",
        versions={"trueneg": __version__} | {name: version(name) for name in ("torch", "transformers")},
        settings=encode(settings),
        planted_share=results[0].planted_share if results else None,
        arms=[_summary(arm, by_arm[arm], by_arm.get(arm.yardstick, {})) for arm in ordered],
    )


def markdown(results: PlantedResults) -> str:
    """Write the results as Markdown: a table of masked language models, and one of discriminators."""
    return "\n".join([about(results), f"{LEGEND}\n", *(table.markdown() for table in planted_tables(results))])


def _summary(arm: Arm, runs: dict[int, ArmResult], yardstick: dict[int, ArmResult]) -> PlantedArm:
    paired = sorted(runs.keys() & yardstick.keys()) if arm != arm.yardstick else []
    measured = [run.metrics for run in [*runs.values(), *(yardstick[seed] for seed in paired)]]
    metrics = [name for name in measured[0] if all(name in values for values in measured)]
    readings = sorted({name for run in runs.values() for name in run.detector})
    differences = {
        name: t_interval([runs[seed].metrics[name] - yardstick[seed].metrics[name] for seed in paired])
        for name in metrics
        if len(paired) > 1
    }
    return PlantedArm(
        arm=str(arm),
        what=ARMS[arm.use],
        is_electra=arm.is_electra,
        precision=arm.precision,
        recall=arm.recall,
        seeds={str(seed): runs[seed].metrics for seed in sorted(runs)},
        mean={name: _mean(run.metrics[name] for run in runs.values()) for name in metrics},
        yardstick=str(arm.yardstick),
        difference=differences,
        detector={
            name: _mean(run.detector[name] for run in runs.values() if name in run.detector) for name in readings
        },
        seconds=sum(run.seconds for run in runs.values()),
    )


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
