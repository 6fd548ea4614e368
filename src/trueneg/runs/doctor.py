"""Checks of this machine and its software: one finding per question, each with its remedy.

Nothing is changed and nothing is printed; ``trueneg doctor`` shows the findings.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from trueneg.errors import LexiconError, install_command
from trueneg.lexicon.wordnet import WordNet
from trueneg.lexicon.wordnet_location import cache_folder

Level = Literal["ok", "warn", "bad"]
"""``ok``: no problem; ``warn``: works, but slower or with less; ``bad``: something will fail."""

_FREE_GB = 10.0
"""Below this a run may not fit: it keeps several checkpoints, of 1.3 GB each for BERT-base with optimizer."""


@dataclass(frozen=True)
class Finding:
    """An answer to one question about this machine.

    Attributes:
        name: the question in a word or two, the same on every machine.
        level: severity.
        what: the answer, in one line.
        remedy: what to do about it; empty if there is nothing to do.
    """

    name: str
    level: Level
    what: str
    remedy: str = ""


def diagnose(folder: str | Path = ".") -> list[Finding]:
    """Check this machine for a training run that writes to ``folder``.

    Loads torch and WordNet (seconds) but no model, and does not access the network.
    """
    findings = [_python(), *_packages()]
    if not any(finding.name == "torch" for finding in findings):
        findings += [_accelerator(), _bfloat16(), _threads()]
    return [*findings, _extras(), _tokenizers(), _hub(), _wordnet(), _cache(), _disk(Path(folder))]


def _python() -> Finding:
    """Report the Python version; pip already refuses one that is too old for this package."""
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _requirements() -> list[Requirement]:
    """Requirements of the installed package, from its metadata, so that version ranges are stated only once."""
    return [Requirement(line) for line in metadata.requires("trueneg") or []]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _packages() -> Iterator[Finding]:
    """One finding for each package outside its range (named after the package), or one for all."""
    try:
        needed = [requirement for requirement in _requirements() if _applies(requirement, extra="")]
    except metadata.PackageNotFoundError:
        yield Finding("packages", "warn", "trueneg runs from its source folder", "pip install -e .")
        return
    wrong = False
    for requirement in needed:
        version = _installed(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            wrong = True
            what = f"{version or 'not installed'}, but {requirement.specifier or 'any version'} is needed"
            remedy = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding(requirement.name, "bad", what, remedy)
    if not wrong:
        main = ", ".join(f"{name} {_installed(name)}" for name in ("torch", "transformers"))
        yield Finding("packages", "ok", f"{main} and {len(needed) - 2} more, all in range")


def _extras() -> Finding:
    try:
        extras = metadata.metadata("trueneg").get_all("Provides-Extra") or []
        requirements = _requirements()
    except metadata.PackageNotFoundError:
        extras, requirements = [], []
    packages = {
        extra: [r.name for r in requirements if _applies(r, extra) and not _applies(r, extra="")] for extra in extras
    }
    present = [extra for extra, names in packages.items() if all(map(_installed, names))]
    absent = [extra for extra in extras if extra not in present]
    what = f"installed: {', '.join(present) or 'none'}; not installed: {', '.join(absent) or 'none'}"
    return Finding("extras", "ok", what, install_command("NAME") if absent else "")


def _accelerator() -> Finding:
    import torch

    from trueneg.hardware import is_available

    if torch.cuda.is_available():
        devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        listed = ", ".join(f"{device.name} ({device.total_memory / 2**30:.0f} GiB)" for device in devices)
        return Finding("accelerator", "ok", f"CUDA {torch.version.cuda}: {listed}")
    if is_available("xpu"):
        listed = ", ".join(torch.xpu.get_device_name(i) for i in range(torch.xpu.device_count()))
        return Finding("accelerator", "ok", f"Intel GPU (xpu): {listed}")
    if is_available("mps"):
        what = "an Apple GPU (mps), which is used where it is asked for; without a word training runs on the CPU"
        return Finding("accelerator", "ok", what, "trueneg pretrain … --set train.device=mps")
    if shutil.which("nvidia-smi") is None:
        return Finding("accelerator", "ok", "none: training runs on the CPU")
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    return Finding(
        "accelerator",
        "warn",
        f"nvidia-smi is there, but torch {torch.__version__} ({build}) sees no GPU",
        "compare the driver's CUDA version (nvidia-smi) with torch's, and install the torch built for it",
    )


def _bfloat16() -> Finding:
    """Whether bfloat16 is faster than float32."""
    import torch

    from trueneg.arithmetic import has_bfloat16, is_bfloat16_faster
    from trueneg.hardware import WITH_STREAMS, is_available

    device = torch.device(next(filter(is_available, WITH_STREAMS), "cpu"))
    place = "CPU" if device.type == "cpu" else "GPU"
    is_faster = is_bfloat16_faster(device)
    if is_faster is None:
        return Finding("bfloat16", "warn", "this torch cannot tell whether the CPU has it", "train in float32")
    if is_faster:
        return Finding("bfloat16", "ok", f"native on this {place}, and faster than float32")
    if has_bfloat16(device):
        what = f"native on this {place}, but slower than float32, which train.precision=auto takes"
        return Finding("bfloat16", "ok", what)
    remedy = "train in float32" if place == "CPU" else "train in float16, which train.precision=auto takes"
    return Finding("bfloat16", "warn", f"emulated on this {place}, slower than float32", remedy)


def usable_cores() -> int:
    """Number of cores that this process may use; containers and schedulers may limit it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads() -> Finding:
    import torch

    cores, threads = usable_cores(), torch.get_num_threads()
    what = f"torch uses {threads} of {cores} cores"
    if threads > cores:
        return Finding("threads", "warn", f"{what}: they wait for each other", f"set OMP_NUM_THREADS={cores}")
    if threads == 1 and cores > 1 and "OMP_NUM_THREADS" in os.environ:
        what = f"{what}, as OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']} says"
        return Finding("threads", "warn", what, f"unless several runs share the machine, set it to {cores}")
    return Finding("threads", "ok", what)


