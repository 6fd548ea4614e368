"""The layout of all pages, one self-contained file each, and the style of all pictures: plain labels and no dates."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.files.whole import whole_file, write_whole
from trueneg.terminal.printable import printable
from trueneg.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"
"""Replaced by the page's text colour."""

LAYOUT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>trueneg: {% block title %}{% endblock %}</title>
<style>
:root { color-scheme: light dark; --good: #1a7f37; --bad: #b3261e; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --good: #56d364; --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, p, dt, dd { overflow-wrap: anywhere; } h1 { line-height: 1.2; } .aside { opacity: .75; max-width: 50rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .3rem .8rem; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; } .number { text-align: right;
  font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
.gold { text-decoration: line-through; opacity: .7; } .predicted { color: var(--good); font-weight: 600; }
.context { opacity: .85; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 1rem;
  margin: 1.5rem 0; }
.charts figure { margin: 0; } .charts svg { width: 100%; height: auto; }
.charts text { font-family: system-ui, sans-serif !important; }
footer { margin: 3rem 0 1rem; font-size: .85rem; opacity: .7; }
@media (max-width: 700px) {
  body { margin-top: 1rem; }
  .charts { grid-template-columns: 1fr; }
  table.stacked thead { display: none; }
  table.stacked, table.stacked tbody, table.stacked td { display: block; }
  table.stacked tr { display: flex; flex-direction: column; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  table.stacked td { border: 0; padding: .1rem 0; text-align: left; white-space: normal; overflow-wrap: anywhere; }
  table.stacked td.context { order: -1; opacity: 1; }
  table.stacked td[data-label]::before { content: attr(data-label) ": "; display: inline-block; margin-right: .4em;
    opacity: .65; color: CanvasText; font-weight: 400; }
}
{% block style %}{% endblock %}</style></head><body>
{% block body %}{% endblock %}
<footer>trueneg {{ version }}, {% block source %}made from files of results{% endblock %}.</footer>
</body></html>
"""


def write_page(
    template: str, out: Path, *, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any
) -> Path:
    """Fill a template that extends ``page`` and write it.

    Args:
        template: Jinja's, with blocks ``title``, ``style``, ``body`` and ``source``; text put into it is escaped.
        out: The HTML file; its folder is made.
        filters: The template's own, by name.
        values: What the template names.
    """
    from jinja2 import DictLoader, Environment

    environment = Environment(autoescape=True, trim_blocks=True, loader=DictLoader({"page": LAYOUT}), finalize=_shown)
    environment.filters.update(filters or {})
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, environment.from_string(template).render(version=__version__, **values))
    return out


def _shown(value: Any) -> Any:
    """Show a value on a page; markup stays as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, SVG or PDF file, by the path's extension, without the frame's upper and right side."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part:
        figure.savefig(part, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else {})
