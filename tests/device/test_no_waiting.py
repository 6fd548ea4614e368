"""A step never waits for its GPU: it is taken on tensors without values, where asking for one raises."""

from __future__ import annotations

from typing import Any

import pytest
from steps import CASES, OBJECTIVES, WAITING
from steps import DETECTORS as TRIED

from trueneg.detectors import DETECTORS
from trueneg.objectives import OBJECTIVES as REGISTERED


@pytest.mark.parametrize("case", CASES)
def test_a_step_waits_for_nothing(case: str, steps: dict[str, Any]) -> None:
    assert not steps[case]["error"], steps[case]["told"]


@pytest.mark.parametrize("what", WAITING)
def test_what_waits_is_found(what: str, steps: dict[str, Any]) -> None:
    """Else the test above could not fail."""
    assert steps[f"waits for {what}"]["error"] in (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "Waits",
    ), steps[f"waits for {what}"]


def test_everything_registered_is_tried() -> None:
    """Scorers of text wait, as they say; what has a form for tokens does not."""
    assert {*DETECTORS.builtin} <= TRIED.keys()
    assert {*REGISTERED.builtin} <= OBJECTIVES.keys()
