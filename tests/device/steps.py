"""Steps taken on a GPU that is not there: every objective, every detector that does not wait, and some that do.

LD_PRELOAD=fake_gpu.so python steps.py FILE    # FILE receives {case: what it launched, or its error}
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from tokenizers import Tokenizer, models
from torch import Tensor, nn

import tiny
from fake_gpu import fake_step
from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.config.objective_options import ClineConfig, CorrectionConfig
from trueneg.config.options import ModelConfig, OptimizerConfig, TrainConfig
from trueneg.corruption.rows import MaskedRows, Rows, Substitutes
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, View, Views
from trueneg.detectors import make_detector
from trueneg.detectors.annotated import AnnotatedDetector
from trueneg.detectors.base import Detector
from trueneg.detectors.combination import CombinedDetector
from trueneg.detectors.ema import EmaDetector
from trueneg.detectors.prototype_detector import DeviceRowReader, PrototypeDetector
from trueneg.detectors.table import TableDetector
from trueneg.models import documents
from trueneg.models.backbone import Encoder, attend_by_documents
from trueneg.models.fused import fuse
from trueneg.models.loading import checkpoint_gradients
from trueneg.models.semantic import SemanticEncoder
from trueneg.objectives.base import Objective
from trueneg.objectives.cline import Cline
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.guard import Guard
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import SentenceRegularization, SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.objectives.smoothing import Smoothing

ROWS = {
    "full": [[14], [14], [14], [14]],
    "padded": [[14], [9], [4], [11]],
    "packed": [[6, 6], [3, 9], [12], [2, 3, 3]],
}
"""Ordinary tokens of each document of rows of 16."""
WORDS = "the a big large small mouse film movie picture river chief main primary quickly"


@dataclass(frozen=True)
class Step:
    """What is trained on what."""

    model: nn.Module
    objective: Objective[Any, Any]
    given: Callable[[Rows], Any] = lambda rows: rows
    """What the objective is given for plain rows."""
    has_another: bool = False
    """Whether a frozen model outside of the module tree reads along, which the first step moves to the device."""
    has_masks: bool = True
    """Whether the attention that takes a mask is there."""


def masked_lm(architecture: str = "bert", unit: str = "token", is_checkpointed: bool = False, **options: Any) -> Step:
    model = tiny.make_masked_lm(architecture)
    if is_checkpointed:
        checkpoint_gradients(model.model)
    return Step(model, MaskedLM(tiny.make_masking(unit=unit), **options))


def electra(**options: Any) -> Step:
    generator = MaskedLM(tiny.make_masking(), **{"prediction": "sampled", **options})
    return Step(tiny.make_electra(), ReplacedTokenDetection(generator))


def cline(is_guarded: bool = False, correction: HardCorrection | None = None, **options: Any) -> Step:
    config = ClineConfig(**options)
    classes = (3 if config.variant == "released" else 1) if config.rtd else 0
    model = SemanticEncoder(tiny.make_hf_masked_lm("bert"), classes, config.variant == "released")
    kinds = torch.arange(tiny.VOCAB_SIZE) % 3
    guard = Guard(tiny.FractionalDetector(), kinds) if is_guarded else None
    return Step(model.train(), Cline(MaskedLM(tiny.make_masking(), correction), config, guard), with_views)


def by_boundaries(architecture: str) -> Step:
    """Attention by document boundaries, in torch's own kernel: the attention that takes a mask is not there."""
    step = masked_lm(architecture)
    assert attend_by_documents(step.model, torch.device("cpu")) == ""  # type: ignore[arg-type]
    boundaries = torch.arange(20, dtype=torch.int32)
    return replace(step, given=lambda rows: replace(rows, starts=boundaries), has_masks=False)


def with_views(rows: Rows) -> Views:
    return Views(rows, view(rows, SYNONYM), view(rows, ANTONYM))


def view(rows: Rows, label: int) -> View:
    is_put = ~rows.is_special & (rows.input_ids % 3 == 0)
    return View(
        torch.where(is_put, rows.input_ids % 60 + 5, rows.input_ids),
        rows.segments,
        torch.where(is_put, label, KEPT),
        is_put,
        is_full=rows.is_full,
        is_packed=rows.is_packed,
        source=torch.arange(rows.input_ids.shape[1]).expand_as(rows.input_ids).clone(),
        num_cut=torch.zeros(len(rows.input_ids), dtype=torch.int64),
    )


