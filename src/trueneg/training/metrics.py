"""Metrics, from sums accumulated over several steps."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from trueneg.hardware import has_float64, to_float64
from trueneg.objectives.base import EPS, Outcome, Sums
from trueneg.training.distributed import Processes

RATIOS = {
    "accuracy": ("num_right", "num_masked"),
    "gold_loss": ("gold_loss", "num_masked"),
    "mispredicted": ("num_mispredicted", "num_masked"),
    "corrected": ("num_corrected", "num_mispredicted"),
    "corrected_rows": ("num_rows_corrected", "num_rows"),
    "credit": ("credit", "num_mispredicted"),
    "detection_accuracy": ("num_detected_right", "num_tokens"),
    "detection_precision": ("num_replaced_found", "num_called_replaced"),
    "detection_recall": ("num_replaced_found", "num_replaced"),
    "mlm_loss": ("raw_mlm", "num_masked"),
    "contrast_loss": ("raw_contrast", "num_pairs"),
    "triplet_accuracy": ("num_triplets_right", "num_pairs"),
    "synonym_replaced": ("num_synonym_replaced", "num_synonym_tokens"),
    "antonym_replaced": ("num_antonym_replaced", "num_antonym_tokens"),
    "synonym_cut": ("num_synonym_cut", "num_synonym_tokens"),
    "antonym_cut": ("num_antonym_cut", "num_antonym_tokens"),
    "without_negative": ("num_without_negative", "num_rows"),
    "synonym_trust": ("trust_synonym", "num_rows"),
    "antonym_trust": ("trust_antonym", "num_rows"),
    "judged": ("num_judged", "num_put"),
}
"""Metric to (numerator, denominator). ``corrected`` and ``corrected_rows`` are the paper's Table 2: the share of
mispredictions, and of rows, in which a correction happened."""


class Meter:
    """Accumulates sums on the device, in one float64 vector, until they are read.

    Args:
        sums: Sums to start from.
        device: Device to accumulate on.
    """

    def __init__(self, sums: Mapping[str, float] | None = None, device: torch.device | None = None) -> None:
        sums = sums or {}
        self._names = tuple(sums)
        place = device if device is None or has_float64(device) else None
        self._sums = torch.tensor(list(sums.values()), dtype=torch.float64, device=place)

    def add(self, outcome: Outcome, counts: Sums) -> None:
        """Add a micro-batch's sums and denominators."""
        named = {f"term/{name}": value for name, value in outcome.terms.items()}
        named |= {f"count/{name}": counts[name] for name in outcome.terms}
        named |= {f"stat/{name}": value for name, value in outcome.stats.items()}
        names = tuple(named)
        # Stacked in their own float32, and converted with one kernel launch.
        added = to_float64(torch.stack([_exact(value) for value in named.values()]))
        if self._names == names:
            self._sums = self._sums + added
        elif not self._names:
            self._names, self._sums = names, added
        else:
            # After loading a checkpoint of another version, or where an objective does not always return the same sums.
            whole = dict.fromkeys((*names, *self._names), added.new_zeros(()))
            for own, values in ((self._names, self._sums), (names, added)):
                whole |= {name: whole[name] + value for name, value in zip(own, values.unbind(), strict=True)}
            self._names, self._sums = tuple(whole), torch.stack(list(whole.values()))

    def gather(self, processes: Processes) -> dict[str, float]:
        """Sum over all processes, for a checkpoint; from then on the main process alone holds the total."""
        total = processes.sum_of(self._sums)
        self._sums = total if processes.is_main else total * 0
        return dict(zip(self._names, total.tolist(), strict=True))

    def read(
        self, processes: Processes, weights: Mapping[str, float], beside: Mapping[str, Tensor] | None = None
    ) -> dict[str, float]:
        """Sum over all processes, compute metrics, and reset.

        Args:
            processes: The processes to sum over.
            weights: Weight of each term in the loss.
            beside: Scalars on the same device that are read in the same transfer and returned unchanged.

        Returns:
            ``loss`` (the weighted sum of terms), ``loss/<term>`` and the ratios of ``RATIOS`` that apply. A ratio
            whose denominator is 0 is left out.
        """
        beside = beside or {}
        total = processes.sum_of(self._sums)
        values = torch.cat([total, *(to_float64(value).view(1) for value in beside.values())]).tolist()
        sums = dict(zip(self._names, values, strict=False))
        self._names, self._sums = (), self._sums[:0]
        return readings(sums, weights) | dict(zip(beside, values[len(sums) :], strict=True))


def _exact(value: Tensor) -> Tensor:
    return value if value.dtype == torch.float32 else to_float64(value)


def readings(sums: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Compute metrics from named sums; see ``Meter.read``."""
    stats = {name.removeprefix("stat/"): value for name, value in sums.items() if name.startswith("stat/")}
    if "num_masked" in stats:
        stats["num_right"] = stats["num_masked"] - stats["num_mispredicted"]
    terms = {
        name.removeprefix("term/"): value / max(sums[name.replace("term/", "count/")], EPS)
        for name, value in sums.items()
        if name.startswith("term/")
    }
    result = {"loss": sum(weights.get(name, 1.0) * value for name, value in terms.items())}
    result |= {f"loss/{name}": value for name, value in terms.items()}
    for name, (numerator, denominator) in RATIOS.items():
        if stats.get(denominator) and numerator in stats:
            result[name] = stats[numerator] / stats[denominator]
    return result
