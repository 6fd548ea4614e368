"""Commands that a report names for its results are ones that the program takes, and make them again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from transformers import BertConfig, ElectraConfig

from made_up_results import write_result
from trueneg.config.codec import encode
from trueneg.config.finetune_presets import FINETUNE_PRESETS, finetune_preset
from trueneg.evaluation.results.summary import read_runs
from trueneg.reporting.provenance import provenance_table
from trueneg.reporting.sources import read_sources
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.tasks import task_class


@pytest.mark.parametrize("task", ["squad", "squad/v2.0", "glue/rte", "imdb"])
@pytest.mark.parametrize("name", FINETUNE_PRESETS)
@pytest.mark.parametrize("kind", [BertConfig, ElectraConfig])
def test_a_fine_tuning_is_configured_again(
    kind: type[BertConfig | ElectraConfig], name: str, task: str, tmp_path: Path
) -> None:
    encoder = kind(hidden_size=256, num_attention_heads=4)
    encoder.save_pretrained(tmp_path / "encoder")
    made = finetune_preset(name, task, encoder.model_type, 256, task_class(task).preset_family)
    made = replace(made, preset=name, start_from=str(tmp_path / "encoder"), epochs=1.5)
    folder = tmp_path / "results"
    write_result(folder, task, 1, {"gold": [0, 1], "predicted": [0, 1]}, config=encode(made), model=made.start_from)
    (row,) = provenance_table(read_sources([folder]), {"results": read_runs(folder)}).rows
    words = shlex.split(str(row[-1]))
    assert words[:3] == ["trueneg", "finetune", made.start_from]
    settings = [value for option, value in pairwise(words) if option == "--set"]
    again = configure_finetuning(words[2], task, preset=words[words.index("--preset") + 1], settings=settings)
    assert replace(again, plugins="", preset=name) == made