def corrected(detector: Detector, use: str = "drop", **options: Any) -> Step:
    return electra(correction=HardCorrection(detector, use), **options)


def table() -> TableDetector:
    return TableDetector(tiny.make_table((gold, gold + 1) for gold in range(5, 299)))


def prototypes(use: str) -> Step:
    encoder, random = Encoder(tiny.make_hf_masked_lm("bert")), torch.Generator().manual_seed(0)
    table, kinds = torch.randn(tiny.VOCAB_SIZE, 32, generator=random), torch.arange(tiny.VOCAB_SIZE) % 3
    return replace(corrected(PrototypeDetector(DeviceRowReader(encoder, None), table, kinds), use), has_another=True)


def read_by(**options: Any) -> Step:
    """With another masked language model that reads along."""
    other = tiny.make_masked_lm()
    source, hard = options.pop("source", None), options.pop("hard_below", None)
    if source is not None:
        options["smoothing"] = Smoothing(source, teacher=other)
    if hard is not None:
        options["hard_tokens"] = HardTokens(other, hard)
    return replace(masked_lm(**options), has_another=True)


def annotated(use: str, **options: Any) -> Step:
    def with_substitutes(rows: Rows) -> Rows:
        shape, random = (*rows.input_ids.shape, 4), torch.Generator().manual_seed(0)
        tokens = torch.randint(5, tiny.VOCAB_SIZE, shape, dtype=torch.int32, generator=random)
        credit = torch.randint(0, 256, shape, dtype=torch.uint8, generator=random)
        return replace(rows, substitutes=Substitutes(tokens, credit))

    return replace(corrected(AnnotatedDetector(), use, **options), given=with_substitutes)


def named(specification: str) -> Detector:
    """One of the hand-made WordNet."""
    words = numbered([*SPECIAL, *WORDS.split()])
    tokenizer = wrapped(Tokenizer(models.WordLevel(words, unk_token="[UNK]")))
    wordnet = Path(__file__).parents[1] / "data" / "wordnet"
    return make_detector(CorrectionConfig(detector=specification, wordnet=str(wordnet)), tokenizer)


DETECTORS: dict[str, Callable[[str], Step]] = {
    "lexical": lambda use: corrected(named("lexical"), use),
    "neighbours": lambda use: corrected(table(), use),
    **{name: lambda use, name=name: corrected(named(name), use) for name in ("fits", "derived", "proper")},
    "annotated": annotated,
    "prototypes": prototypes,
    "ema": lambda use: corrected(EmaDetector(), use),
    "combined": lambda use: corrected(CombinedDetector("&", [table(), EmaDetector()]), use),
}
"""By name: those that say that the host does not wait for them, and something made of two."""

OBJECTIVES: dict[str, Callable[[], Step]] = {
    "mlm": masked_lm,
    "electra": electra,
    "electra, token and sentence": lambda: electra(regularizers=[SoftRegularization(), SentenceRegularization()]),
    "cline": cline,
    "cline, released": lambda: cline(variant="released"),
    **{f"mlm, {name}": lambda name=name: masked_lm(name) for name in tiny.ARCHITECTURES if name != "bert"},
}
"""What is taken over full, padded and packed rows."""

VARIANTS: dict[str, Callable[[], Step]] = {
    "words": lambda: masked_lm(unit="word"),
    "spans": lambda: masked_lm(unit="span"),
    **{f"boundaries, {name}": lambda name=name: by_boundaries(name) for name in ("bert", "electra", "modernbert")},
    "checkpointing": lambda: masked_lm(is_checkpointed=True),
    "token, soft": lambda: masked_lm(regularizers=[SoftRegularization("soft")]),
    "chunks": lambda: corrected(EmaDetector(), "marginal", max_logits_mb=0.01, loss_temperature=2.0),
    "chunks, soft": lambda: masked_lm(regularizers=[SoftRegularization("soft")], max_logits_mb=0.01),
    "argmax judged": lambda: corrected(table(), judged="argmax", loss_temperature=2.0),
    "smoothing": lambda: masked_lm(smoothing=Smoothing("uniform")),
    "self-distillation": lambda: masked_lm(smoothing=Smoothing("self")),
    "self-distillation, masked text": lambda: masked_lm(smoothing=Smoothing("self", reads="masked")),
    "average": lambda: masked_lm(smoothing=Smoothing("average", momentum=0.9)),
    "teacher": lambda: read_by(source="teacher"),
    "hard tokens": lambda: read_by(hard_below=0.0),
    "hard tokens by probability": lambda: read_by(hard_below=0.5),
    "soft targets": lambda: annotated("soft_targets"),
    "restricted": lambda: annotated("restrict", smoothing=Smoothing("self", share=0.5)),
    "mean over what is kept": lambda: masked_lm(correction=HardCorrection(table(), "drop", "kept")),
    "cline, learned weights": lambda: cline(weights="learned", original="clean", similarity="cosine", pooling="mean"),
    "cline, other rows": lambda: cline(negatives="random", in_batch_negatives=True),
    "cline, guarded": lambda: cline(is_guarded=True, correction=HardCorrection(table())),
}
"""What is taken over packed rows only."""

