"""What a run keeps of the checkpoint that it continues, which may be gone when the run is exported."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.errors import ModelError, TruenegWarning
from trueneg.files.records import read_record
from trueneg.files.whole import replace_folder, write_json
from trueneg.models.backbone import Encoder
from trueneg.models.electra import ElectraPair
from trueneg.models.loading import resolve_checkpoint
from trueneg.models.sentence_modules import copy_modules, is_sentence_encoder, pooling_of
from trueneg.terminal.printable import printable, short_path
from trueneg.tokenizer import save_tokenizer

FILE = "origin.json"
CARD = "README.md"

_HUB_FILES = (CARD, "*.json", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/")
_LICENSE = re.compile(r"[\w.+-]{1,60}")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Origin:
    """Where a checkpoint comes from; empty fields are unknown."""

    name: str = ""
    """The last parts, at most two, of the path that was continued; empty for a run from random weights."""
    base_model: str = ""
    """Its name on the hub."""
    license: str = ""
    is_sentence_encoder: bool = False
    pooling: str = "mean"
    """Pooling of a sentence encoder."""


def origin_of(source: str) -> Origin:
    """Describe a checkpoint from its folder, its name and its card.

    Args:
        source: A run folder, a Hugging Face folder or a hub name.

    Raises:
        ModelError: if there is none.
    """
    folder = _small_files(source)
    card = _card_data(folder) if folder else {}
    is_sentence = folder is not None and is_sentence_encoder(folder)
    try:
        pooling = "+".join(pooling_of(folder)) if folder and is_sentence else "mean"
    except ModelError:  # ``keep_origin`` and exports report it; the checkpoint can be described nevertheless
        pooling = "mean"
    return Origin(
        name=printable(short_path(source)),
        base_model=_base_model(source, card),
        license=_matching(_LICENSE, card.get("license")),
        is_sentence_encoder=is_sentence,
        pooling=pooling,
    )


def keep_origin(folder: Path, source: str, model: nn.Module, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write what turns checkpoints into whole models: shapes, tokenizer, origin, a sentence encoder's modules.

    Args:
        folder: Folder within the run's.
        source: The checkpoint that the run continues; empty for random weights.
        model: The model in training.
        tokenizer: The corpus's tokenizer.
    """
    origin = origin_of(source) if source else Origin()

    def fill(new: Path) -> None:
        save_tokenizer(tokenizer, new)
        encoder = model.discriminator if isinstance(model, ElectraPair) else model
        assert isinstance(encoder, Encoder)
        _save_shapes(encoder, new)
        if isinstance(model, ElectraPair):
            _save_shapes(model.generator, new / "generator")
        write_json(new / FILE, dataclasses.asdict(origin))
        files = _small_files(source) if origin.is_sentence_encoder else None
        try:
            if files is not None:
                copy_modules(files, new)
        except ModelError as error:
            warnings.warn(
                f"{error}. Exports of this run to sentence-transformers will take the mean of its vectors",
                TruenegWarning,
                stacklevel=2,
            )

    replace_folder(folder, fill)


def read_origin(folder: Path, source: str) -> Origin:
    """Read what ``keep_origin`` wrote; for a run of an earlier version, inspect the continued checkpoint if it exists.

    Args:
        folder: Folder within the run's.
        source: The checkpoint that the run continues; empty for random weights.

    Raises:
        ModelError: if it is damaged.
    """
    path = folder / FILE
    if path.is_file():
        return read_record(Origin, path, ModelError, "remove it")
    return origin_of(source) if source and Path(source).exists() else Origin(printable(short_path(source)))


def _save_shapes(encoder: Encoder, folder: Path) -> None:
    config = encoder.model.config
    config.architectures = [type(encoder.model).__name__]
    config.save_pretrained(folder)


def modules_folder(source: str) -> Path:
    """Return a checkpoint's folder; for a hub name, one with its card, configurations and sentence-encoder modules.

    Raises:
        ModelError: for a hub name whose files cannot be had.
    """
    if (folder := _small_files(source)) is None:
        raise ModelError(f"'{source}': whether it is a sentence encoder cannot be known without its files on the hub")
    return folder


def _small_files(source: str) -> Path | None:
    """The folder of a checkpoint; for a hub name, one with its card, configurations and modules, or None if offline."""
    path = Path(resolve_checkpoint(source))
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(source, allow_patterns=list(_HUB_FILES)))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(
            f"the card of '{source}', and what makes a sentence encoder of it, cannot be had ({reason}): cards of this "
            f"run will not tell its licence, and exports to sentence-transformers take the mean of its vectors",
            TruenegWarning,
            stacklevel=3,
        )
        return None


def _card_data(folder: Path) -> Mapping[str, Any]:
    """The metadata at the top of a card, which anybody may have written; empty if it is missing or unreadable."""
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub.repocard import metadata_load

    try:
        found = metadata_load(folder / CARD) if (folder / CARD).is_file() else None
    except (yaml.YAMLError, OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _base_model(source: str, card: Mapping[str, Any]) -> str:
    path = Path(source)
    if not path.exists():
        return _matching(_HUB_NAME, source)
    if cached := _CACHED.search(f"{path.resolve().as_posix()}/"):
        return f"{cached[1]}/{cached[2]}"
    tags = card.get("tags")
    # A run of ours is not a model on the hub, but the one that it continued may be.
    is_ours = isinstance(tags, list) and "trueneg" in tags
    return _matching(_HUB_NAME, card.get("base_model")) if is_ours else ""


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    """A value of somebody else's card, if it is safe to write into ours; else empty."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""
