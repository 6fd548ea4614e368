"""Common style of pictures: labels are plain text, and no file has a date."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trueneg.terminal.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"
"""Replaced by the page's text colour."""


@contextmanager
def plain_labels() -> Iterator[None]:
    """Make figures inside take no label for a formula, such as a folder's name with two dollars."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):
        yield


def label(text: str) -> str:
    """Escape a name for a legend, which leaves out what begins with an underscore."""
    return printable(f" {text}" if text.startswith("_") else text)


@contextmanager
def page_style() -> Iterator[None]:
    """Make figures inside have no background, and the colours and fonts of the page around them."""
    from matplotlib import rc_context

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: dict[Any, Any] = {
        **dict.fromkeys(ink, _INK),
        **{"figure.facecolor": "none", "axes.facecolor": "none", "legend.frameon": False, "grid.color": "#888888"},
        **{"svg.fonttype": "none", "svg.hashsalt": "trueneg"},
    }
    with plain_labels(), rc_context(style):
        yield


def inline_svg(figure: Figure, description: str) -> str:
    """Turn a figure of ``page_style`` into an element of a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()[buffer.getvalue().index("<svg") :].strip().replace(_INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(description))}"', 1)
