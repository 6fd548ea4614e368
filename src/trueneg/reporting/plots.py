"""What all pictures have in common: labels are text, whatever they hold, and nothing moves outside of a page."""

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
"""Becomes the colour of the page's text."""


@contextmanager
def plain_labels() -> Iterator[None]:
    """Figures made inside take no label for a formula, such as a folder's name with two dollars."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):
        yield


def label(text: str) -> str:
    """A name as a legend takes it: what begins with an underscore would be left out."""
    return printable(f" {text}" if text.startswith("_") else text)


@contextmanager
def page_style() -> Iterator[None]:
    """Figures made inside have no background, and the ink and the letters of the page that they are put into."""
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
    """A figure of ``page_style`` as an element of a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()[buffer.getvalue().index("<svg") :].strip().replace(_INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(description))}"', 1)
