"""What the tests of training share: tiny configurations, how their results are compared, runs in other processes."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forks import FORKS
from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.objective_options import CorrectionConfig, RegularizationConfig
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset
from trueneg.corruption.rows import Rows
from trueneg.objectives import with_objective
from trueneg.runs.finetuning import finetune
from trueneg.runs.pretraining import pretrain
from trueneg.training import loop, precision
from trueneg.training.log import read_metrics
from trueneg.training.step import Run

MakeConfig = Callable[..., PretrainConfig]
"""``make_config`` over the tiny corpus: a kind and settings to a configuration."""

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"

TIMES = {"seconds", "tokens_per_second", "positions_per_second", "mfu", "data_wait", "seconds_left"}
"""Readings of the clock."""

SETTLED = ("corpus.pack=false", "model.attention=sdpa", "train.compile=false")
"""What ``auto`` comes to on a CPU, and what a run's configuration keeps of it."""

SENTENCES = (
    "the {big} {beast} will {stay} near the {old} {town} .",
    "we {quickly} {see} a {big} {film} about the {town} .",
    "a {happy} {beast} can {quickly} {see} the {main} road .",
    "the {main} {film} made the {beast} {happy} .",
    "they {stay} in the {old} {town} and {see} a {film} .",
)
WORDS = {
    "big": ["large", "big", "small", "little"],
    "beast": ["animal", "beast", "mouse"],
    "stay": ["stay", "remain", "rest"],
    "old": ["old", "grey", "quiet"],
    "town": ["city", "metropolis", "harbour"],
    "quickly": ["quickly", "rapidly", "slowly"],
    "see": ["see", "notice", "cut"],
    "film": ["movie", "film", "picture"],
    "happy": ["happy", "glad", "cheerful"],
    "main": ["primary", "main", "chief"],
}
"""Each line's words but ``old`` and some of the last are synonyms in the hand-made WordNet."""

ENTRIES = [
    *sorted({word for words in WORDS.values() for word in words} - {"metropolis"}),
    *("metro", "##polis", "the", "will", "near", ".", "we", "a", "about", "can", "road", "made", "they", "in", "and"),
]
"""Vocabulary of the tiny tokenizer."""


def documents(count: int, seed: int = 0) -> list[str]:
    choose = random.Random(seed)

    def sentence() -> str:
        return choose.choice(SENTENCES).format(**{kind: choose.choice(words) for kind, words in WORDS.items()})

    return [" ".join(sentence() for _ in range(choose.randint(1, 6))) for _ in range(count)]


def make_config(corpus: Path, kind: str, *settings: str) -> PretrainConfig:
    """A run of seconds: ``mlm``, ``electra``, or ``corrected`` ELECTRA (HC, SR of tokens and sentences)."""
    config = preset("electra-tiny")
    if kind == "mlm":
        config = replace(with_objective(config, "mlm"), model=replace(config.model, architecture="bert"))
    if kind == "corrected":
        objective = replace(
            config.objective,
            correction=CorrectionConfig(detector="lexical", forms="lemma", wordnet=str(WORDNET)),
            regularization=RegularizationConfig(level="token+sentence", collapse_threshold=1.0),
        )
        config = replace(config, objective=objective)
    small = ("corpus.length=24", "corpus.eval_rows=20", "train.steps=24", "train.log_every=5", "train.device=cpu")
    config = override(config, [f"corpus.path={corpus}", *small, "train.eval_every=8", "train.save_every=0"])
    return override(config, settings)


def changed_wordnet(folder: Path) -> Path:
    """Another WordNet, which does not know that a film is a movie."""
    index = shutil.copytree(WORDNET, folder) / "index.noun"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(line for line in lines if not line.startswith("film ")))
    assert len(index.read_text()) < sum(map(len, lines))
    return folder


def last_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def final_tensors(run: Path) -> dict[str, torch.Tensor]:
    """Weights and optimizer state of a run's last checkpoint."""
    folder = last_checkpoint(run)
    return load_file(folder / "model.safetensors") | load_file(folder / "optimizer.safetensors")


def assert_identical(run: Path, other: Path) -> None:
    """The same step, the same bits in weights and optimizer, the same readings, the same exported model."""
    assert last_checkpoint(run).name == last_checkpoint(other).name
    ours, theirs = final_tensors(run), final_tensors(other)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert readings(run) == readings(other)
    exported = sorted(path.relative_to(run) for path in (run / "hf").rglob("*.safetensors"))
    assert exported
    for path in exported:
        assert (run / path).read_bytes() == (other / path).read_bytes()


def weight_distance(run: Path, other: Path) -> float:
    """Largest difference of any weight of two runs' last checkpoints."""
    ours, theirs = (load_file(last_checkpoint(path) / "model.safetensors") for path in (run, other))
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def readings(run: Path) -> list[dict[str, Any]]:
    """``metrics.jsonl`` without the clock's readings."""
    records = read_metrics(run / "metrics.jsonl")
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


class PowerCut(Exception):
    """The end of a process, as far as its files can tell."""


def before_step(patch: pytest.MonkeyPatch, number: int, act: Callable[[Run], None]) -> None:
    """Let something happen when ``number`` steps are done."""
    original = loop.train_step

    def step(run: Run, micro_batches: Sequence[Rows]) -> torch.Tensor:
        if run.step == number:
            act(run)
        return original(run, micro_batches)

    patch.setattr(loop, "train_step", step)


def cut_power(run: Run) -> None:
    raise PowerCut


