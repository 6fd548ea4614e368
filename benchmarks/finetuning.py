"""Fine-tuning speed and memory against ``transformers.Trainer``: same checkpoint, examples, batch and length.

    python benchmarks/finetuning.py CHECKPOINT --task glue/mrpc --data glue/ --examples 1024 --rounds 3

Every arm trains one epoch on the same examples, in a process of its own, and the arms take turns. ``trainer`` pads each
batch to its longest row (``DataCollatorWithPadding``); ``trainer-grouped`` also groups rows by length, which is off by
default; ``trainer-padded`` pads to the full length, as ``run_glue.py`` does by default. Arms ending in ``-bf16`` do so
in bfloat16, whatever ``--precision`` says; ``--arms`` chooses, the first is what the others are compared with.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

ARMS = ("trueneg", "trainer", "trainer-grouped", "trainer-padded", "trueneg-bf16", "trainer-bf16")
USUAL = ARMS[:4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--task", default="glue/mrpc")
    parser.add_argument("--data", required=True)
    parser.add_argument("--examples", type=int, default=1024)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=USUAL)
    parser.add_argument("--arm", choices=ARMS, help="run one arm in this process and print its reading")
    options = parser.parse_args()
    if options.arm:
        options.precision = "bf16" if options.arm.endswith("-bf16") else options.precision
        print(json.dumps(measure(options)))
        return
    readings: dict[str, list[dict[str, float]]] = {arm: [] for arm in options.arms}
    for number in range(options.rounds):
        shift = number % len(options.arms)
        for arm in [*options.arms[shift:], *options.arms[:shift]]:
            done = subprocess.run([sys.executable, *sys.argv, "--arm", arm], capture_output=True, text=True, check=True)
            readings[arm].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{options.task}, {options.examples} examples, length {options.length}, {options.precision}")
    for arm, found in readings.items():
        ratios = sorted(
            other["seconds"] / ours["seconds"] for other, ours in zip(found, readings[options.arms[0]], strict=True)
        )
        print(
            f"{arm:16} {options.examples / median(r['seconds'] for r in found):8.1f} examples/s   {options.arms[0]} is "
            f"{median(ratios):.2f} times as fast ({ratios[0]:.2f} to {ratios[-1]:.2f})   "
            f"peak {max(r['peak'] for r in found):,.0f} MiB   loss {found[0]['loss']:.3f}"
        )


def measure(options: argparse.Namespace) -> dict[str, float]:
    from trueneg.config.finetune_options import TaskConfig
    from trueneg.tasks import make_task
    from trueneg.tokenizer import load_tokenizer

    task = make_task(TaskConfig(name=options.task, data=options.data))
    examples = task.subset(task.read(task.train_split).examples, options.examples, 1)
    features = task.encode(examples, load_tokenizer(options.checkpoint), options.length, is_training=True).features
    arm = ours if options.arm.startswith("trueneg") else trainer
    seconds, loss = arm(options, task, features)
    return {"seconds": seconds, "loss": loss, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def clock() -> float:
    """One thread's processor time is not disturbed by other programs; of several, or a GPU, their waiting counts."""
    import torch

    is_alone = not torch.cuda.is_available() and torch.get_num_threads() == 1
    return time.process_time() if is_alone else time.perf_counter()


def load(options: argparse.Namespace, task: Any) -> Any:
    import torch

    from trueneg.models.task_model import load_for_task

    torch.manual_seed(1)
    return load_for_task(task.auto_class, options.checkpoint, task.num_outputs, task.labels, dropout=0.1)


def ours(options: argparse.Namespace, task: Any, features: Any) -> tuple[float, float]:
    import torch

    from trueneg.config.options import OptimizerConfig, TrainConfig
    from trueneg.training.batches import LabelledBatches
    from trueneg.training.distributed import Processes, choose_device
    from trueneg.training.step import Run, train_step

    config = TrainConfig(batch_size=options.batch_size, precision=options.precision)
    order = LabelledBatches(features, 0, 64, config)
    device = choose_device("")
    run = Run.new(load(options, task), task.objective(), OptimizerConfig(learning_rate=5e-5), config, device)
    started = clock()
    for micro_batches in order.from_step(0, order.steps_per_epoch, device.type == "cuda"):
        train_step(run, micro_batches)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = clock() - started
    return seconds, run.meter.read(Processes(), run.objective.weights)["loss"]


def trainer(options: argparse.Namespace, task: Any, features: Any) -> tuple[float, float]:
    import torch
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    from trueneg.tokenizer import load_tokenizer

    rows = [
        {
            "input_ids": features.input_ids[start:end].tolist(),
            "token_type_ids": features.token_type_ids[start:end].tolist(),
            "attention_mask": [1] * int(end - start),
            "label": features.row_targets["label"][number].item(),
        }
        for number, (start, end) in enumerate(zip(features.starts[:-1], features.starts[1:], strict=True))
    ]
    is_padded = options.arm == "trainer-padded"
    grouped: dict[str, Any] = {"train_sampling_strategy": "group_by_length"}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=options.batch_size,
            num_train_epochs=1,
            learning_rate=5e-5,
            bf16=options.precision == "bf16",
            use_cpu=not torch.cuda.is_available(),
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            **(grouped if options.arm == "trainer-grouped" else {}),
        )
        collate = DataCollatorWithPadding(
            load_tokenizer(options.checkpoint),
            padding="max_length" if is_padded else True,
            max_length=options.length if is_padded else None,
        )
        job = Trainer(model=load(options, task), args=arguments, train_dataset=rows, data_collator=collate)  # type: ignore[arg-type]
        started = clock()
        done = job.train()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return clock() - started, done.training_loss


if __name__ == "__main__":
    main()
