"""Peak memory of the masked-LM head, forward and backward, whole and in chunks: counted, with no GPU.

    python benchmarks/head_memory.py [--rows 19456] [--width 768] [--vocab 30522,256000] [--mb 512]

Every operation is run on fake tensors, which have shapes and no values, and the bytes of the storages that are alive
are added up after each. Left out are the table, its bias and the hidden states that are given; the gradients that come
out of it are counted. In bf16 under autocast, not compiled, as an eager step on a GPU has it. The default rows are the
masked ones of 256 rows of 512 at 15 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from trueneg.models.logits import ChunkedLogits, Logits, WholeLogits, padded
from trueneg.objectives.prediction import predict

SUBSTITUTES = 32
"""Tokens that a detector lists, at most."""


class Peak(TorchDispatchMode):
    """Bytes of what was made and is alive, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.known: set[int] = set()
        self.num_bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                self.alive.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self.alive = {key: found for key, found in self.alive.items() if not found[0].expired()}
        self.num_bytes = max(
            self.num_bytes, sum(size for key, (_, size) in self.alive.items() if key not in self.known)
        )
        return result


def measure(read: Callable[[Tensor, Tensor, Tensor], Logits], rows: int, width: int, vocab: int, use: str) -> float:
    """Peak of one pass in MiB."""
    with FakeTensorMode():
        hidden = torch.empty(rows // 64, 64, width, dtype=torch.bfloat16, requires_grad=True)
        weight, bias = torch.empty(vocab, width, requires_grad=True), torch.empty(vocab, requires_grad=True)
        gold, draws = torch.zeros(hidden.shape[:2], dtype=torch.int64), torch.empty(hidden.shape[:2])
        others = torch.zeros(*hidden.shape[:2], SUBSTITUTES, dtype=torch.int64) if use == "marginal" else None
        peak = Peak()
        peak.known = {tensor.untyped_storage()._cdata for tensor in (hidden, weight, bias)}
        with peak:
            logits = read(hidden, weight.bfloat16(), bias.bfloat16())
            logits.read(lambda z, u: (predict(z, u, "sampled"),), draws)
            loss, few = logits.losses(gold, others)
            total = loss.sum() if few is None else loss.sum() + few.sum()
            if use == "soft":
                total = total + logits.expected(weight).sum()
            total.backward()
    return peak.num_bytes / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=19_456)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", default="30522,256000")
    parser.add_argument("--mb", type=float, default=512.0)
    args = parser.parse_args()

    def whole(hidden: Tensor, weight: Tensor, bias: Tensor) -> Logits:
        return WholeLogits(functional.linear(hidden, weight, bias).float())

    def chunked(hidden: Tensor, weight: Tensor, bias: Tensor) -> Logits:
        return ChunkedLogits(hidden, *padded(weight, bias, 256), args.mb, len(weight))

    print(f"{args.rows} rows of {args.width}, bf16; peak in MiB\n")
    print("| vocabulary | loss | whole | in chunks |\n|---|---|---|---|")
    for vocab in (int(number) for number in args.vocab.split(",")):
        for use in ("drop", "marginal", "soft"):
            sizes = [measure(read, args.rows, args.width, vocab, use) for read in (whole, chunked)]
            print(f"| {vocab} | {use} | {sizes[0]:,.0f} | {sizes[1]:,.0f} |")


if __name__ == "__main__":
    main()
