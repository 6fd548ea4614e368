"""What a step of adversarial fine-tuning costs beside a plain one: same encoder, examples and batches, in turns.

OMP_NUM_THREADS=1 python benchmarks/adversarial.py CHECKPOINT --task mr --data FOLDER --rounds 10
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch

from trueneg.config.codec import override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.task_model import load_for_task
from trueneg.runs.bench import take_turns
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.tasks import make_task
from trueneg.tokenizer import load_tokenizer
from trueneg.training.adversarial import with_adversary
from trueneg.training.batches import LabelledBatches
from trueneg.training.distributed import choose_device
from trueneg.training.step import Run, train_step

ARMS = {
    "plain": (),
    "FreeLB, 2 steps": ("adversarial=freelb", "freelb.steps=2"),
    "FreeLB, 3 steps": ("adversarial=freelb", "freelb.steps=3"),
    "SMART": ("adversarial=smart", "smart.noise=0.01"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--task", default="mr")
    parser.add_argument("--data", required=True)
    parser.add_argument("--examples", type=int, default=512)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    named = [f"task.data={options.data}", f"train.precision={options.precision}", "train.steps=1000000"]
    base = configure_finetuning(options.checkpoint, options.task, settings=named)
    task, source, device = make_task(base.task), resolve_checkpoint(options.checkpoint), choose_device("")
    examples = task.subset(task.read(task.train_split).examples, options.examples, 1)
    features = task.encode(examples, load_tokenizer(source), base.task.length, is_training=True).features
    order = LabelledBatches(features, 0, base.length_window, base.train)

    def arm(config: FinetuneConfig) -> Callable[[], None]:
        torch.manual_seed(1)
        model = load_for_task(task.auto_class, source, task.num_outputs, task.labels, dropout=config.dropout)
        objective, passes = with_adversary(config, task.objective())
        run = Run.new(model, objective, config.optimizer, config.train, device, passes=passes)
        batches: list[list[Any]] = [order.micro_batches(step) for step in range(order.steps_per_epoch)]

        def epoch() -> None:
            for batch in batches:
                train_step(run, batch)

        return epoch

    arms = {name: arm(override(base, settings)) for name, settings in ARMS.items()}
    tokens = int(order.tokens_per_step * order.steps_per_epoch)
    for found in take_turns(arms, options.rounds, tokens, device):
        milliseconds = found.milliseconds / order.steps_per_epoch
        print(
            f"{found.name:18} {milliseconds:8.1f} ms a step   {found.ratio:.2f} times plain "
            f"(quartiles {found.ratio_low:.2f} to {found.ratio_high:.2f})"
        )


if __name__ == "__main__":
    main()
