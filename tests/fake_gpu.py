"""A GPU that is not there: training steps on CUDA tensors that hold no values, and what they would launch.

The step is the true one, under torch's ``FakeTensorMode`` and with CUDA's autocast rules: shapes, dtypes and devices
are exact, values do not exist, so asking for one raises. A CPU build of torch refuses to go backward through CUDA
tensors; ``fake_gpu.cpp`` is a device guard that does nothing, built with the C++ compiler at hand. It has to be there
before torch is, so this runs in a process of its own:

    subprocess.run([sys.executable, "script.py"], env=os.environ | {"LD_PRELOAD": build(folder)})

What this does not show: a kernel that waits within itself, and how long anything takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional
from torch.utils._foreach_utils import _foreach_supported_types
from torch.utils._python_dispatch import TorchDispatchMode

from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.corruption.rows import Batch
from trueneg.objectives.base import Objective, TrainingModule
from trueneg.training.optimizer import make_optimizer
from trueneg.training.step import Run, train_step

PHASES = ("corrupt", "counts", "forward", "backward", "clip", "optimizer", "meter", "rest")
"""Parts of a step that launches are booked on."""

_TORCH = Path(torch.__file__).parent


def build(folder: Path) -> str:
    """Build the guard into a folder, and return what ``LD_PRELOAD`` has to name."""
    library = folder / "fake_gpu.so"
    if not library.exists():
        compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
        source = Path(__file__).with_suffix(".cpp")
        flags = ["-std=c++20", "-shared", "-fPIC", f"-I{_TORCH / 'include'}", f"-L{_TORCH / 'lib'}"]
        subprocess.run(
            [compiler, *flags, str(source), f"-Wl,-rpath,{_TORCH / 'lib'}", "-lc10", "-ltorch_cpu", "-o", library],
            check=True,
        )
    return str(library)


def why_not() -> str:
    """Why there can be no such GPU here; empty if there can."""
    if torch.version.cuda or torch.version.hip:
        return "this torch is a GPU build: its own device guard is in the way"
    if sys.platform != "linux":
        return "libraries are loaded before torch on Linux only"
    if not (os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")):
        return "there is no C++ compiler"
    return ""


class Waits(Exception):
    """The step would make the host wait for the GPU."""


class Launches(TorchDispatchMode):
    """Counts what a GPU would be given, by phase: one for each operation that is no view and no allocation.

    Raises:
        Waits: where the host would wait for the device; what asks for a value raises in ``FakeTensorMode`` itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "rest"
        self.launched: dict[str, Counter[str]] = defaultdict(Counter)
        """Phase to operations to how often each was launched."""
        self.casts: Counter[str] = Counter()
        """Phase to launches that only change a dtype."""
        self.uploads = 0
        """Copies from the host that it does not wait for."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        result = function(*args, **given)
        name = function.name().removeprefix("aten::")
        if name.startswith(("prim", "profiler")) or name.split(".")[0] in _NO_LAUNCHES or _is_view(function):
            return result
        if name.startswith("index_put") and any(index is not None and index.dtype == torch.bool for index in args[1]):
            raise Waits(f"{name}: a boolean index is counted on the host")
        if not any(part.is_cuda for part in _tensors((args, given, result))):
            return result
        if name.startswith(("_to_copy", "copy_")):
            source, target = _from_to(args, result)
            if source.device.type != target.device.type:
                if source.is_cuda or not _is_non_blocking(name, args, given):
                    raise Waits(f"{name}: {tuple(source.shape)} from {source.device} to {target.device}")
                self.uploads += 1
                return result
            self.casts[self.phase] += name.startswith("_to_copy") and source.dtype != target.dtype
        self.launched[self.phase][name] += 1
        return result

    def counts(self) -> dict[str, int]:
        """Phase to launches."""
        return {phase: self.launched[phase].total() for phase in PHASES}

    @contextmanager
    def watching(self, run: Run) -> Iterator[None]:
        """Book the parts of ``train_step(run, …)`` on their phases."""
        with ExitStack() as stack:
            for owner, name, phase in (
                (run.objective, "corrupt", "corrupt"),
                (run.objective, "counts", "counts"),
                (run.meter, "add", "meter"),
                (run.optimizer, "step", "optimizer"),
                (nn.utils, "clip_grad_norm_", "clip"),
                (run, "forward", "forward"),
                (Tensor, "backward", "backward"),
            ):
                stack.enter_context(patch.object(owner, name, self._booked(getattr(owner, name), phase)))
            stack.enter_context(self)
            yield

    def _booked(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def booked(*args: Any, **kwargs: Any) -> Any:
            before, self.phase = self.phase, phase
            try:
                return function(*args, **kwargs)
            finally:
                self.phase = before

        return booked


def fake_step(
    model: nn.Module,
    objective: Objective[Any, Any],
    optimizer: OptimizerConfig,
    train: TrainConfig,
    rows: Batch,
    num_steps: int = 2,
) -> Launches:
    """Take true steps on the GPU that is not there, and count the last.

    Args:
        model: With weights on the CPU; it has none afterwards.
        objective: What is minimised.
        optimizer: As for ``Run.new``.
        train: As for ``Run.new``.
        rows: What is read, on the CPU.
        num_steps: The first is not like the others: it makes the optimizer's state, finds the meter empty, and moves
            models that are no submodules to the device, for which it waits.

    Raises:
        Waits, DataDependentOutputException, DynamicOutputShapeException: if the step would wait for the device.
    """
    mode, device = FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda", 0)
    module = TrainingModule(model, objective)
    without_values(mode, device, module)
    with one_attention_kernel(), _bf16_is_there(), mode:
        run = Run(module, make_optimizer(module, optimizer), optimizer, train, device)
        fake = rows._map(mode.from_tensor)
        for _ in range(num_steps - 1):
            train_step(run, [fake])
        launches = Launches()
        with launches.watching(run):
            train_step(run, [fake])
    return launches


def without_values(mode: FakeTensorMode, device: torch.device, module: nn.Module) -> None:
    """Replace parameters and buffers by tensors of a device that hold nothing; what is shared stays shared."""
    known: dict[int, Tensor] = {}
    held = [  # so that no id is given twice
        (values, name, value)
        for part in module.modules()
        for values in (part._parameters, part._buffers)
        for name, value in values.items()
        if value is not None
    ]
    for values, name, value in held:
        if id(value) not in known:
            with mode:
                empty = torch.empty_like(value, device=device)
            is_parameter = isinstance(value, nn.Parameter)
            known[id(value)] = nn.Parameter(empty, value.requires_grad) if is_parameter else empty
        values[name] = known[id(value)]  # type: ignore[assignment]


@contextmanager
def one_attention_kernel() -> Iterator[None]:
    """Let fused attention be one launch forward and one backward, as on a GPU; a CPU build takes it apart."""

    def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **_: Any) -> Tensor:
        return _Attention.apply(query, key, value, attn_mask)

    with patch.object(functional, "scaled_dot_product_attention", attention):
        yield


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.mask = mask
        return torch.ops.fake_gpu.attention(query, key, value, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return *torch.ops.fake_gpu.attention_backward(gradient, *ctx.saved_tensors, ctx.mask), None


_LIBRARY = torch.library.Library("fake_gpu", "DEF")
_LIBRARY.define("attention(Tensor q, Tensor k, Tensor v, Tensor? mask) -> Tensor")
_LIBRARY.define("attention_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor? mask) -> (Tensor, Tensor, Tensor)")
for _key in ("CPU", "CUDA", "Meta"):
    _LIBRARY.impl("attention", lambda q, k, v, mask: torch.empty_like(q), _key)
    _LIBRARY.impl("attention_backward", lambda g, q, k, v, mask: tuple(map(torch.empty_like, (q, k, v))), _key)

_NO_LAUNCH = """
_record_function_enter_new _record_function_exit _unsafe_view _reshape_alias alias as_strided detach diagonal empty
empty_like empty_strided expand is_same_size lift_fresh narrow new_empty new_empty_strided permute reshape select slice
split split_with_sizes squeeze sym_size t transpose unbind unfold unsqueeze view view_as
"""
_NO_LAUNCHES = frozenset(_NO_LAUNCH.split())


def _is_view(function: Any) -> bool:
    aliases = [returned.alias_info for returned in function._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _from_to(args: Any, result: Tensor) -> tuple[Tensor, Tensor]:
    """Where a copy comes from and goes to: ``copy_`` is given both, the target first."""
    given = _tensors(args)
    return (given[1], given[0]) if len(given) > 1 else (given[0], result)


def _is_non_blocking(name: str, args: Any, kwargs: Any) -> bool:
    return bool(kwargs.get("non_blocking") or (name.startswith("copy_") and len(args) > 2 and args[2]))


@contextmanager
def _bf16_is_there() -> Iterator[None]:
    """Answer for the GPU where torch asks whether it can, and let fake tensors be taken for tensors."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.cuda, "is_bf16_supported", lambda *_, **__: True))
        stack.enter_context(patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False))
        _foreach_supported_types.append(FakeTensor)
        stack.callback(_foreach_supported_types.remove, FakeTensor)
        yield
