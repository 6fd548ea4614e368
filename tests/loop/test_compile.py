"""A compiled step is the step."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import MakeConfig, readings

from trueneg.runs.pretraining import pretrain


@pytest.mark.slow
def test_a_compiled_run_has_the_readings_of_the_plain_one(config_of: MakeConfig, tmp_path: Path) -> None:
    """Draws from the generator, looked-up credit and all: another draw would change the discriminator's input."""
    settings = ("model.dropout=0", "train.steps=3", "train.log_every=1", "train.eval_every=0", "corpus.eval_rows=0")
    for compile_it in ("false", "true"):
        pretrain(config_of("corrected", *settings, f"train.compile={compile_it}"), tmp_path / compile_it, quiet=True)
    plain, compiled = readings(tmp_path / "false"), readings(tmp_path / "true")
    assert len(plain) == len(compiled) == 3
    for ours, theirs in zip(compiled, plain, strict=True):
        assert ours.pop("kind") == theirs.pop("kind") == "train"
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
