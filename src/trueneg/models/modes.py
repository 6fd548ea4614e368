"""Evaluation mode that restores the mode of every module afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode, and restore each module's own mode at the end, also after an error.

    ``module.train(was_training)`` would not do: it puts all submodules into one mode, including those that are kept in
    evaluation mode.

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
