"""Results of attacks as a former version wrote them: read under the metrics' present names, and said so."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from trueneg.errors import TaskError, TruenegDeprecationWarning
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.store import Result, load_result, save_result
from trueneg.reporting.results import verdict

BEFORE = [1] * 9 + [0]


def write(folder: Path, predicted: list[int], seed: int, *, is_former: bool) -> Path:
    """A model that has nine of ten examples right before the attack; all gold labels are 1."""
    records = [
        {"key": str(n), "gold": 1, "predicted": after, "predicted_before": before}
        for n, (after, before) in enumerate(zip(predicted, BEFORE, strict=True))
    ]
    right = sum(predicted) / 10
    kept = sum(after for after, before in zip(predicted, BEFORE, strict=True) if before) / 9
    if is_former:
        metrics, counts = {"accuracy": right, "accuracy_before": 0.9, "withstood": kept}, {"changed": 10, "unseen": 2}
    else:
        metrics = {"accuracy_under_attack": right, "accuracy_before": 0.9, "attack_success_rate": 1 - kept}
        counts = {"changed": 10, "truncated_away": 2}
    result = Result("mr", "attack-typos-default", seed, metrics, 10, "model", "last", 1, counts)
    return save_result(result, records, folder / "mr" / f"seed-{seed}")


def test_metrics_and_counts_have_their_present_names(tmp_path: Path) -> None:
    path = write(tmp_path, [1] * 6 + [0] * 4, 1, is_former=True)
    with pytest.warns(TruenegDeprecationWarning, match=r"accuracy_under_attack.*attack_success_rate"):
        found = load_result(path)
    assert found.metrics == {
        "accuracy_under_attack": 0.6,
        "accuracy_before": 0.9,
        "attack_success_rate": pytest.approx(3 / 9),
    }
    assert found.counts == {"changed": 10, "truncated_away": 2} and found.primary == "accuracy_under_attack"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_result(write(tmp_path, [1] * 10, 1, is_former=False))


def test_former_and_present_results_are_compared_and_less_success_is_better(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write(tmp_path / "weak", [1] * (1 + seed % 2) + [0] * (9 - seed % 2), seed, is_former=True)
        write(tmp_path / "firm", [1] * (9 - seed % 2) + [0] * (1 + seed % 2), seed, is_former=False)
    with pytest.warns(TruenegDeprecationWarning):
        rows = compare(tmp_path / "weak", tmp_path / "firm", metric="all", resamples=200).rows
    by_metric = {row.metric: row for row in rows}
    assert list(by_metric) == ["accuracy_under_attack", "accuracy_before", "attack_success_rate"]
    success = by_metric["attack_success_rate"]
    assert success.difference.interval.estimate < 0 and success.signs.num_better > success.signs.num_worse == 0
    assert "firm is better than weak" in verdict(success)
    with pytest.warns(TruenegDeprecationWarning), pytest.raises(TaskError, match="metric 'accuracy'"):
        compare(tmp_path / "weak", tmp_path / "firm", metric="accuracy")
