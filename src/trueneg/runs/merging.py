"""``merge``: one model from several checkpoints of the same architecture."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trueneg.errors import ConfigError, ModelError
from trueneg.files.whole import replace_folder
from trueneg.models.loading import config_of, resolve_checkpoint
from trueneg.models.merging import MergeConfig, model_shares, ties, trim_threshold, weighted_mean
from trueneg.models.origin import origin_of
from trueneg.runs.card import PLACE, Use, plain_card
from trueneg.runs.exporting import export
from trueneg.terminal.printable import printable, short_path
from trueneg.tokenizer import load_tokenizer
from trueneg.training.folder import kept_models

_COMPUTES = re.compile(r"model_type|head|act|rope|eps|position|window|layer_type|local_att|global_att")
"""Configuration entries that change what a model computes without changing the shapes of its weights."""


@dataclass(frozen=True)
class Merged:
    """A merged model that was written."""

    path: Path
    method: str
    num_models: int
    num_tensors: int
    num_parameters: int


def merge(checkpoints: Sequence[str], out: str | Path, config: MergeConfig | None = None, *, base: str = "") -> Merged:
    """Merge checkpoints into a folder that stock ``transformers`` loads.

    Tensors are read one at a time from safetensors files. Everything else in the folder (configuration, tokenizer,
    modules of a sentence encoder) is the first checkpoint's.

    Args:
        checkpoints: Runs, ``RUN@STEP``, Hugging Face folders; in order for ``ema``.
        out: A new or empty folder.
        config: The method and its parameters; the mean by default.
        base: The checkpoint that all were continued from, for ``ties``.

    Raises:
        ConfigError: for invalid options, or a folder that is not empty.
        ModelError: for a checkpoint that does not exist, whose tensors or vocabulary differ from the first one's, or
            whose weights are not finite.
    """
    config = config or MergeConfig()
    config.check(len(checkpoints), bool(base))
    target = Path(out)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise ConfigError(f"--out {target} is not empty: give another folder")
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="trueneg-"))
        names = [*checkpoints, *([base] if base else [])]
        folders = [_folder_of(name, Path(temporary) / str(number)) for number, name in enumerate(names)]
        models = [_Weights.open(name, folder, stack) for name, folder in zip(names, folders, strict=True)]
        for model in models[1:]:
            _check_alike(models[0], model)
        counted: dict[str, int] = {}

        def fill(new: Path) -> None:
            shutil.copytree(folders[0], new, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
            counted.update(_write(models, bool(base), config, new))
            _describe(new, checkpoints, base, config)

        try:
            replace_folder(target.absolute(), fill)
        except OSError as error:
            raise ModelError(f"cannot write '{target}': {error.strerror}: make room, or name another --out") from error
    return Merged(target, config.method, len(checkpoints), counted["tensors"], counted["parameters"])


def _folder_of(checkpoint: str, temporary: Path) -> Path:
    """Find the Hugging Face folder of a checkpoint; for a step of a run it may be exported to ``temporary``."""
    run, at, step = checkpoint.rpartition("@")
    if at and step.isdecimal() and Path(run).is_dir():
        kept = kept_models(Path(run))
        return kept[int(step)] if int(step) in kept else export(run, "hf", temporary, step=int(step)).path
    folder = Path(resolve_checkpoint(checkpoint))
    if not folder.is_dir():
        raise ModelError(f"'{checkpoint}' is a hub name: merge reads folders; hf download {checkpoint} makes one")
    return folder


@dataclass(frozen=True)
class _Weights:
    """The tensors of a checkpoint, in all of its safetensors files."""

    name: str
    folder: Path
    files: Mapping[Path, Any]
    """Open files by path relative to the folder."""
    places: Mapping[str, Path]
    """File of each ``FOLDER/TENSOR``: models may be sharded differently, but subfolders must match."""

    @classmethod
    def open(cls, name: str, folder: Path, stack: ExitStack) -> _Weights:
        """Open every safetensors file of a folder."""
        files, places = {}, {}
        for path in sorted(folder.rglob("*.safetensors")):
            place = path.relative_to(folder)
            try:
                files[place] = stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelError(f"'{name}': {place} is damaged: {error}") from error
            for tensor in files[place].keys():  # noqa: SIM118 (it is no dict)
                places[f"{place.parent.as_posix()}/{tensor}"] = place
        if not places:
            raise ModelError(f"'{name}' has no weights in safetensors files: merge reads nothing else")
        return cls(name, folder, files, places)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Tokens and their ids."""
        return load_tokenizer(str(self.folder)).get_vocab()

    @cached_property
    def computes(self) -> dict[str, Any]:
        """Configuration entries that determine what it computes but do not show in the shapes of its tensors."""
        config = config_of(str(self.folder)).to_dict()
        return {name: value for name, value in config.items() if _COMPUTES.search(name) and "drop" not in name}

    def is_floating(self, tensor: str) -> bool:
        """Whether a tensor can be averaged, without reading it."""
        kind: str = self.files[self.places[tensor]].get_slice(_own_name(tensor)).get_dtype()
        return kind.startswith(("F", "BF"))

    def shape(self, tensor: str) -> list[int]:
        """Read a tensor's shape."""
        shape: list[int] = self.files[self.places[tensor]].get_slice(_own_name(tensor)).get_shape()
        return shape

    def read(self, tensor: str) -> Tensor:
        """Read a tensor.

        Raises:
            ModelError: if it holds a number that is not finite.
        """
        found: Tensor = self.files[self.places[tensor]].get_tensor(_own_name(tensor))
        if found.is_floating_point() and not found.isfinite().all():
            raise ModelError(f"'{self.name}': {_own_name(tensor)} has numbers that are not finite: leave it out")
        return found


