"""A masked model on held-out text: its loss, its mispredictions, and how many of them are none."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trueneg import __version__
from trueneg.config import PretrainConfig, encode, override
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import ConfigError
from trueneg.evaluation.corrections import Correction, most_convincing
from trueneg.evaluation.tasks.false_negatives import find_false_negatives
from trueneg.models.backbone import max_length
from trueneg.models.loading import load_masked_lm
from trueneg.objectives import mlm
from trueneg.presets import with_objective
from trueneg.tokenizer import load_tokenizer
from trueneg.training.data import held_out_batches
from trueneg.training.distributed import Processes, choose_device

TASKS = ("false-negatives",)


@dataclass(frozen=True)
class HeldOutResult:
    """What a checkpoint does with held-out text."""

    checkpoint: str
    corpus: str
    """The corpus's fingerprint."""
    num_rows: int
    readings: dict[str, float]
    corrections: list[Correction]
    """All of them, the most probable first."""
    config: dict[str, Any]

    def most_convincing(self, num: int) -> list[Correction]:
        """The surest corrections, each pair of words and each sentence once."""
        return most_convincing(self.corrections, num)

    def summary(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"task": "false-negatives", "version": __version__, **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.summary(), indent=1, ensure_ascii=False) + "\n")


def evaluate_held_out(
    checkpoint: str,
    corpus: str | Path,
    *,
    detector: str = "lexical",
    wordnet: str = "",
    num_rows: int = 0,
    length: int = 128,
    pack: bool = False,
    settings: Sequence[str] = (),
) -> HeldOutResult:
    """Mask held-out rows and see what a checkpoint predicts (Zhang et al. 2023, Table 2).

    Masks depend on the rows only, so that checkpoints can be compared; the prediction is the argmax.

    Args:
        checkpoint: A run folder (of an ELECTRA run the generator), a Hugging Face folder or a hub name.
        corpus: With a held-out split, made with the checkpoint's tokenizer.
        detector: Judges mispredictions.
        wordnet: WordNet's folder; empty to look in the usual places.
        num_rows: Rows to read; 0 for all.
        length: Tokens a row.
        pack: Several documents a row.
        settings: Further options, such as ``objective.masking.rate=0.3``.

    Raises:
        TruenegError: if the checkpoint, the corpus or the lexicon cannot be used.
    """
    chosen = (
        f"corpus.path={corpus}",
        f"corpus.length={length}",
        f"corpus.pack={pack}",
        f"objective.correction.detector={detector}",
        f"objective.correction.wordnet={wordnet}",
        f"model.start_from={checkpoint}",
    )
    config = override(with_objective(PretrainConfig(), "mlm"), [*chosen, *settings])
    held_out = Corpus.open(corpus, "valid")
    tokenizer = load_tokenizer(held_out.path / "tokenizer")
    device = choose_device(config.train.device)
    model = load_masked_lm(config.model, tokenizer).to(device)
    longest = max_length(model.model)
    if config.corpus.length > longest:
        raise ConfigError(f"--length {config.corpus.length}: '{checkpoint}' has only {longest} positions")
    objective = mlm.from_config(config.objective, tokenizer, model.vocab_size).to(device)
    index = RowIndex(held_out, config.corpus.length, pack=config.corpus.pack)
    wanted = min(num_rows or len(index), len(index))
    batches = held_out_batches(index, wanted, config.train.batch_size, Processes())
    with torch.autocast(device.type, torch.bfloat16, enabled=config.train.precision == "bf16"):
        found = find_false_negatives(model, objective, batches, tokenizer, device)
    return HeldOutResult(
        checkpoint, held_out.info.fingerprint, wanted, found.readings, found.corrections, encode(config)
    )
