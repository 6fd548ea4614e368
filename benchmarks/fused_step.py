"""What a step costs on an H100 that is not there: eager launches, and the compiled step by Inductor's own fusion.

    PYTHONPATH=TRITON python benchmarks/fused_step.py electra-small bert-base modernbert-base

Needs a CPU build of torch on Linux, a C++ compiler (see ``tests/fake_gpu.py``) and, for its Python modules alone, the
package ``triton`` of this torch: TRITON is a folder that ``pip install --no-deps --target TRITON triton`` filled.

*Eager* is the true ``train_step`` on CUDA tensors without values. *Compiled* is forward and backward of the module
through AOTAutograd and Inductor's joint passes, partitioner, lowering and scheduler; no kernel is compiled. Its kernels
are counted with the bytes that they touch. A *cast* is a kernel that does nothing but change a dtype. The roofline
takes for each kernel the longest of its bytes at 85 % of 3.35 TB/s, its products at 62 % of 989 TFLOP/s (attention at
35 % forward, 27 % backward) and 1.5 us: **a best case, no forecast**. Its ratios are worth more than its figures.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import torch
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode

import fake_gpu
import tiny
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset
from trueneg.objectives.base import TrainingModule
from trueneg.runs.building import build

DEVICE = torch.device("cuda", 0)
BYTES_A_SECOND, FLOPS_A_SECOND, SECONDS_A_KERNEL = 0.85 * 3.35e12, 989e12, 1.5e-6
OF_PRODUCTS, OF_ATTENTION = 0.62, (0.35, 0.27)
VOCABULARY = 30_522
SHAPES = {"electra-small": (1024, 128), "bert-base": (256, 512), "modernbert-base": (64, 1024)}
"""Preset to rows and length."""
STOCK = ("model.fused=false", "model.norms=autocast")
ARMS = {
    "as transformers has it": STOCK,
    "+ one product, no type lookup": ("model.fused=true", "model.norms=autocast"),
    "+ norms in bf16": ("model.fused=false", "model.norms=bf16"),
    "both": ("model.fused=true", "model.norms=bf16"),
}


@dataclass(frozen=True)
class Kernel:
    """What is launched once."""

    name: str
    num_bytes: int
    flops: int = 0
    is_cast: bool = False

    def seconds(self, attention: float) -> float:
        """At the roofline, or what attention takes."""
        if "attention" in self.name:
            return max(attention, self.num_bytes / BYTES_A_SECOND)
        return max(self.num_bytes / BYTES_A_SECOND, self.flops / (OF_PRODUCTS * FLOPS_A_SECOND), SECONDS_A_KERNEL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("presets", nargs="+", choices=SHAPES)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--layers", type=int, default=0, help="of a smaller model, to try it")
    parser.add_argument("--set", action="append", default=[], help="more settings, for every arm")
    options = parser.parse_args()
    if reason := fake_gpu.why_not():
        parser.error(reason)
    if "fake_gpu.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            surroundings = os.environ | {"LD_PRELOAD": fake_gpu.build(Path(folder))}
            raise SystemExit(os.spawnve(os.P_WAIT, sys.executable, [sys.executable, *sys.argv], surroundings))
    for name in options.presets:
        rows, length = SHAPES[name]
        rows = options.rows or rows
        layers = [f"model.num_layers={options.layers}"] if options.layers else []
        base = override(preset(name), ["train.precision=bf16", "model.dropout=0", *layers, *options.set])
        arms = ARMS if base.model.architecture != "modernbert" else {"as transformers has it": STOCK}
        print(f"{name}, {rows} rows of {length}", flush=True)
        for arm, settings in arms.items():
            report(arm, override(base, settings), rows, length)


def report(arm: str, config: PretrainConfig, num_rows: int, length: int) -> None:
    tokens = num_rows * length
    launched, casts = eager(config, num_rows, length)
    phases = " ".join(f"{phase} {number}" for phase, number in launched.items())
    print(f"  {arm}\n    eager: {sum(launched.values())} launches ({phases}), {casts} casts", flush=True)
    graphs, num_parameters, attention = compiled(config, num_rows, length)
    kernels = [kernel for graph in graphs for kernel in graph]
    seconds = sum(k.seconds(one) for graph, one in zip(graphs, attention, strict=True) for k in graph)
    seconds += 4 * num_parameters * (7.5 + 3) / BYTES_A_SECOND  # AdamW, and the norm of the gradient
    num_bytes = sum(kernel.num_bytes for kernel in kernels)
    print(
        f"    compiled: {len(kernels)} kernels, {sum(kernel.is_cast for kernel in kernels)} casts, "
        f"{num_bytes / tokens / 1024:.0f} KiB a token, {sum(kernel.flops for kernel in kernels) / tokens / 1e6:.1f} "
        f"MFLOP a token in products; {1000 * seconds:.1f} ms, {tokens / seconds / 1e6:.2f} M tokens/s at the roofline",
        flush=True,
    )


def given(config: PretrainConfig, num_rows: int, length: int) -> Any:
    return tiny.make_rows([[length - 2]] * num_rows, length)


def eager(config: PretrainConfig, num_rows: int, length: int) -> tuple[dict[str, int], int]:
    model, objective = build(config, tiny.make_tokenizer(VOCABULARY))
    train = replace(config.train, compile=False)
    launches = fake_gpu.fake_step(model, objective, config.optimizer, train, given(config, num_rows, length))
    return launches.counts(), launches.casts.total()


def compiled(config: PretrainConfig, num_rows: int, length: int) -> tuple[list[list[Kernel]], int, list[float]]:
    """Kernels of forward and of backward, the number of parameters, and seconds of one attention in either."""
    model, objective = build(config, tiny.make_tokenizer(VOCABULARY))
    module = TrainingModule(model, objective)
    mode, graphs = FakeTensorMode(allow_non_fake_inputs=True), list[list[Kernel]]()
    fake_gpu.without_values(mode, DEVICE, module)
    rows = given(config, num_rows, length)
    with an_h100(), inductor(mode, graphs) as compile_with, fake_gpu.one_attention_kernel(), mode:
        batch = objective.corrupt(rows._map(lambda value: torch.empty_like(value, device=DEVICE)))
        counts = objective.counts(batch)
        values = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        leaves, rebuilt = taken_apart(batch)

        def step(values: dict[str, Tensor], leaves: list[Tensor], counts: dict[str, Tensor]) -> list[Tensor]:
            with torch.autocast("cuda", torch.bfloat16):
                loss, outcome = torch.func.functional_call(module, values, (rebuilt(leaves), counts))
            return [loss, *outcome.terms.values(), *outcome.stats.values()]

        aot_function(step, **compile_with)(values, leaves, counts)[0].backward()
    return graphs, sum(part.numel() for part in module.parameters()), attention_seconds(module, num_rows, length)


def attention_seconds(module: nn.Module, num_rows: int, length: int) -> list[float]:
    """Mean seconds of one attention forward and one backward, over the encoders of a model."""
    widths = []
    for part in module.modules():
        if hasattr(part, "get_input_embeddings") and hasattr(part, "base_model") and part.base_model is not part:
            widths += [part.config.hidden_size] * part.config.num_hidden_layers
    flops = 4 * num_rows * length * length * sum(widths) / len(widths)
    return [flops * more / (share * FLOPS_A_SECOND) for more, share in zip((1, 2.5), OF_ATTENTION, strict=True)]


def taken_apart(batch: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """The tensors of nested dataclasses, and what puts others in their place."""
    if isinstance(batch, Tensor):
        return [batch], lambda leaves: leaves[0]
    if not is_dataclass(batch):
        return [], lambda leaves: batch
    parts = {field.name: taken_apart(getattr(batch, field.name)) for field in fields(batch)}

    def rebuilt(leaves: list[Tensor]) -> Any:
        rest, made = iter(leaves), {}
        for name, (own, make) in parts.items():
            made[name] = make([next(rest) for _ in own])
        return type(batch)(**made)

    return [leaf for own, _ in parts.values() for leaf in own], rebuilt


class _Enough(Exception):
    """Everything is scheduled: there is no need for code."""


@contextmanager
def inductor(mode: FakeTensorMode, graphs: list[list[Kernel]]) -> Iterator[dict[str, Any]]:
    """What ``aot_function`` is given, so that Inductor schedules each graph into ``graphs`` and writes no code."""
    from torch._inductor import compile_fx
    from torch._inductor import config as settings
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes import fuse_attention, pad_mm
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.virtualized import V

    def schedule(self: Any) -> None:
        self.init_wrapper_code()
        self.scheduler = Scheduler(self.operations)
        graphs.append(kernels_of(self.scheduler))
        raise _Enough

    def compile_graph(graph: Any, inputs: Any) -> Any:
        try:
            with V.set_fake_mode(mode):
                compile_fx.compile_fx_inner(graph, inputs)
        except Exception as error:
            if "_Enough" not in repr(error):
                raise
        return make_boxed_func(graph)

    def partition(graph: Any, inputs: Any, **more: Any) -> Any:
        with V.set_fake_mode(mode):
            return compile_fx.partition_fn(graph, inputs, **more)

    with ExitStack() as stack:
        stack.enter_context(patch.object(GraphLowering, "codegen", schedule))
        # Patterns of attention and of padded products are made by running them.
        stack.enter_context(patch.object(fuse_attention, "_sfdp_init", lambda *_, **__: None))
        stack.enter_context(patch.object(pad_mm, "_pad_mm_init", lambda *_, **__: None))
        stack.enter_context(
            settings.patch(
                fx_graph_cache=False, compile_threads=1, shape_padding=False, joint_graph_constant_folding=False
            )
        )
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        yield {
            "fw_compiler": compile_graph,
            "bw_compiler": compile_graph,
            "partition_fn": partition,
            "decompositions": select_decomp_table(),
        }


def kernels_of(scheduler: Any) -> list[Kernel]:
    from torch._inductor.scheduler import ExternKernelSchedulerNode

    found = []
    for node in scheduler.nodes:
        if isinstance(node, ExternKernelSchedulerNode):
            name = getattr(node.node, "python_kernel_name", None) or type(node.node).__name__
            num_bytes, flops = int(node.get_read_write_buffers_sizes()), 0
            if "mm" in name:
                left = node.node.inputs[-2]  # of (left, right) or (added, left, right)
                flops = 2 * math.prod(map(int, node.node.get_size())) * int(left.get_size()[-1])
            elif name == "MultiOutput" or not num_bytes:
                continue
            found.append(Kernel(name, num_bytes, flops))
        elif not type(node).__name__.startswith("Nop"):
            origins = {
                str(origin.target)
                for part in node.get_nodes()
                if getattr(part, "node", None) is not None
                for origin in part.node.get_origins()
                if origin.op == "call_function"
            }
            found.append(
                Kernel(
                    "+".join(sorted(origins)),
                    int(node.get_read_write_buffers_sizes()),
                    is_cast=origins == {"prims.convert_element_type.default"},
                )
            )
    return found


def _always(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


@contextmanager
def an_h100() -> Iterator[None]:
    """Answer for the GPU what Inductor asks it."""
    import torch._inductor.scheduler
    import torch._inductor.utils
    from torch._dynamo import device_interface
    from torch.utils import _triton

    properties = SimpleNamespace(
        name="NVIDIA H100",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=80 << 30,
        warp_size=32,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=50 << 20,
        gcnArchName="",
        is_integrated=False,
        clock_rate=1_755_000,
        memory_clock_rate=2_619_000,
        memory_bus_width=5120,
        uuid="0",
    )
    answers: dict[Any, dict[str, Any]] = {
        torch.cuda: {
            "get_device_properties": properties,
            "get_device_capability": (9, 0),
            "current_device": 0,
            "device_count": 1,
            "is_available": True,
            "is_initialized": True,
            "is_bf16_supported": True,
            "synchronize": None,
            "_is_compiled": True,
            "_exchange_device": 0,
            "_maybe_exchange_device": 0,
            "_lazy_init": None,
            "get_rng_state": torch.zeros(16, dtype=torch.uint8),
            "set_rng_state": None,
            "manual_seed_all": None,
        },
        device_interface.CudaInterface: {
            "get_device_properties": properties,
            "current_device": 0,
            "device_count": 1,
            "is_available": True,
            "get_compute_capability": 90,
            "is_bf16_supported": True,
            "is_triton_capable": True,
            "raise_if_triton_unavailable": None,
            "exchange_device": 0,
            "maybe_exchange_device": 0,
        },
        device_interface.CudaInterface.Worker: {"get_device_properties": properties, "current_device": 0},
        _triton: {"has_triton": True, "has_triton_package": True},
        torch._inductor.scheduler: {"has_triton": True},
    }
    with ExitStack() as stack:
        for owner, named in answers.items():
            for name, answer in named.items():
                said = _always(answer)
                stack.enter_context(patch.object(owner, name, staticmethod(said) if isinstance(owner, type) else said))
        stack.enter_context(patch.object(torch.version, "cuda", "13.0"))
        stack.enter_context(patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False))
        yield


if __name__ == "__main__":
    main()