READING_ALONG = ("self-distillation", "average", "teacher", "hard tokens", "hard tokens by probability", "restricted")
"""Variants with a reading by another model, or in another mode, which is no part of the step's graph."""

USES = {"drop": "packed", "marginal": "padded"}
"""A use that asks for credit only, and one that has substitutes listed; and the rows that each is taken over."""


def spoiled(ask: Callable[[MaskedRows], Any]) -> Step:
    """A step that asks for something while it counts."""
    step = masked_lm()
    counts = step.objective.counts

    def asking(batch: MaskedRows) -> dict[str, Tensor]:
        ask(batch)
        return counts(batch)

    step.objective.counts = asking  # type: ignore[method-assign]
    return step


WAITING: dict[str, Callable[[], Step]] = {
    "a value": lambda: spoiled(lambda batch: batch.is_masked.sum().item()),
    "a condition": lambda: spoiled(lambda batch: bool(batch.is_masked.any())),
    "where": lambda: spoiled(lambda batch: batch.is_masked.nonzero()),
    "a boolean index": lambda: spoiled(lambda batch: batch.gold[batch.is_masked]),
    "a boolean place": lambda: spoiled(lambda batch: batch.gold.clone().index_put_((batch.is_masked,), batch.gold[0])),
    "a shape": lambda: spoiled(lambda batch: batch.gold.unique()),
    "a copy": lambda: spoiled(lambda batch: batch.gold.cpu()),
    "an upload": lambda: spoiled(lambda batch: torch.ones(3).to(batch.gold.device)),
    "a scorer of text": lambda: corrected(named("sister")),
}
"""What makes a host wait."""

CASES: dict[str, tuple[Callable[[], Step], str]] = {
    **{f"{name} / {rows}": (make, rows) for name, make in OBJECTIVES.items() for rows in ROWS},
    **{name: (make, "packed") for name, make in VARIANTS.items()},
    **{
        f"{name} / {use}": (lambda make=make, use=use: make(use), rows)
        for name, make in DETECTORS.items()
        for use, rows in USES.items()
    },
}
"""Name to what is trained, and the rows it is trained on."""

COUNTED = {
    *(f"{name} / {rows}" for name in ("mlm", "electra") for rows in ROWS),
    "mlm, modernbert / packed",
    "cline / full",
    "lexical / drop",
    "annotated / drop",
}
"""Cases whose launches are held to a budget."""


def main() -> None:
    waiting = {f"waits for {name}": (make, "full") for name, make in WAITING.items()}
    found = {}
    for name, (make, rows) in (CASES | waiting).items():
        try:
            step, given = make(), tiny.make_rows(ROWS[rows], 16)
            for part in step.model.modules():
                if isinstance(part, Encoder):
                    fuse(part.model, ModelConfig(), is_gpu=True)
            train = TrainConfig(precision="bf16", compile=False)
            masked = documents.sdpa_attention_forward if step.has_masks else None
            with patch.object(documents, "sdpa_attention_forward", masked):
                launches = fake_step(
                    step.model,
                    step.objective,
                    OptimizerConfig(),
                    train,
                    step.given(given),
                    num_steps=2 if name in COUNTED or step.has_another else 1,
                )
            found[name] = {
                "error": "",
                "counts": launches.counts(),
                "casts": dict(launches.casts),
                "uploads": launches.uploads,
            }
        except Exception as error:
            found[name] = {"error": type(error).__name__, "told": traceback.format_exc()[-4000:]}
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
