"""Options that are left to the machine (``auto``): resolved when a run begins, and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from trueneg.config.codec import decode
from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import NumberedRows
from trueneg.errors import ConfigError, ModelError
from trueneg.hardware import HALF
from trueneg.models.backbone import Encoder, attend_by_documents, check_packing
from trueneg.models.fused import AutocastNorm

LEAST_FILL = 0.95
"""Rows less full than this, on average, are packed on a GPU."""

BY_TOKEN = ("mlm", "electra")
"""Objectives whose loss depends on tokens only, so that rows may be packed; others may use a row as a whole, as CLINE's
contrast does."""


def resolve_from_checkpoint(config: PretrainConfig, saved: Mapping[str, Any]) -> PretrainConfig:
    """Resolve ``auto`` options as the run that is resumed has recorded them, possibly on another machine.

    Args:
        config: The configuration to resume with.
        saved: The configuration in the run's checkpoint, as plain data.
    """
    try:
        begun = decode(PretrainConfig, saved)
    except ConfigError:
        return config  # reported when the two are compared
    if config.corpus.pack == "auto":
        config = replace(config, corpus=replace(config.corpus, pack=begun.corpus.pack))
    if config.model.attention == "auto":
        config = replace(config, model=replace(config.model, attention=begun.model.attention))
    if config.model.norms == "auto":
        config = replace(config, model=replace(config.model, norms=begun.model.norms))
    if config.train.compile == "auto":  # compiled dropout draws other random numbers
        config = replace(config, train=replace(config.train, compile=begun.train.compile))
    return config


def resolve_packing(
    config: PretrainConfig, rows: NumberedRows, device: torch.device, encoders: Sequence[Encoder] = ()
) -> tuple[PretrainConfig, str]:
    """Decide whether rows hold several documents: on a GPU, if they would otherwise be less than 95 % full.

    Args:
        config: A run's.
        rows: Of its training split, without packing.
        device: Device to train on.
        encoders: Encoders to train; rows are not packed for one that cannot separate documents.

    Returns:
        The configuration without ``corpus.pack=auto``, and a message about the decision; empty on a CPU, and if
        nothing had to be decided.
    """
    if config.corpus.pack != "auto":
        return config, ""
    fill, keep = f"rows of one document each are {rows.mean_fill:.1%} full", "corpus.pack=false"
    is_packed, said = False, ""
    if device.type != "cuda":
        pass
    elif config.objective.name not in BY_TOKEN:
        said = f"packing: no, as '{config.objective.name}' may look at a row as a whole; {fill}"
    elif rows.mean_fill >= LEAST_FILL:
        said = f"packing: no, as {fill} (corpus.pack=true packs them)"
    elif reason := _why_not_packed(encoders):
        said = f"packing: no, as {reason}"
    else:
        is_packed, said = True, f"packing: several documents to a row, as {fill} ({keep} leaves it)"
    return replace(config, corpus=replace(config.corpus, pack=is_packed)), said


def resolve_attention(
    config: PretrainConfig, rows: NumberedRows, device: torch.device, encoders: Sequence[Encoder]
) -> tuple[PretrainConfig, str]:
    """Decide how encoders compute attention, and set them up accordingly.

    Args:
        config: A run's, with its packing decided.
        rows: Of its training split.
        device: Device to train on.
        encoders: Encoders to train.

    Returns:
        The configuration without ``model.attention=auto``, and a message about the decision, if there is one.
    """
    asked, dtype = config.model.attention, HALF.get(config.train.precision, torch.float32)
    is_asked = asked == "documents"
    if not is_asked and (asked != "auto" or device.type != "cuda" or dtype == torch.float32 or rows.is_full):
        return replace(config, model=replace(config.model, attention="sdpa" if asked == "auto" else asked)), ""
    dropout = max(_attention_dropout(encoder) for encoder in encoders)
    before = [encoder.model.config._attn_implementation for encoder in encoders]
    reasons = [attend_by_documents(encoder, device, dtype, is_asked=is_asked) for encoder in encoders]
    reason = next(filter(None, reasons), "")
    is_exchanged = all(encoder.attends_by_documents for encoder in encoders)
    if not is_exchanged:
        for encoder, kind in zip(encoders, before, strict=True):
            if encoder.attends_by_documents:
                encoder.model.set_attn_implementation(kind)
        said = f"attention: under a mask, as {reason}"
    else:
        off = f"; its dropout ({dropout:g}) is off, as torch's kernel has none: model.attention=sdpa keeps it"
        how = f", under the mask that says the same, as {reason}" if reason else ""
        said = f"attention: by document boundaries{how}{off if dropout else ''}"
    return replace(config, model=replace(config.model, attention="documents" if is_exchanged else "sdpa")), said


def resolve_norms(config: PretrainConfig, encoders: Sequence[Encoder]) -> PretrainConfig:
    """Replace ``model.norms=auto`` by how the layer norms of encoders are computed, as ``models.fused.fuse`` set them.

    In float32 all norms are alike, and the option stays as it is.
    """
    if config.model.norms != "auto" or config.train.precision == "fp32":
        return config
    is_cast = any(isinstance(part, AutocastNorm) for encoder in encoders for part in encoder.model.modules())
    return replace(config, model=replace(config.model, norms="bf16" if is_cast else "autocast"))


def _why_not_packed(encoders: Sequence[Encoder]) -> str:
    try:
        for encoder in encoders:
            check_packing(encoder)
    except ModelError as error:
        return str(error).partition(":")[0]
    return ""


def _attention_dropout(encoder: Encoder) -> float:
    names = ("attention_probs_dropout_prob", "attention_dropout")
    return max(float(getattr(encoder.model.config, name, 0) or 0) for name in names)
