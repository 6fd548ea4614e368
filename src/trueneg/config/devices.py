"""GPUs by name: peak throughput in half precision according to their makers, and memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU according to its data sheet."""

    name: str
    bf16: float
    """Dense operations per second of bfloat16 matrix products with float32 accumulation; 0 if unsupported."""
    memory: float
    """Bytes."""
    fp16: float
    """The same in float16."""


def _gpu(name: str, teraflops: float, gigabytes: float, in_fp16: float | None = None) -> Gpu:
    """Make a GPU whose half precisions are equally fast, unless ``in_fp16`` is given."""
    return Gpu(name, teraflops * 1e12, gigabytes * 1e9, (teraflops if in_fp16 is None else in_fp16) * 1e12)


# Names are looked for in the driver's name of the device, the longest first: "H100 PCIe" before "H100".
GPUS = {
    gpu.name: gpu
    for gpu in (
        _gpu("B200", 2250, 180),
        _gpu("GH200", 989, 96),
        _gpu("H200 NVL", 835, 141),
        _gpu("H200", 989, 141),
        _gpu("H100 NVL", 835, 94),
        _gpu("H100 PCIe", 756, 80),
        _gpu("H100", 989, 80),
        _gpu("A100-SXM4-80GB", 312, 80),
        _gpu("A100 80GB PCIe", 312, 80),
        _gpu("A100", 312, 40),
        _gpu("A40", 149.7, 48),
        _gpu("A30", 165, 24),
        _gpu("A10G", 70, 24),
        _gpu("A10", 125, 24),
        _gpu("L40S", 362, 48),
        _gpu("L40", 181, 48),
        _gpu("L4", 121, 24),
        _gpu("RTX A6000", 154.8, 48),
        _gpu("RTX 6000 Ada", 364.2, 48),
        _gpu("RTX 5090", 209.5, 32),
        _gpu("RTX 4090", 165.2, 24),
        _gpu("RTX 3090", 71, 24),
        _gpu("MI300X", 1307, 192),
        _gpu("MI250X", 191.5, 64),
        _gpu("V100", 0, 16, in_fp16=125),
        _gpu("T4", 0, 16, in_fp16=65),
    )
}
"""GPUs by name. Peaks are of the fastest variant if a name has several; clocks, power limits and cooling lower them.
A device is half of an MI250X."""


def find_gpu(name: str) -> Gpu | None:
    """Find a GPU by the name that its driver, or a user, gives it; None if it is not known.

    Example:
        >>> find_gpu("NVIDIA H100 80GB HBM3").name, find_gpu("NVIDIA H100 PCIe").name, find_gpu("NVIDIA L40S").name
        ('H100', 'H100 PCIe', 'L40S')
        >>> find_gpu("NVIDIA A1000") is find_gpu("Intel Arc") is None
        True
    """
    words = _words(name)
    longest_first = sorted(GPUS.values(), key=lambda gpu: -len(gpu.name))
    return next((gpu for gpu in longest_first if _words(gpu.name) <= words), None)


def _words(name: str) -> set[str]:
    return set(name.lower().replace("-", " ").split())
