"""Published hyper-parameters for fine-tuning, and how a run's configuration is put together from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModel

from tiny import make_config
from trueneg.config.codec import override
from trueneg.config.finetune_presets import FINETUNE_PRESETS, finetune_preset
from trueneg.errors import ConfigError
from trueneg.runs.finetuning import configure_finetuning
from trueneg.tasks import task_class


@pytest.mark.parametrize(
    ("task", "epochs", "length", "is_swapped"),
    [
        ("glue/cola", 3, 128, False),
        ("glue/mrpc", 3, 128, True),
        ("glue/stsb", 10, 128, True),
        ("glue/rte", 10, 128, False),
        ("squad", 2, 512, False),
        ("squad/v2.0", 2, 512, False),
        ("classification", 3, 128, False),
    ],
)
def test_electras_settings_by_task(task: str, epochs: float, length: int, is_swapped: bool) -> None:
    """Clark et al. 2020, appendix B, and ``configure_finetuning.py``."""
    for name in ("electra-paper", "electra-code"):
        config = finetune_preset(name, task, "bert", 768, task_class(task).preset_family)
        assert (config.epochs, config.task.length, config.task.swap_pairs) == (epochs, length, is_swapped)
        assert (config.train.batch_size, config.warmup_share, config.dropout) == (32, 0.1, 0.1)


@pytest.mark.parametrize(
    ("hidden_size", "paper", "code", "decay"), [(256, 3e-4, 1e-4, 0.8), (768, 1e-4, 1e-4, 0.8), (1024, 5e-5, 5e-5, 0.9)]
)
def test_electras_learning_rates_by_size(hidden_size: int, paper: float, code: float, decay: float) -> None:
    published, released = (
        finetune_preset(name, "glue/rte", "electra", hidden_size).optimizer
        for name in ("electra-paper", "electra-code")
    )
    assert (published.learning_rate, released.learning_rate) == (paper, code)
    assert published.layer_decay == released.layer_decay == decay
    assert (published.weight_decay, released.weight_decay) == (0.0, 0.01)
    assert (published.name, released.name) == ("adamw", "electra-code")


def test_the_preset_is_the_encoders_unless_one_is_named() -> None:
    assert finetune_preset("", "glue/rte", "electra", 256).preset == "electra-paper"
    assert finetune_preset("", "glue/rte", "modernbert", 768).preset == "bert"
    assert finetune_preset("electra-code", "glue/rte", "bert", 768).preset == "electra-code"
    with pytest.raises(ConfigError, match="unknown preset 'brt': did you mean 'bert'"):
        finetune_preset("brt", "glue/rte", "bert", 768)
    assert set(FINETUNE_PRESETS) == {"electra-paper", "electra-code", "bert"}


def test_settings_come_last(tmp_path: Path) -> None:
    AutoModel.from_config(make_config("electra")).save_pretrained(tmp_path)
    config = configure_finetuning(str(tmp_path), "glue/rte", settings=["epochs=1", "optimizer.layer_decay=0.5"])
    assert (config.preset, config.start_from, config.task.name) == ("electra-paper", str(tmp_path), "glue/rte")
    assert (config.epochs, config.optimizer.layer_decay, config.optimizer.learning_rate) == (1.0, 0.5, 3e-4)
    assert config == override(configure_finetuning(str(tmp_path), "glue/rte"), ["epochs=1", "layer_decay=0.5"])


@pytest.mark.parametrize(("start_from", "task"), [("", "glue/rte"), ("x", "")])
def test_a_checkpoint_and_a_task_are_needed(start_from: str, task: str) -> None:
    with pytest.raises(ConfigError, match="give a checkpoint and a --task"):
        configure_finetuning(start_from, task)
