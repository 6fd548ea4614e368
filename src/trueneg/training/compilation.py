"""Whether a step is compiled, and with what: ``train.compile`` and ``train.cuda_graphs``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError, TruenegWarning

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def is_to_be_compiled(config: TrainConfig, device: torch.device, world_size: int = 1) -> bool:
    """Whether a run's step is compiled: as configured, but not, with a warning, where compilation is impossible.

    Args:
        config: The run's configuration.
        device: The training device.
        world_size: Number of processes.

    Raises:
        ConfigError: for CUDA graphs without a GPU, with several processes, or with ``compile=false``.
    """
    if config.cuda_graphs:
        _check_cuda_graphs(config, device, world_size)
    if config.compile is False or (config.compile == "auto" and device.type != "cuda"):
        return False
    if reason := why_not(device):
        warnings.warn(
            f"the step is not compiled, and so slower: {reason}; train.compile=false asks for that",
            TruenegWarning,
            stacklevel=3,
        )
        return False
    return True


def compiled(function: Compiled, config: TrainConfig) -> Compiled:
    """Compile a module or a function, with CUDA graphs if configured."""
    options = {"options": {"triton.cudagraphs": True}} if config.cuda_graphs else {}
    made: Compiled = torch.compile(function, **options)  # type: ignore[call-overload]
    return made


def why_not(device: torch.device) -> str:
    """Why compiling for a device is impossible here; empty if a small test compilation succeeds."""
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return "the package 'triton' is not installed"
    names: tuple[str, ...] = ("gcc", "clang", "cc")
    variable, language = "CC", "C"
    if device.type != "cuda":
        names = ("clang++",) if sys.platform == "darwin" else ("g++",)
        variable, language = "CXX", "C++"
    named = os.environ.get(variable)
    if sys.platform != "win32" and not any(map(shutil.which, (named,) if named else names)):
        return f"there is no {language} compiler ('{named or names[0]}' is not found; {variable} can name another)"
    try:
        torch.compile(_small)(torch.ones(8, device=device))
    except Exception as error:  # compilers raise errors of many types
        return f"compiling does not work here ({root_cause_line(error)})"
    return ""


def root_cause_line(error: BaseException) -> str:
    """The most informative line of an error: the first one of its root cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Dynamo and Inductor begin with a line that only names the backend.
    told = next((line for line in lines if not line.startswith("backend=")), "")
    return told or type(error).__name__


def is_of_compiler(error: BaseException) -> bool:
    """Whether an error was raised by torch's compiler itself."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))


def _small(values: torch.Tensor) -> torch.Tensor:
    return values.sin() + 1


def _check_cuda_graphs(config: TrainConfig, device: torch.device, world_size: int) -> None:
    if config.compile is False:
        raise ConfigError("train.cuda_graphs records a compiled step: leave it out, or train.compile=false")
    if device.type != "cuda":
        raise ConfigError(
            f"train.cuda_graphs records what a GPU is given, and this run trains on {device.type}: leave it out"
        )
    if world_size > 1:
        raise ConfigError(
            f"train.cuda_graphs: the step of {world_size} processes is cut where gradients are sent, and cannot be "
            f"recorded: leave it out, or train on one GPU"
        )