def cut_run(config: PretrainConfig, out: Path, *steps: int) -> None:
    """Begin or resume a run, and cut its power when so many steps are done; once for each number."""
    for number in steps:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(PowerCut):
            before_step(patch, number, cut_power)
            pretrain(config, out, resume=True, quiet=True)


def check_resumes(config: PretrainConfig, folder: Path, *steps: int) -> Path:
    """Check that a run that is cut at these steps ends as the uninterrupted one; return its folder."""
    whole, cut = folder / "whole", folder / "cut"
    pretrain(config, whole, quiet=True)
    cut_run(config, cut, *steps)
    assert pretrain(config, cut, resume=True, quiet=True).reason == "finished"
    assert_identical(whole, cut)
    return cut


def assert_same_readings(run: Path, other: Path) -> None:
    """Equal readings but for rounding."""
    ours, theirs = readings(run), readings(other)
    assert len(ours) == len(theirs) > 0
    for record, as_well in zip(ours, theirs, strict=True):
        assert [record.pop(name, "") for name in ("kind", "stage")] == [as_well.pop(n, "") for n in ("kind", "stage")]
        assert record == pytest.approx(as_well, rel=1e-4, abs=1e-5)


def terminate(run: Run) -> None:
    signal.raise_signal(signal.SIGTERM)


def be_killed(run: Run) -> None:
    signal.raise_signal(signal.SIGKILL)


def hang(run: Run) -> None:
    """Say nothing for longer than the others wait, and go."""
    time.sleep(30)
    be_killed(run)


def freeze(run: Run) -> None:
    """Stop as a machine does that is gone, threads and all; the parent lets it go on."""
    signal.raise_signal(signal.SIGSTOP)
    be_killed(run)


def save_slowly(run: Run) -> None:
    """Take longer for each save from now on than the others wait within a step."""
    save = loop.save_checkpoint

    def slow(*given: Any) -> Path:
        time.sleep(3)
        return save(*given)

    loop.save_checkpoint = slow  # type: ignore[assignment]


def press_ctrl_c(run: Run) -> None:
    signal.raise_signal(signal.SIGINT)


def in_float32(run: Run) -> None:
    assert run.config.precision == "fp32"


def poison(run: Run) -> None:
    """Make this process's next loss NaN, and no other's."""
    bias = next(parameter for name, parameter in run.module.named_parameters() if name.endswith("LayerNorm.bias"))
    bias.data[0] = float("nan")


FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"}


def start(config: PretrainConfig | FinetuneConfig, out: Path, **options: Any) -> ForkServerProcess:
    """Run ``pretrain`` or ``finetune`` with ``resume=True`` in another process; its end is told in ``<out>.json``."""
    process = FORKS.Process(target=_train, args=(config, out, options), daemon=True)
    process.start()
    return process


def ending(process: ForkServerProcess, out: Path) -> dict[str, Any]:
    """Wait for a process of ``start``: how its run ended, or the error's kind and message."""
    process.join(60)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0, f"exit code {process.exitcode}"
    told: dict[str, Any] = json.loads(_told(out).read_text())
    return told


def together(
    config: PretrainConfig | FinetuneConfig,
    out: Path,
    num_processes: int,
    by_rank: Mapping[int, dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Run on several processes that form one group, as a launcher starts them, with options for some.

    Those with ``is_killed`` are not waited for.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": str(num_processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = []
    for rank in range(num_processes):
        options: dict[str, Any] = {"environment": group | {"RANK": str(rank), "LOCAL_RANK": str(rank)}}
        options |= {"told": f"{out.name}-{rank}", **(by_rank or {}).get(rank, {})}
        processes.append(start(config, out, **options))
    killed = {rank for rank, options in (by_rank or {}).items() if options.get("is_killed")}
    told = [
        ending(process, out.with_name(f"{out.name}-{rank}"))
        for rank, process in enumerate(processes)
        if rank not in killed
    ]
    for rank in killed:
        processes[rank].kill()
        processes[rank].join()
    return told


def wait_for(is_so: Callable[[], bool], process: ForkServerProcess) -> None:
    while not is_so():
        assert process.is_alive(), "the run ended too early"
        time.sleep(0.002)


def _told(out: Path) -> Path:
    return out.with_name(out.name + ".json")


def _train(config: PretrainConfig | FinetuneConfig, out: Path, options: dict[str, Any]) -> None:
    """The other process's work."""
    torch.set_num_threads(1)
    os.environ |= options.get("environment", {})
    if "file_limit" in options:
        # A write beyond the limit then fails as on a full disk, instead of killing the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["file_limit"],) * 2)
    if "die_at_file_event" in options:
        _die_at_file_event(out, options["die_at_file_event"])
    if "is_bfloat16_faster" in options:
        pytest.MonkeyPatch().setattr(precision, "is_bfloat16_faster", lambda device: options["is_bfloat16_faster"])
    if "before_step" in options:
        before_step(pytest.MonkeyPatch(), *options["before_step"])
    try:
        run: Any = pretrain if isinstance(config, PretrainConfig) else finetune
        result = run(config, out, resume=True, quiet=True)
        told = {"reason": result.reason, "step": result.step}
    except Exception as error:
        told = {"error": type(error).__name__, "message": str(error)}
    _told(out.with_name(options.get("told", out.name))).write_text(json.dumps(told))


def _die_at_file_event(folder: Path, number: int) -> None:
    """Let the system kill this process as it opens, makes, renames or removes something in a folder."""
    left = number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in FILE_EVENTS and any(str(argument).startswith(str(folder)) for argument in arguments[:2]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
