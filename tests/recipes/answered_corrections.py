"""What the evaluations of the recipe ``corrections`` would have said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from trueneg.recipes.plan import OUTPUT, Workspace


def answer(workspace: Workspace, figures: Mapping[str, Sequence[float]]) -> None:
    """Write what the evaluations would have written: GAP by arm and seed, and all else the same everywhere."""
    for name in workspace.missing():
        kind, _, rest = name.partition("-")
        if kind not in ("writes", "vectors", "loss"):
            continue
        arm, _, seed = rest.rpartition("-s")
        metrics = {"f10_lenient_acceptable": 0.1, "f10_lenient_conceivable": 0.2, "gap": figures[arm][int(seed) - 1]}
        written = [{"config": {"substitution": {"target": way}}, "metrics": metrics} for way in ("masked", "visible")]
        vectors = [
            {"pooling": pooling, "spearman": spearman}
            for spearman in (0.9, 0.4)  # of the encoder that it continues, and its own
            for pooling in ("cls", "mean")
        ]
        said = {"writes": {"results": written}, "vectors": {"sts": vectors}, "loss": {"readings": {"gold_loss": 3.5}}}
        folder = workspace.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OUTPUT).write_text(json.dumps(said[kind]))
