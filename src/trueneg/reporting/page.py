"""The layout of all pages, one self-contained file each, and the style of all charts: plain labels and no dates."""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.files.whole import whole_file, write_whole
from trueneg.terminal.printable import printable
from trueneg.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"
"""Replaced by the page's text colour."""

SERIES = tuple(f"#01030{number}" for number in range(8))
"""Colours of lines; each is replaced by one of the page's, which differ between light and dark mode."""

STANDINGS = {"better": "#010310", "worse": "#010311", "open": "#010312"}
"""Colours of the outcomes of comparisons, likewise replaced."""


def write_page(
    template: str, out: Path, *, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any
) -> Path:
    """Render a template that extends ``page``, and write the result.

    Args:
        template: Jinja template with blocks ``title``, ``style``, ``body`` and ``source``; inserted text is escaped.
        out: The HTML file; its folder is created.
        filters: Additional filters of the template, by name.
        values: Variables of the template.
    """
    from jinja2 import Environment, FunctionLoader
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, trim_blocks=True, loader=FunctionLoader(lambda name: asset(f"{name}.html")), finalize=_shown
    )
    environment.filters.update(filters or {})
    environment.globals["asset"] = lambda name: Markup(asset(name))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, environment.from_string(template).render(version=__version__, **values))
    return out


def asset(name: str) -> str:
    """Read one of the files that pages are built from."""
    return resources.files("trueneg.reporting").joinpath("assets", name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Make a value printable on a page; markup is left unchanged."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


_NOISE = re.compile(r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*", re.DOTALL)


@contextmanager
def plain_labels() -> Iterator[None]:
    """Keep figures from parsing labels as formulas, such as a folder name with two dollar signs."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):
        yield


def label(text: str) -> str:
    """Escape a name for a legend, which omits names that begin with an underscore."""
    return printable(f" {text}" if text.startswith("_") else text)


@contextmanager
def page_style() -> Iterator[None]:
    """Draw figures without a background, in the colours and fonts of the surrounding page."""
    from matplotlib import rc_context

    ink = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: dict[Any, Any] = {
        **dict.fromkeys(ink, _INK),
        **{"figure.facecolor": "none", "axes.facecolor": "none", "legend.frameon": False, "grid.color": "#888888"},
        **{"svg.fonttype": "none", "svg.hashsalt": "trueneg", "font.size": 10.5, "axes.titlesize": 10.5},
        **{"axes.titlelocation": "left", "axes.titleweight": "bold"},
        **{"axes.spines.top": False, "axes.spines.right": False},
    }
    with plain_labels(), rc_context(style):
        yield


def inline_svg(figure: Figure, description: str) -> str:
    """Convert a figure drawn in ``page_style`` to an inline SVG element with unique ids."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = _NOISE.sub("", buffer.getvalue()[buffer.getvalue().index("<svg") :]).strip()
    own = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>f{own}-", svg).replace(_INK, "currentColor")
    names = [*(f"c{number}" for number in range(len(SERIES))), "good", "bad", "open"]
    for color, name in zip((*SERIES, *STANDINGS.values()), names, strict=True):
        svg = svg.replace(color, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(printable(description))}"', 1)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, SVG or PDF file, by the path's extension, without the top and right spines."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part:
        figure.savefig(part, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else {})
