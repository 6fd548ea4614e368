"""What the steps of ``steps.py`` launched on a GPU that is not there, found out once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trueneg
from fake_gpu import build, why_not

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Case to what it launched, or to the error that it ended in."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("fake_gpu")
    found = folder / "steps.json"
    # In a process of its own: the guard has to be there before torch is.
    path = [str(HERE.parent), str(Path(trueneg.__file__).parents[1])]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(path), "LD_PRELOAD": build(folder)}
    subprocess.run([sys.executable, HERE / "steps.py", found], env=surroundings, check=True)
    steps: dict[str, Any] = json.loads(found.read_text())
    return steps
