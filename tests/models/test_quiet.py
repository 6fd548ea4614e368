"""In a process of its own: transformers binds standard error when it is imported, before a test can look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOAD_AND_SAVE = """
import sys, warnings
from pathlib import Path
import torch
from tiny_checkpoints import make_masked_lm, make_tokenizer, save_checkpoint
from trueneg.config.options import ModelConfig
from trueneg.runs.exporting import export
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import load_masked_lm

torch.set_num_threads(1)
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
save_checkpoint(make_masked_lm("bert").base_model, folder / "headless")
print("OURS", file=sys.stderr, flush=True)
if sys.argv[2] == "ours":
    model = load_masked_lm(ModelConfig(start_from=str(folder / "headless")), make_tokenizer())
    save_hugging_face(model, make_tokenizer(), folder / "hf")
    export(str(folder / "hf"), "sentence-transformers", folder / "out")
else:
    type(make_masked_lm("bert")).from_pretrained(folder / "headless").save_pretrained(folder / "hf")
"""


def said(folder: Path, whose: str) -> str:
    """What is on standard error after the preparations."""
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_DISABLE_PROGRESS_BARS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", LOAD_AND_SAVE, str(folder), whose]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stderr.partition("OURS\n")[2]


def test_loading_and_saving_say_nothing_of_their_own(tmp_path: Path) -> None:
    assert said(tmp_path, "ours") == ""


def test_transformers_itself_would(tmp_path: Path) -> None:
    assert "Loading weights" in said(tmp_path, "theirs")
