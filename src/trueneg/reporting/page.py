"""The layout of all pages: one self-contained file, light or dark as the reader's system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trueneg.files.whole import write_whole
from trueneg.terminal.printable import printable
from trueneg.version import __version__

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
