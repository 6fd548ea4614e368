"""Evaluation without a trace: the mode of every module is what it was before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Turn dropout off, and give each module its own mode back in the end, also after an error.

    ``module.train(was_training)`` would not do: it puts every module within into one mode, those frozen in evaluation
    mode too.

    Example:
        >>> module = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
        >>> with eval_mode(module):
        ...     print([part.training for part in module])
        [False, False]
        >>> [part.training for part in module]
        [True, False]
    """
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, mode in modes:
            part.training = mode