def _own_name(tensor: str) -> str:
    return tensor.rpartition("/")[2]


def _check_alike(first: _Weights, other: _Weights) -> None:
    if missing := sorted(first.places.keys() ^ other.places.keys()):
        holder, without = (first, other) if missing[0] in first.places else (other, first)
        raise ModelError(
            f"'{holder.name}' has {_own_name(missing[0])} and '{without.name}' has not ({len(missing)} such tensors): "
            f"only models of one architecture can be merged"
        )
    for tensor in first.places:
        if first.shape(tensor) != other.shape(tensor):
            raise ModelError(
                f"{_own_name(tensor)} is {first.shape(tensor)} in '{first.name}' and {other.shape(tensor)} in "
                f"'{other.name}': only models of the same sizes can be merged"
            )
    mine, theirs = first.computes, other.computes
    if differing := [name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]:
        name = differing[0]
        raise ModelError(
            f"'{first.name}' has {name}={mine.get(name)} and '{other.name}' {theirs.get(name)}: only models that "
            f"compute alike can be merged"
        )
    if first.vocabulary != other.vocabulary:
        raise ModelError(f"'{first.name}' and '{other.name}' have other vocabularies: their embeddings do not match")


def _write(models: Sequence[_Weights], has_base: bool, config: MergeConfig, new: Path) -> dict[str, int]:
    """Write the merged tensors into the same files as the first model's, and count them."""
    merged_from = models[:-1] if has_base else models
    shares = model_shares(config, len(merged_from))
    thresholds = _thresholds(merged_from, models[-1], config.density) if has_base else []
    num_parameters = 0
    for file in models[0].files:
        tensors: dict[str, Tensor] = {}
        for tensor in (name for name, place in models[0].places.items() if place == file):
            found = [model.read(tensor) for model in merged_from]
            if not found[0].is_floating_point():
                if any(not torch.equal(found[0], one) for one in found[1:]):
                    raise ModelError(f"{_own_name(tensor)} holds whole numbers that differ: they cannot be averaged")
                merged = found[0]
            elif has_base:
                weights = config.weights or (1.0,) * len(found)
                merged = ties(models[-1].read(tensor), found, thresholds, weights, config.scale)
            else:
                merged = weighted_mean(found, shares)
            tensors[_own_name(tensor)] = merged
            num_parameters += merged.numel()
        (new / file).parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, new / file, metadata={"format": "pt"})
    return {"tensors": len(models[0].places), "parameters": num_parameters}


def _thresholds(models: Sequence[_Weights], base: _Weights, density: float) -> list[float]:
    floating = [tensor for tensor in base.places if base.is_floating(tensor)]

    def of_model(model: _Weights) -> float:
        return trim_threshold(floating, lambda name: model.read(name).float() - base.read(name).float(), density)

    return [of_model(model) for model in models]


def _describe(new: Path, checkpoints: Sequence[str], base: str, config: MergeConfig) -> None:
    """Write the model card: which checkpoints were merged, and how."""
    use = Use("transformers", f'from transformers import AutoModel\n\nAutoModel.from_pretrained("{PLACE}")', ("merge",))
    numbers = {
        "mean": "",
        "linear": f", weights {', '.join(f'{weight:g}' for weight in config.weights)}",
        "ema": f", decay {config.decay:g}",
        "ties": f" with density {config.density:g} and scale {config.scale:g}, from `{_shown(base)}`",
    }[config.method]
    named = "\n".join(f"- `{_shown(name)}`" for name in checkpoints)
    merged = f"Merged of {len(checkpoints)} checkpoints ({config.method}{numbers}):\n\n{named}\n"
    card = plain_card(new.name.removeprefix(".").removesuffix(".new"), origin_of(str(new)), use)
    (new / "README.md").write_text(f"{card}\n{merged}", encoding="utf-8")


def _shown(name: str) -> str:
    return printable(short_path(name))
