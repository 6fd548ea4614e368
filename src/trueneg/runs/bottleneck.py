"""Bottlenecks of a training step, computed from measurements of its parts, with the option that helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Place = Literal["data", "padding", "precision", "threads", "launches", "memory", "traffic", "arithmetic"]

WORTH = 1.05
"""Smallest gain that is reported: smaller ones are within measurement error."""

FULL, CLOSE = 0.9, 0.5
"""Share of memory above which it is scarce; share of the matrix-product rate above which a step is bound by it."""


@dataclass(frozen=True)
class Measured:
    """Parts of a step, measured separately on one machine. Times are medians, in milliseconds."""

    device: str
    """``cpu``, or the GPU's name."""
    threads: int
    cores: int
    """Cores that this process may use."""
    precision: str
    rows: int
    """Rows per micro-batch."""
    accumulation: int
    positions: int
    """Positions per step, including padding."""
    flops: float
    """Operations of a step's matrix products: ``models.flops.training_flops``."""
    step: float
    """A step with its data ready."""
    one_row: float
    """A step of micro-batches of one row each: nearly all of its time does not depend on the batch size."""
    read: float
    """Reading the rows of a step, which happens while the previous step is computed."""
    host: float | None
    """Launching a step's work on a GPU; None on a CPU."""
    matrix_rate: Mapping[str, float]
    """Measured operations per second of a large matrix product, by precision."""
    peak: float
    """Operations per second in bf16 by the device's data sheet (fp16 if it has no bf16); 0 if unknown or on a CPU."""
    fill: float
    """Share of positions that are not padding."""
    packed_fill: float
    """The same if rows were filled with several documents."""
    memory: float
    """Peak memory in bytes."""
    memory_limit: float
    """Available memory in bytes; 0 if not known."""
    is_compiled: bool = False
    """Whether the step is compiled with ``torch.compile``."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """Measured speed-up in useful tokens per second, by option that was tried."""

    @property
    def achieved(self) -> float:
        """Operations per second in matrix products."""
        return 1000 * self.flops / self.step

    @property
    def rate(self) -> float:
        """Rate that this machine's matrix products reach in the run's precision."""
        return self.matrix_rate[self.precision]

    @property
    def mfu(self) -> float:
        """Share of the peak, or on a CPU of the measured rate of matrix products; 0 if neither is known."""
        peak = self.rate if self.device == "cpu" else self.peak
        return self.achieved / peak if peak else 0.0

    @property
    def fixed(self) -> float:
        """Share of a step that does not grow with its rows: kernel launches, the optimizer."""
        if self.rows == 1:
            return 1.0
        # step = fixed + rows * each, one_row = fixed + each
        fixed = (self.rows * self.one_row - self.step) / (self.rows - 1)
        return min(1.0, max(0.0, fixed / self.step))


@dataclass(frozen=True)
class Bottleneck:
    """A bottleneck of the step."""

    place: Place
    gain: float
    """Speed-up in useful tokens per second without it; 1 if no option gains anything."""
    is_measured: bool
    """Whether the gain was measured with the option, rather than computed as an upper bound."""
    what: str
    """Description, with figures."""
    option: str = ""
    """Option that helps."""

    def __str__(self) -> str:
        """Describe it in one line."""
        if not self.option:
            return self.what
        gain = f"{self.gain - 1:+.0%} useful tokens" if self.gain > 1 else "less memory"
        return f"{self.what}: {self.option} gives {gain if self.is_measured else f'at most {gain}'}"


def bottlenecks(measured: Measured) -> list[Bottleneck]:
    """Find the bottlenecks of a step, the largest gain first; the last one remains after all others.

    Example:
        >>> parts = Measured("cpu", 2, 2, "bf16", 32, 1, 4096, 2e11, 2000, 80, 5, None, {"bf16": 2e11}, 0, 0.75, 0.99,
        ...                  1e9, 8e9)
        >>> [found.place for found in bottlenecks(parts)]
        ['padding', 'arithmetic']
        >>> print(bottlenecks(parts)[0])
        rows are 75 % full: --pack gives at most +32% useful tokens
    """
    found = [
        one
        for one in (
            _data(measured),
            _padding(measured),
            _precision(measured),
            _threads(measured),
            _launches(measured),
            _memory(measured),
        )
        if one is not None
    ]
    return [*sorted(found, key=lambda one: -one.gain), _rest(measured)]


def _data(measured: Measured) -> Bottleneck | None:
    gain = measured.read / measured.step
    if gain < WORTH:
        return None
    what = f"reading a step's rows takes {measured.read:.0f} ms, computing it {measured.step:.0f}"
    return Bottleneck("data", gain, False, what, "a corpus on a local disk (corpus.path)")


def _padding(measured: Measured) -> Bottleneck | None:
    gain, is_measured = _gain(measured, "--pack", measured.packed_fill / measured.fill)
    what = f"rows are {100 * measured.fill:.0f} % full"
    return Bottleneck("padding", gain, is_measured, what, "--pack") if gain >= WORTH else None


def _precision(measured: Measured) -> Bottleneck | None:
    rates, now = measured.matrix_rate, measured.precision
    other = "bf16" if now == "fp32" else "fp32"
    option = f"--precision {other}"
    # Only the time spent in matrix products shrinks.
    share = min(1.0, measured.achieved / rates[now])
    bound = 1 / (1 - share + share * rates[now] / rates[other]) if other in rates else 1.0
    gain, is_measured = _gain(measured, option, bound)
    if gain < WORTH:
        return None
    faster = rates[other] / rates[now] if other in rates else gain
    what = f"matrix products in {other} are {faster:.1f} times as fast here as in {now}"
    return Bottleneck("precision", gain, is_measured, what, option)


def _threads(measured: Measured) -> Bottleneck | None:
    if measured.device != "cpu" or measured.threads == measured.cores:
        return None
    what = f"torch uses {measured.threads} of {measured.cores} cores"
    gain = max(measured.cores / measured.threads, WORTH)  # more threads than cores wait for each other
    return Bottleneck("threads", gain, False, what, f"OMP_NUM_THREADS={measured.cores}")


def _launches(measured: Measured) -> Bottleneck | None:
    if measured.host is not None:
        # The GPU idles when the host launches work more slowly than the GPU computes it.
        is_bound = measured.host > FULL * measured.step
        share = measured.fixed if is_bound else 0.0
        what = f"the host hands out work for {measured.host:.1f} of a step's {measured.step:.1f} ms"
    else:
        share = measured.fixed
        what = f"{100 * share:.0f} % of a step does not grow with its rows ({measured.rows} at once)"
    option = "train.compile=true"
    if measured.accumulation > 1:
        option = f"train.accumulation={measured.accumulation // 2}"
    elif measured.is_compiled:
        option = "train.cuda_graphs=true" if measured.host is not None else ""
    gain, is_measured = _gain(measured, option, min(1 / max(1 - share, 0.1), 10.0))
    return Bottleneck("launches", gain, is_measured, what, option) if gain >= WORTH and share and option else None


def _memory(measured: Measured) -> Bottleneck | None:
    if not measured.memory_limit or measured.memory < FULL * measured.memory_limit:
        return None
    what = f"{measured.memory / 2**30:.1f} of {measured.memory_limit / 2**30:.1f} GiB of memory are used"
    option = f"train.accumulation={2 * measured.accumulation} or train.gradient_checkpointing=true"
    return Bottleneck("memory", 1.0, True, what, option)


def _rest(measured: Measured) -> Bottleneck:
    share = measured.achieved / measured.rate
    what = (
        f"{measured.achieved / 1e9:,.0f} GFLOP/s are {100 * share:.0f} % of what large matrix products in "
        f"{measured.precision} reach here"
    )
    if share >= CLOSE:
        return Bottleneck("arithmetic", 1.0, False, f"{what}: the rest is a faster machine's to give")
    gain, is_measured = _gain(measured, "train.compile=true", 1.0)
    option = "train.compile=true" if gain >= WORTH else ""
    what = f"{what}: small products and what lies between them, bound by memory"
    return Bottleneck("traffic", max(1.0, gain) if option else 1.0, is_measured, what, option)


def _gain(measured: Measured, option: str, bound: float) -> tuple[float, bool]:
    """Gain of an option, measured if it was tried, else its upper bound; and whether it was measured."""
    return measured.tried.get(option, bound), option in measured.tried
