"""Descriptions of a run's sources: their shares, and how the held-out loss of each changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueneg.config.options import PretrainConfig


def shares_of(config: PretrainConfig, records: Sequence[Mapping[str, Any]]) -> str:
    """Name a mixture's corpora with their shares of rows, as configured or, if by size, as read; empty for one corpus.

    Args:
        config: The run's configuration.
        records: The records of its ``metrics.jsonl``.

    Example:
        >>> from trueneg.config.codec import override
        >>> shares_of(override(PretrainConfig(), ["corpus.mixture=data/wiki:7, data/books:3"]), [])
        'wiki 70.0%, books 30.0%'
    """
    if not config.corpus.mixture:
        return ""
    names, weights = config.corpus.names, [source.weight for source in config.corpus.sources]
    total = sum(weight for weight in weights if weight is not None)
    last: Mapping[str, Any] = next((record for record in reversed(records) if record.get("kind") == "train"), {})
    said = []
    for source in config.corpus.sources:
        name = names[source.path]
        share = last.get(f"source/{name}/share") if source.weight is None else float(source.weight / total)
        said.append(name if share is None else f"{name} {share:.1%}")
    return ", ".join(said)


def changes(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe how the held-out loss of each of several sources changed, from the first evaluation to the last.

    Example:
        >>> changes([{"step": 0, "kind": "eval", "source/a/loss": 2.0}, {"step": 9, "kind": "eval",
        ...     "source/a/loss": 2.5}])
        ['a: held-out loss 2.0000 before the first step, 2.5000 at step 9 (+0.5000: forgotten)']
    """
    measured = [record for record in records if record.get("kind") == "eval" and names_in(record)]
    if not measured:
        return []
    first, last = measured[0], measured[-1]
    told = []
    for name in names_in(last):
        after = last[f"source/{name}/loss"]
        before = first.get(f"source/{name}/loss") if first["step"] < last["step"] else None
        is_start = first["step"] == 0
        start = "before the first step" if is_start else f"at step {first['step']:,}"
        since = "" if before is None else f"{before:.4f} {start}, "
        verdict = ": forgotten" if before is not None and is_start and after > before else ""
        change = "" if before is None else f" ({after - before:+.4f}{verdict})"
        told.append(f"{name}: held-out loss {since}{after:.4f} at step {last['step']:,}{change}")
    return told


def names_in(record: Mapping[str, Any]) -> list[str]:
    """List the sources whose held-out loss a record has."""
    return [name[len("source/") : -len("/loss")] for name in record if name[:7] == "source/" and name[-5:] == "/loss"]
