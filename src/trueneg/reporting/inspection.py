"""Figure 3 as a page: each masked word, its predictions, and the detectors' verdicts on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.reporting.page import write_page
from trueneg.reporting.tables import short_names
from trueneg.terminal.printable import printable

Summary = Mapping[str, Any]
"""What ``trueneg inspect … --json`` prints."""

TEMPLATE = """{% extends "page" %}
{% block title %}{{ text }}{% endblock %}
{% block style %}
.sentence { border: 2px solid #d9822b; border-radius: 8px; padding: .6rem .9rem; overflow-wrap: anywhere; }
.word { background: #d9822b33; border-radius: 4px; padding: 0 .2rem; color: inherit; text-decoration: none; }
.word.accepted { border-bottom: 3px solid var(--good); } .word.wrong { border-bottom: 3px dotted var(--bad); }
.pair { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: center; margin: .8rem 0; }
.token { background: #7c4dff2e; border: 1px solid #7c4dff; border-radius: 999px; padding: .1rem .8rem; }
.synonyms { border: 2px solid #2d7dd2; border-radius: 8px; padding: .4rem .9rem; margin: .8rem 0; }
.accepts { color: var(--good); font-weight: 600; } .rejects { color: var(--bad); } td.aside { opacity: .8; }
section { margin-top: 2.2rem; } td.verdict { white-space: nowrap; font-variant-numeric: tabular-nums; }
th.name { overflow-wrap: anywhere; min-width: 6rem; }
{% endblock %}
{% block source %}predictions of {{ checkpoint }}{% endblock %}
{% block body %}
<h1>What could stand there</h1>
<p class="aside">Predictions of {{ checkpoint }}.</p>
<p class="sentence">{{ overview }}</p>
<p class="aside">Words were masked one at a time. Underlined: another word was predicted, and a detector keeps it from
being punished; dotted: something else was predicted, and it is punished. In the tables ✓ is a prediction that the
detector accepts, ✗ one that it rejects, with its score; in brackets where training never asks: it asks about whole
words of one casing that are no stop words and, but for <code>lexical[forms=retrieved]</code>, have three letters or
more.</p>
<table><tr><th>detector</th><th class="number">accepts from</th></tr>
{% for name, threshold in detectors %}<tr><td>{{ name }}</td>
<td class="number">{{ "%.2f" | format(threshold) }}</td></tr>
{% endfor %}</table>
{% for word in words %}
<section id="word-{{ loop.index }}">
<p class="sentence">{{ text[:word.start] }}<span class="word">{{ word.gold }}</span>{{ text[word.end:] }}</p>
<div class="pair"><span>gold</span><span class="token">{{ word.gold }}
{{ word.gold_probability | share }}</span>
<span>predicted</span><span class="token">{{ word.predictions[0].text }}
{{ word.predictions[0].probability | share }}</span>
{% if word.gold_rank %}<span class="aside">gold ranks {{ "{:,}".format(word.gold_rank) }}</span>{% endif %}
{% if word.pieces | length > 1 %}<span class="aside">pieces {{ word.pieces | join(" ") }}, masked together;
probabilities are products</span>{% endif %}
{% if word.note %}<span class="aside">{{ word.note }}</span>{% endif %}</div>
<div class="wide"><table><tr><th>predicted</th><th>p</th>{% for name, _ in detectors %}<th class="name">{{ name }}</th>
{% endfor %}</tr>
{% for p in word.predictions %}<tr><td>{{ p.text }}</td><td class="number">{{ p.probability | share }}</td>
{% if p.is_gold %}<td colspan="{{ detectors | length }}">gold</td>{% else %}
{% for v in p.verdicts %}<td class="verdict {{ "aside" if v.score is none or not p.is_correctable }}">
{% if v.score is none %}no word{% else %}<span class="{{ "accepts" if v.is_accepted else "rejects" }}">
{{- "" if p.is_correctable else "(" }}{{ "✓" if v.is_accepted else "✗" }} {{ "%.2f" | format(v.score) -}}
{{ "" if p.is_correctable else ")" }}</span>{% endif %}</td>
{% endfor %}{% endif %}</tr>
{% endfor %}</table></div>
{% if word.synonyms is not none %}<p class="synonyms">WordNet's synonyms in the vocabulary:
{{ word.synonyms | join(", ") or "none" }}</p>{% endif %}
</section>
{% endfor %}
{% endblock %}
"""


def write_inspection(summary: Summary, out: str | Path) -> Path:
    """Write an inspection as a self-contained page.

    Args:
        summary: An inspection as plain data.
        out: The HTML file.
    """
    names = short_names(summary["detectors"])
    return write_page(
        TEMPLATE,
        Path(out),
        filters={"share": share},
        checkpoint=summary["checkpoint"],
        text=summary["text"],
        words=summary["words"],
        detectors=list(zip((names[name] for name in summary["detectors"]), summary["thresholds"], strict=True)),
        overview=_overview(summary),
    )


def share(probability: float) -> str:
    """Format a probability in percent, small ones in powers of ten.

    Example:
        >>> share(0.1234), share(0.0000012)
        ('12.3%', '1.2e-06')
    """
    return f"{probability:.1%}" if probability >= 0.0005 else f"{probability:.1e}"


def standing(word: Mapping[str, Any]) -> str:
    """Return how training treats the most probable prediction: ``right``, ``accepted`` by a detector, or ``wrong``."""
    first = word["predictions"][0]
    if first["is_gold"]:
        return "right"
    is_accepted = first["is_correctable"] and any(verdict["is_accepted"] for verdict in first["verdicts"])
    return "accepted" if is_accepted else "wrong"


def _overview(summary: Summary) -> Any:
    """Return the text, with a link from each masked word to its predictions."""
    from markupsafe import Markup

    text, shown, done = summary["text"], Markup(""), 0
    for number, word in enumerate(summary["words"], start=1):
        if word["start"] >= done:  # of overlapping words, only the first is marked
            link = Markup('<a class="word {}" href="#word-{}">{}</a>').format(
                standing(word), number, printable(word["gold"])
            )
            shown += Markup("{}{}").format(printable(text[done : word["start"]]), link)
            done = word["end"]
    return shown + Markup("{}").format(printable(text[done:]))
