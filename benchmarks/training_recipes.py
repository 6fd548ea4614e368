"""One budget, several ways to train it, some seeds each: held-out losses, and their differences from the first way.

    OMP_NUM_THREADS=1 python benchmarks/training_recipes.py optimizers CORPUS --out FOLDER
    OMP_NUM_THREADS=1 python benchmarks/training_recipes.py sharing CORPUS --out FOLDER

``--size tiny`` is two layers of 64, ``mini`` the preset electra-mini at 16 rows of 128 tokens; the rate is 3e-3. Arms
of one seed read the same rows with the same masks, so differences are taken by seed. Intervals are 95 %, of Student's t
over seeds. A run that is in FOLDER already goes on, or is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from trueneg.runs.configuring import configure
from trueneg.runs.pretraining import pretrain

BUDGET = (
    *("learning_rate=3e-3", "warmup_steps=30", "batch_size=16", "corpus.pack=false", "eval_rows=1000"),
    *("eval_every=0", "save_every=0", "log_every=200"),
)
SIZES = {
    "tiny": (
        *("num_layers=2", "model.hidden_size=64", "num_heads=2", "intermediate_size=256", "max_positions=64"),
        *("corpus.length=64", "train.precision=fp32"),
    ),
    "mini": (),
}
BERT = ("model.architecture=bert",)
RTD = (*BERT, "generator_depth=0.5")
SHARING = {
    "shared": RTD,
    "none": (*RTD, "embedding_sharing=none"),
    "gdes": (*RTD, "embedding_sharing=gdes"),
    "gdes, alternating": (*RTD, "embedding_sharing=gdes", "updates=alternating"),
}
OPTIMIZERS = {name: (*BERT, f"optimizer.name={name}") for name in ("adamw", "stableadamw", "muon")}
ARMS = {"optimizers": ("mlm", OPTIMIZERS), "sharing": ("electra", SHARING)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=ARMS)
    parser.add_argument("corpus")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--arms", help="some of them, with semicolons between")
    options = parser.parse_args()
    objective, arms = ARMS[options.what]
    arms = {name: arms[name] for name in options.arms.split(";")} if options.arms else arms
    found: dict[str, list[dict[str, float]]] = {name: [] for name in arms}
    for seed in range(1, options.seeds + 1):
        for name, settings in arms.items():
            common = (
                *BUDGET,
                *SIZES[options.size],
                f"corpus.path={options.corpus}",
                f"train.steps={options.steps}",
                f"train.seed={seed}",
            )
            config = configure("electra-mini", objective=objective, settings=(*common, *settings))
            folder = options.out / options.size / options.what / name.replace(", ", "-") / str(seed)
            done = pretrain(config, folder, resume=True, quiet=True)
            # A run that had finished before evaluates nothing: its last record has it.
            records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            last = [record for record in records if record["kind"] == "eval"][-1]
            found[name].append({name: value for name, value in last.items() if name != "kind"})
            print(f"{name}, seed {seed}: {done.seconds:.0f} s, {shown(found[name][-1])}", flush=True)
    for reading in ("loss", "gold_loss", "loss/rtd", "detection_recall", "detection_precision"):
        if all(reading in one for runs in found.values() for one in runs):
            print(f"\n{reading}")
            first = [one[reading] for one in found[next(iter(found))]]
            for name, runs in found.items():
                values = [one[reading] for one in runs]
                differences = [value - other for value, other in zip(values, first, strict=True)]
                apart = "" if values == first else f"   from the first arm {interval(differences)}"
                print(f"  {name:22} {interval(values)}{apart}")


def shown(readings: dict[str, float]) -> str:
    return ", ".join(f"{name} {readings[name]:.4f}" for name in ("loss", "gold_loss", "loss/rtd") if name in readings)


def interval(values: Sequence[float]) -> str:
    """The mean with its 95 % interval."""
    mean, num = float(np.mean(values)), len(values)
    if num < 2:
        return f"{mean:+.4f}"
    half = float(stats.t.ppf(0.975, num - 1)) * float(np.std(values, ddof=1)) / num**0.5
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"


if __name__ == "__main__":
    main()
