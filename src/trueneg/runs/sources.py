"""What a run says of its sources: shares and epochs before it begins, and what became of each when it ends."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from trueneg.config.options import PretrainConfig
from trueneg.corpus.mixture import MixedRows
from trueneg.corpus.rows import NumberedRows
from trueneg.errors import TruenegWarning

MANY_EPOCHS = 4.0
"""Up to so many, repeated text is nearly as good as new (Muennighoff et al. 2023, language models of one direction)."""


def table_of(rows: NumberedRows, config: PretrainConfig) -> list[str]:
    """Say what share each source of a mixture will have, and how often it is read; nothing for one corpus."""
    if not isinstance(rows, MixedRows):
        return []
    epochs = rows.epochs(config.train.steps * config.train.batch_size)
    lines = [
        f"  {name}: {share:.2%} of the rows, {share * index.mean_fill / rows.mean_fill:.2%} of the tokens; "
        f"{len(index):,} rows, read {epochs[name]:.2f} times"
        for name, share, index in zip(rows.names, rows.asked, rows.sources, strict=True)
    ]
    return [f"mixture of {len(rows.names)} corpora:", *lines]


def warn_of_repetition(rows: NumberedRows, config: PretrainConfig) -> None:
    """Say which sources of a mixture will be read many times."""
    epochs = rows.epochs(config.train.steps * config.train.batch_size)
    often = {name: value for name, value in epochs.items() if value > MANY_EPOCHS}
    if isinstance(rows, MixedRows) and often and not config.corpus.max_epochs:
        told = ", ".join(f"'{name}' {value:.1f} times" for name, value in often.items())
        warnings.warn(
            f"the run reads {told}, in a new order each time: more text of it, or a smaller weight, repeats less; "
            f"corpus.max_epochs=N refuses more than N",
            TruenegWarning,
            stacklevel=3,
        )


def ending_of(rows: NumberedRows, records: Sequence[Mapping[str, Any]], step: int) -> list[str]:
    """Say what became of each source: its share, and its held-out loss before and after; nothing for one corpus.

    Args:
        rows: What was read.
        records: Of ``metrics.jsonl``.
        step: Steps done.
    """
    trained = [record for record in records if record["kind"] == "train"]
    lines = []
    if isinstance(rows, MixedRows) and trained:
        for name, asked in zip(rows.names, rows.asked, strict=True):
            share, epochs = (trained[-1].get(f"source/{name}/{what}", 0.0) for what in ("share", "epochs"))
            lines.append(f"  {name}: asked {asked:.2%} of the rows, read {share:.2%}, {epochs:.2f} times")
    lines += [f"  {change}" for change in changes(records, step)]
    return ["sources:", *lines] if lines else []


def changes(records: Sequence[Mapping[str, Any]], step: int) -> list[str]:
    """Say how the held-out loss of each source changed, of several, from the first evaluation to the last.

    Example:
        >>> changes([{"step": 0, "kind": "eval", "source/a/loss": 2.0}, {"step": 9, "kind": "eval",
        ...     "source/a/loss": 2.5}], 9)
        ['a: held-out loss 2.0000 before the first step, 2.5000 at step 9 (+0.5000: forgotten)']
    """
    measured = [
        record for record in records if record["kind"] == "eval" and record["step"] <= step and names_in(record)
    ]
    if not measured:
        return []
    first, last = measured[0], measured[-1]
    told = []
    for name in names_in(last):
        after = last[f"source/{name}/loss"]
        before = first.get(f"source/{name}/loss") if first["step"] < last["step"] else None
        start = "before the first step" if first["step"] == 0 else f"at step {first['step']:,}"
        since = "" if before is None else f"{before:.4f} {start}, "
        change = "" if before is None else f" ({after - before:+.4f}{': forgotten' if after > before else ''})"
        told.append(f"{name}: held-out loss {since}{after:.4f} at step {last['step']:,}{change}")
    return told


def names_in(record: Mapping[str, Any]) -> list[str]:
    """Names of the sources whose held-out loss a record has."""
    return [name[len("source/") : -len("/loss")] for name in record if name[:7] == "source/" and name[-5:] == "/loss"]
