"""What all pages have in common: one file that needs nothing else, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trueneg import __version__
from trueneg.files.whole import write_whole
from trueneg.printable import printable

LAYOUT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>trueneg: {% block title %}{% endblock %}</title>
<style>
:root { color-scheme: light dark; --good: #1a7f37; --bad: #b3261e; --box: #8881; }
@media (prefers-color-scheme: dark) { :root { --good: #56d364; --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .3rem .8rem; text-align: left;
  border-bottom: 1px solid #8884; vertical-align: top; } td.number { text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.gold { text-decoration: line-through; opacity: .7; } .predicted { color: var(--good); font-weight: 600; }
.context { opacity: .85; } svg { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
footer { margin: 3rem 0 1rem; font-size: .85rem; opacity: .7; }
{% block style %}{% endblock %}</style></head><body>
{% block body %}{% endblock %}
<footer>trueneg {{ version }}, {% block source %}from result files only{% endblock %}.</footer>
</body></html>
"""


def write_page(
    template: str, out: Path, *, filters: Mapping[str, Callable[..., str]] | None = None, **values: Any
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
    """A value as a page shows it; what is markup already stays as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
