"""Reports on a run's corpora: shares and epochs before it begins, and the outcome for each when it ends."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from trueneg.config.options import PretrainConfig
from trueneg.corpus.mixture import MixedRows
from trueneg.corpus.rows import NumberedRows
from trueneg.errors import TruenegWarning
from trueneg.reporting.mixtures import changes

MANY_EPOCHS = 4.0
"""Up to this many, repeated text is nearly as good as new (Muennighoff et al. 2023, for causal language models)."""


def table_of(rows: NumberedRows, num_rows: int) -> list[str]:
    """Report each source's share of this many rows, and how often it is read; empty for a single corpus."""
    if not isinstance(rows, MixedRows):
        return []
    epochs = rows.epochs(num_rows)
    lines = [
        f"  {name}: {share:.2%} of the rows, {share * index.mean_fill / rows.mean_fill:.2%} of the tokens; "
        f"{len(index):,} rows, read {epochs[name]:.2f} times"
        for name, share, index in zip(rows.names, rows.asked, rows.sources, strict=True)
    ]
    return [f"mixture of {len(rows.names)} corpora:", *lines]


def warn_of_repetition(rows: NumberedRows, config: PretrainConfig, num_rows: int) -> None:
    """Warn of sources of a mixture that are read many times in this many rows."""
    epochs = rows.epochs(num_rows)
    often = {name: value for name, value in epochs.items() if value > MANY_EPOCHS}
    if isinstance(rows, MixedRows) and often and not config.corpus.max_epochs:
        told = ", ".join(f"'{name}' {value:.1f} times" for name, value in often.items())
        warnings.warn(
            f"the run reads {told}, in a new order each time: more text of it, or a smaller weight, repeats less; "
            f"corpus.max_epochs=N refuses more than N",
            TruenegWarning,
            stacklevel=3,
        )


def ending_of(rows: NumberedRows, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Report each source's share, and its held-out loss before and after; empty for a single corpus.

    Args:
        rows: Rows of the run.
        records: Of ``metrics.jsonl``.
    """
    trained = [record for record in records if record["kind"] == "train"]
    lines = []
    if isinstance(rows, MixedRows) and trained:
        for name, asked in zip(rows.names, rows.asked, strict=True):
            share, epochs = (trained[-1].get(f"source/{name}/{what}", 0.0) for what in ("share", "epochs"))
            lines.append(f"  {name}: asked {asked:.2%} of the rows, read {share:.2%}, {epochs:.2f} times")
    lines += [f"  {change}" for change in changes(records)]
    return ["sources:", *lines] if lines else []
