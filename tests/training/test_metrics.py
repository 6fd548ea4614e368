"""From sums to readings, by hand."""

from __future__ import annotations

import pytest
import torch

from trueneg.objectives.base import Outcome
from trueneg.training.distributed import Processes
from trueneg.training.metrics import RATIOS, Meter, readings

SUMS = {
    "term/mlm": 60.0,
    "count/mlm": 20.0,
    "term/rtd": 7.0,
    "count/rtd": 100.0,
    "stat/gold_loss": 80.0,
    "stat/num_masked": 20.0,
    "stat/num_mispredicted": 8.0,
    "stat/num_corrected": 2.0,
    "stat/credit": 2.4,
    "stat/num_rows": 10.0,
    "stat/num_rows_corrected": 1.0,
    "stat/num_tokens": 100.0,
    "stat/num_detected_right": 90.0,
    "stat/num_called_replaced": 5.0,
    "stat/num_replaced_found": 3.0,
    "stat/num_replaced": 6.0,
}


def outcome(**scale: float) -> tuple[Outcome, dict[str, torch.Tensor]]:
    """A micro-batch whose sums are those above, times a factor."""
    by = scale.get("by", 1.0)
    parts: dict[str, dict[str, torch.Tensor]] = {"term": {}, "count": {}, "stat": {}}
    for name, value in SUMS.items():
        kind, _, rest = name.partition("/")
        parts[kind][rest] = torch.tensor(value * by)
    return Outcome(parts["term"], parts["stat"]), parts["count"]


def test_readings() -> None:
    assert readings(SUMS, {"rtd": 50.0}) == pytest.approx(
        {
            "loss": 3.0 + 50 * 0.07,
            "loss/mlm": 3.0,
            "loss/rtd": 0.07,
            "accuracy": 0.6,
            "gold_loss": 4.0,
            "mispredicted": 0.4,
            "corrected": 0.25,
            "corrected_rows": 0.1,
            "credit": 0.3,
            "detection_accuracy": 0.9,
            "detection_precision": 0.6,
            "detection_recall": 0.5,
        }
    )


def test_nothing_is_divided_by_zero() -> None:
    """A ratio of nothing is left out; a term of nothing is 0, as it is in the loss."""
    found = readings(dict.fromkeys(SUMS, 0.0), {"rtd": 50.0})
    assert found == {"loss": 0.0, "loss/mlm": 0.0, "loss/rtd": 0.0}


@pytest.mark.parametrize(
    ("empty", "left_out"),
    [
        ("num_mispredicted", {"corrected", "credit"}),
        ("num_masked", {"accuracy", "gold_loss", "mispredicted"}),
        ("num_called_replaced", {"detection_precision"}),
        ("num_replaced", {"detection_recall"}),
    ],
)
def test_ratios_of_nothing_are_left_out(empty: str, left_out: set[str]) -> None:
    found = readings(SUMS | {f"stat/{empty}": 0.0}, {})
    assert readings(SUMS, {}).keys() - found.keys() == left_out
    assert left_out <= RATIOS.keys()


def test_ratios_of_other_objectives_are_left_out() -> None:
    sums = {name: value for name, value in SUMS.items() if name in ("term/mlm", "count/mlm")}
    assert readings(sums, {}) == {"loss": 3.0, "loss/mlm": 3.0}


def test_meter_sums_before_it_divides() -> None:
    """Micro-batches of different sizes weigh by their size."""
    meter = Meter()
    small = Outcome({"mlm": torch.tensor(1.0)}, {})
    large = Outcome({"mlm": torch.tensor(90.0)}, {})
    meter.add(small, {"mlm": torch.tensor(1.0)})
    meter.add(large, {"mlm": torch.tensor(9.0)})
    assert meter.read(Processes(), {}) == {"loss": 9.1, "loss/mlm": 9.1}


def test_meter_starts_again_after_reading() -> None:
    meter = Meter()
    for by in (1.0, 3.0):
        meter.add(*outcome(by=by))
    first = meter.read(Processes(), {"rtd": 50.0})
    assert first == pytest.approx(readings(SUMS, {"rtd": 50.0}))
    meter.add(*outcome(by=2.0))
    assert meter.read(Processes(), {"rtd": 50.0}) == pytest.approx(first)
    assert meter.read(Processes(), {}) == {"loss": 0}


def test_meter_adds_in_float64() -> None:
    """Beyond 2^24, float32 cannot add 1."""
    meter = Meter()
    meter.add(Outcome({"mlm": torch.tensor(2.0**24)}, {}), {"mlm": torch.tensor(1.0)})
    meter.add(Outcome({"mlm": torch.tensor(1.0)}, {}), {"mlm": torch.tensor(0.0)})
    assert meter.read(Processes(), {})["loss"] == 2**24 + 1


def test_meter_goes_on_with_what_a_checkpoint_had_under_the_same_names() -> None:
    """In another order, with a name too many and one too few: nothing is lost, nothing is put elsewhere."""
    meter = Meter({"stat/num_masked": 20.0, "count/mlm": 20.0, "stat/num_rows": 5.0, "term/mlm": 40.0})
    meter.add(Outcome({"mlm": torch.tensor(8.0)}, {"num_mispredicted": torch.tensor(3.0)}), {"mlm": torch.tensor(4.0)})
    wanted = {"term/mlm": 48.0, "count/mlm": 24.0, "stat/num_mispredicted": 3.0, "stat/num_masked": 20.0}
    assert meter.gather(Processes()) == wanted | {"stat/num_rows": 5.0}
    assert meter.read(Processes(), {})["mispredicted"] == 3 / 20


def test_meter_keeps_numbers_of_any_type_whole() -> None:
    meter = Meter()
    counts = {"mlm": torch.tensor(2**24 + 1), "rtd": torch.tensor(1.0)}
    terms = {"mlm": torch.tensor(1 / 3, dtype=torch.float64), "rtd": torch.tensor(1 / 3)}
    meter.add(Outcome(terms, {}), counts)
    sums = meter.gather(Processes())
    assert sums == {
        "term/mlm": 1 / 3,
        "term/rtd": torch.tensor(1 / 3).item(),
        "count/mlm": 2**24 + 1,
        "count/rtd": 1.0,
    }


def test_what_is_read_beside_comes_back_as_it_is() -> None:
    meter = Meter()
    meter.add(*outcome())
    norm, bad = torch.tensor(0.1), torch.tensor(-1)
    found = meter.read(Processes(), {"rtd": 50.0}, {"norm": norm, "bad": bad})
    assert found.pop("norm") == float(norm)
    assert found.pop("bad") == -1
    assert found == pytest.approx(readings(SUMS, {"rtd": 50.0}))
