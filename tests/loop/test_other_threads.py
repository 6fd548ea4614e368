"""Runs that a launcher starts in a thread of its own: they train, and say what they cannot do."""

from __future__ import annotations

import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiny_runs import MakeConfig

from trueneg.errors import TruenegWarning
from trueneg.runs.pretraining import pretrain


def test_outside_the_main_thread_a_run_says_once_that_signals_do_not_save(
    config_of: MakeConfig, tmp_path: Path
) -> None:
    config, before = config_of("mlm", "train.steps=2", "train.eval_every=0"), signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings(record=True) as told, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        assert pool.submit(pretrain, config, tmp_path / "run", quiet=True).result().reason == "finished"
    said = [str(one.message) for one in told if one.category is TruenegWarning]
    assert len([text for text in said if "Ctrl-C and SIGTERM cannot be received" in text]) == 1
    assert signal.getsignal(signal.SIGTERM) is before
