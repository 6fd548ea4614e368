"""From sums over a stretch of training to what a person reads."""

from __future__ import annotations

from collections.abc import Mapping

import torch

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
"""Reading to (numerator, denominator). ``corrected`` and ``corrected_rows`` are the paper's Table 2: the share of
mispredictions, and of rows, in which a correction happened."""


class Meter:
    """Adds up sums on the device, in float64, until they are asked for."""

    def __init__(self, sums: Sums | None = None) -> None:
        self._sums = dict(sums or {})

    def add(self, outcome: Outcome, counts: Sums) -> None:
        """Add a micro-batch's sums, and its own denominators."""
        named = {f"term/{name}": value for name, value in outcome.terms.items()}
        named |= {f"count/{name}": counts[name] for name in outcome.terms}
        named |= {f"stat/{name}": value for name, value in outcome.stats.items()}
        for name, value in named.items():
            value = value.to(torch.float64)
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def gather(self, processes: Processes) -> dict[str, float]:
        """Sum over all processes, leaving the whole with the main one: what a checkpoint keeps of it."""
        total = processes.all_sum(self._sums)
        self._sums = total if processes.is_main else {name: value * 0 for name, value in total.items()}
        return {name: value.item() for name, value in total.items()}

    def read(self, processes: Processes, weights: Mapping[str, float]) -> dict[str, float]:
        """Sum over all processes, turn into readings, and start again from nothing.

        Returns:
            ``loss`` (the weighted sum of terms), ``loss/<term>`` and the ratios of ``RATIOS`` that apply. A ratio
            whose denominator is 0 is left out.
        """
        sums = {name: value.item() for name, value in processes.all_sum(self._sums).items()}
        self._sums = {}
        return readings(sums, weights)


def readings(sums: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Turn named sums into readings; see ``Meter.read``."""
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
