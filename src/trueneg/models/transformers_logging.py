"""Silence the progress bars, reports and internal warnings of transformers and of torch's exporter."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from writing to standard error while it loads or saves; we report what matters ourselves."""
    from transformers.utils import logging as settings

    before = settings.get_verbosity()
    had_bars = settings.is_progress_bar_enabled()
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        settings.set_verbosity(before)
        if had_bars:
            settings.enable_progress_bar()


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Keep the warnings of torch's ONNX exporter, which are about its internals, off standard error."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
