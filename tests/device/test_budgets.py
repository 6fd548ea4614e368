"""How much a step launches: what is added to one is seen here, before it is paid for on a GPU.

Two layers (of ELECTRA: two and two), bf16, not compiled, with what ``models.fused`` changes; one launch for each
operation that is no view. A budget is what a step launched when it was last lowered: raise one only for what is worth
it, and say so in the log.
"""

from __future__ import annotations

from typing import Any

import pytest
from steps import COUNTED

# Whatever is trained: these do not see the model.
AROUND = {"corrupt": 108, "clip": 8, "optimizer": 4}
BUDGETS = {
    "mlm / full": {"counts": 2, "forward": 101, "backward": 98, "meter": 3, "rest": 19},
    "mlm / padded": {"counts": 2, "forward": 102, "backward": 98, "meter": 3, "rest": 19},
    "mlm / packed": {"counts": 2, "forward": 111, "backward": 97, "meter": 3, "rest": 19},
    "mlm, modernbert / packed": {"counts": 2, "forward": 141, "backward": 120, "meter": 3, "rest": 19},
    "electra / full": {"counts": 5, "forward": 233, "backward": 197, "meter": 3, "rest": 21},
    "lexical / drop": {"counts": 5, "forward": 268, "backward": 196, "meter": 3, "rest": 21},
    "cline / full": {"counts": 12, "forward": 200, "backward": 156, "meter": 3, "rest": 25},
}
CASTS_OUTSIDE = {"corrupt": 4, "counts": 3, "meter": 1}
"""Launches outside of the module that only change a dtype."""
UPLOADS = {"mlm / packed": 6, "electra / full": 6, "annotated / drop": 8, "cline / full": 18}
"""Copies from the host, which nothing waits for."""


@pytest.mark.parametrize("case", BUDGETS)
def test_no_phase_launches_more(case: str, steps: dict[str, Any]) -> None:
    budget, launched = AROUND | BUDGETS[case], steps[case]["counts"]
    over = {phase: (launched[phase], limit) for phase, limit in budget.items() if launched[phase] > limit}
    assert not over, f"(launched, budget) by phase: {over}"
    assert budget.keys() == launched.keys() and all(launched.values()), "every phase is watched"


@pytest.mark.parametrize("case", BUDGETS)
def test_nothing_is_cast_outside_of_the_module(case: str, steps: dict[str, Any]) -> None:
    casts = {phase: number for phase, number in steps[case]["casts"].items() if phase not in ("forward", "backward")}
    over = {phase: number for phase, number in casts.items() if number > CASTS_OUTSIDE.get(phase, 0)}
    assert not over


@pytest.mark.parametrize("case", UPLOADS)
def test_a_batch_is_copied_in_few_pieces(case: str, steps: dict[str, Any]) -> None:
    assert 0 < steps[case]["uploads"] <= UPLOADS[case]


def test_what_has_a_budget_is_counted_in_a_steady_step() -> None:
    assert BUDGETS.keys() | UPLOADS.keys() <= COUNTED


def test_hard_correction_launches_few(steps: dict[str, Any]) -> None:
    corrected, plain = (sum(steps[case]["counts"].values()) for case in ("lexical / drop", "electra / packed"))
    assert plain < corrected <= plain + 18
