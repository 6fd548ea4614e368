"""Pre-training on the machines of a Ray cluster, on a file system that they share.

    python examples/ray_train.py electra-small --corpus /shared/corpus --out /shared/runs/a --workers 16 --gpu

Needs ``pip install 'ray[train]'``. Where a worker dies, Ray starts all of them again, and they go on at the last
checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trueneg import configure, pretrain


def train(given: dict[str, Any]) -> None:
    """Train as one of the workers, which Ray has made a group of ``torch.distributed``."""
    config = configure(given["preset"], settings=[f"corpus.path={given['corpus']}", *given["settings"]])
    pretrain(config, given["out"], resume=True)


def main() -> None:
    """Read the command line and hand the work out."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--corpus", required=True, type=lambda path: str(Path(path).absolute()))
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="one for each worker")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="OPTION=VALUE")
    given = parser.parse_args()
    out = given.out.absolute()
    TorchTrainer(
        train,
        train_loop_config={
            "preset": given.preset,
            "corpus": given.corpus,
            "out": str(out),
            "settings": given.settings,
        },
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=given.gpu),
        run_config=RunConfig(
            name=out.name, storage_path=str(out.parent / "ray"), failure_config=FailureConfig(max_failures=3)
        ),
    ).fit()


if __name__ == "__main__":
    main()
