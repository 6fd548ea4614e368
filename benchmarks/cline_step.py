"""What a step of CLINE costs beside one of masked language modelling: same encoder, rows and batch, in turns.

    OMP_NUM_THREADS=1 python benchmarks/cline_step.py ENCODER CORPUS --length 64 --batch-size 16 --rounds 7

CORPUS was built with ``--tag`` and the encoder's tokenizer. Three rows are read for one, in one pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from trueneg.config.codec import override
from trueneg.corpus.store import Corpus
from trueneg.runs.bench import take_turns
from trueneg.runs.building import build, reader_of
from trueneg.runs.configuring import configure
from trueneg.tokenizer import load_tokenizer
from trueneg.training.batches import CorpusBatches, row_index
from trueneg.training.distributed import Processes, choose_device
from trueneg.training.step import Run, train_step

ARMS = {
    "masked LM": ("objective.name=mlm",),
    "CLINE": (),
    "CLINE, released": ("cline.variant=released",),
    "CLINE without RTD": ("cline.rtd=false",),
    "CLINE, random negatives": ("cline.negatives=random",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("corpus")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    named = {
        "corpus.path": options.corpus,
        "corpus.length": options.length,
        "train.batch_size": options.batch_size,
        "train.precision": options.precision,
    }
    settings = [f"{key}={value}" for key, value in named.items()]
    base = configure(start_from=options.encoder, objective="cline", settings=settings)
    opened = Corpus.open(options.corpus)
    tokenizer = load_tokenizer(opened.path / "tokenizer")
    device = choose_device("")

    def arm(extra: tuple[str, ...]) -> Callable[[], None]:
        config = override(base, extra)
        rows = row_index(config, opened)
        order = CorpusBatches(rows, config.train, Processes(), reader_of(config, rows, tokenizer))
        batches = [order.micro_batches(step) for step in range(4)]
        run = Run.new(*build(config, tokenizer), config.optimizer, config.train, device)

        def step() -> None:
            train_step(run, batches[run.step % len(batches)])

        return step

    tokens = options.batch_size * options.length
    for found in take_turns({name: arm(extra) for name, extra in ARMS.items()}, options.rounds, tokens, device):
        print(
            f"{found.name:24} {found.milliseconds:8.1f} ms   {found.ratio:.2f} times masked LM "
            f"(quartiles {found.ratio_low:.2f} to {found.ratio_high:.2f})"
        )


if __name__ == "__main__":
    main()