def _tokenizers() -> Finding:
    """Check TOKENIZERS_PARALLELISM: a corpus build depends on the tokenizers' own threads."""
    value = os.environ.get("TOKENIZERS_PARALLELISM")
    if value is not None and value.lower() in {"off", "false", "f", "no", "n", "0", ""}:
        what = f"TOKENIZERS_PARALLELISM={value}: a corpus is tokenized on one core"
        return Finding("tokenizers", "warn", what, "unset TOKENIZERS_PARALLELISM")
    return Finding("tokenizers", "ok", f"parallel over {usable_cores()} cores")


def _hub() -> Finding:
    offline = [
        name
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
        if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}
    ]
    if offline:
        what = f"offline ({', '.join(offline)}): hub names are found only if they were downloaded before"
        return Finding("hub", "ok", what)
    return Finding("hub", "ok", "online: hub names are downloaded when they are first used")


def _wordnet() -> Finding:
    try:
        wordnet = WordNet.load()
    except LexiconError as error:
        return Finding("wordnet", "bad", str(error), "trueneg lexicon fetch")
    return Finding("wordnet", "ok", f"{len(wordnet):,} entries in {wordnet.path}")


def _cache() -> Finding:
    """Check that the cache is writable, with a temporary file in the nearest existing folder."""
    folder = cache_folder().absolute()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return Finding("cache", "ok", str(folder))
    except OSError as error:
        what = f"{folder} cannot be written ({error.strerror})"
        return Finding("cache", "bad", what, "set TRUENEG_CACHE to a folder of yours")


def _disk(folder: Path) -> Finding:
    folder = folder.absolute()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(nearest).free / 1e9
    what = f"{free:.0f} GB free in {folder}"
    if free < _FREE_GB:
        remedy = "write to a larger disk (--out): a BERT-base checkpoint with its optimizer is 1.3 GB"
        return Finding("disk", "warn", what, remedy)
    return Finding("disk", "ok", what)
