"""Hyper-parameters for fine-tuning, as published, by task and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trueneg.config.finetune_options import FinetuneConfig, TaskConfig
from trueneg.config.options import OptimizerConfig, TrainConfig
from trueneg.errors import ConfigError, unknown_name

SMALL, BASE = 384, 768
"""Largest hidden size of encoders that count as small, and as base."""

SQUAD = "squad"
"""The ``preset_family`` of tasks with long contexts; all others are ``text``."""

LONG_TEXTS = ("imdb", "boolq")
"""Tasks whose texts exceed 128 tokens: truncation might remove the edit that changes a revision's label."""

_TRAIN = TrainConfig(steps=0, batch_size=32, precision="auto", log_every=100, eval_every=0, save_every=0)


def electra_paper(task: str, hidden_size: int, family: str) -> FinetuneConfig:
    """Clark et al. 2020, appendix B: no weight decay, layer-wise learning-rate decay, Adam with bias correction."""
    return FinetuneConfig(
        preset="electra-paper",
        task=_electra_task(task, family),
        epochs=_electra_epochs(task, family),
        dropout=0.1,
        optimizer=OptimizerConfig(
            learning_rate=_by_size(hidden_size, 3e-4, 1e-4, 5e-5),
            layer_decay=_by_size(hidden_size, 0.8, 0.8, 0.9),
            weight_decay=0.0,
        ),
        train=_TRAIN,
    )


def electra_code(task: str, hidden_size: int, family: str) -> FinetuneConfig:
    """Hyper-parameters of the code of ``google-research/electra``, as in its published numbers.

    Weight decay, Adam without bias correction, warm-up times decay, and the top layer two layer decays below the head.
    """
    paper = electra_paper(task, hidden_size, family)
    optimizer = replace(
        paper.optimizer,
        name="electra-code",
        learning_rate=_by_size(hidden_size, 1e-4, 1e-4, 5e-5),
        weight_decay=0.01,
    )
    return replace(paper, preset="electra-code", optimizer=optimizer)


def tn_electra(task: str, hidden_size: int, family: str) -> FinetuneConfig:
    """Zhang et al. 2023, section 4.1: ELECTRA's hyper-parameters, here with the one-layer head of its paper."""
    paper = electra_paper(task, hidden_size, family)
    return replace(paper, preset="tn-electra", head="transformers" if family == SQUAD else "linear")


def bert(task: str, hidden_size: int, family: str) -> FinetuneConfig:
    """From the middle of the grid of Devlin et al. 2019, appendix A.3; for small encoders of Turc et al. 2019."""
    is_squad = family == SQUAD
    return FinetuneConfig(
        preset="bert",
        task=TaskConfig(name=task, length=384 if is_squad else _length(task)),
        epochs=2.0 if is_squad else _by_size(hidden_size, 4.0, 3.0, 3.0),
        dropout=0.1,
        optimizer=OptimizerConfig(learning_rate=_by_size(hidden_size, 1e-4, 3e-5, 2e-5)),
        train=_TRAIN,
    )


def cline(task: str, hidden_size: int, family: str) -> FinetuneConfig:
    """The middle one of CLINE's five learning rates (Wang et al. 2021, section 4.3): the paper gives no other number.

    The paper's search is ``--sweep optimizer.learning_rate=1e-5,2e-5,3e-5,4e-5,5e-5 --select-on contrast-set:FOLDER``.
    Batches, epochs and warm-up are those of ``bert`` for encoders of base size.
    """
    base = bert(task, BASE, family)
    return replace(base, preset="cline", optimizer=replace(base.optimizer, learning_rate=3e-5))


FINETUNE_PRESETS: dict[str, Callable[[str, int, str], FinetuneConfig]] = {
    "electra-paper": electra_paper,
    "electra-code": electra_code,
    "tn-electra": tn_electra,
    "bert": bert,
    "cline": cline,
}


def finetune_preset(name: str, task: str, model_type: str, hidden_size: int, family: str = "text") -> FinetuneConfig:
    """Hyper-parameters for a task and an encoder.

    Args:
        name: One of ``FINETUNE_PRESETS``; empty for ``electra-paper`` if the encoder is an ELECTRA, else ``bert``.
        task: ``glue/mrpc``, ``squad``, …
        model_type: Of the encoder, as transformers names it.
        hidden_size: Of the encoder.
        family: The task's ``preset_family``.

    Raises:
        ConfigError: for an unknown name.

    Example:
        >>> finetune_preset("", "glue/rte", "electra", 256).epochs
        10.0
    """
    chosen = name or ("electra-paper" if model_type == "electra" else "bert")
    if chosen not in FINETUNE_PRESETS:
        raise ConfigError(unknown_name("preset", chosen, FINETUNE_PRESETS))
    return FINETUNE_PRESETS[chosen](task, hidden_size, family)


def _name(task: str) -> str:
    return task.rpartition("/")[2]


def _electra_task(task: str, family: str) -> TaskConfig:
    name = _name(task)
    length = 512 if family == SQUAD else _length(task)
    return TaskConfig(name=task, length=length, swap_pairs=name in ("mrpc", "stsb"))


def _length(task: str) -> int:
    return 512 if task in LONG_TEXTS else 128


def _electra_epochs(task: str, family: str) -> float:
    return 2.0 if family == SQUAD else 10.0 if _name(task) in ("rte", "stsb") else 3.0


def _by_size(hidden_size: int, small: float, base: float, large: float) -> float:
    return small if hidden_size <= SMALL else base if hidden_size <= BASE else large
