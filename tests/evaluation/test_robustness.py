"""A model before and under attack, over its seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from made_up_results import guesses, labels, write_result
from trueneg.evaluation.results.robustness import robustness
from trueneg.evaluation.results.summary import read_runs


def test_groups_are_drawn_whole_if_the_results_of_any_seed_have_them(tmp_path: Path) -> None:
    """Results of earlier versions have none."""
    gold = labels(400)
    for seed in (1, 2, 3):
        columns = {"gold": gold, "predicted": guesses(gold, 0.5, seed), "predicted_before": guesses(gold, 0.8, seed)}
        columns |= {"group": np.repeat(np.arange(40), 10)} if seed == 2 else {}
        metrics = ("accuracy_before", "accuracy_under_attack")
        write_result(tmp_path, "mr", seed, columns, split="attack-typos", metrics=metrics)
    (found,) = robustness(read_runs(tmp_path))
    assert found.change is not None and (found.change.num, found.num_examples) == (40, 400)
