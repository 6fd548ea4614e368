"""Modules of a sentence encoder besides its transformer, as sentence-transformers saves them: pooling, norm, prompts.

The files are copied from one folder to another and never executed; modules that are not plain data are refused.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trueneg.errors import ModelError
from trueneg.files.records import read_record
from trueneg.files.whole import write_json, write_whole

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
"""Prompts, and the similarity function."""

LENGTH = "sentence_bert_config.json"
"""Settings of the transformer, with its maximum length."""

POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
}
"""Pooling options of releases before 6, in the order in which vectors are concatenated."""

ACTIVATIONS = {"Identity": nn.Identity, "Tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU, "Sigmoid": nn.Sigmoid}
LONGEST = 1_000_000
"""A tokenizer's ``model_max_length`` of this or more means that it is not set."""

_COPIED = {".json", ".txt", ".safetensors"}
_MEND = "save it again with sentence-transformers, or export without it"


@dataclass(frozen=True)
class Module:
    """An entry of ``modules.json``."""

    kind: str
    """The last part of its class's name: ``Transformer``, ``Pooling``, ``Dense``, ``Normalize``, …"""
    path: str


def is_sentence_encoder(folder: str | Path) -> bool:
    """Whether a folder was saved by sentence-transformers."""
    path = Path(folder)
    return any((path / name).exists() for name in (MODULES, SETTINGS, "1_Pooling"))


def read_modules(folder: Path) -> list[Module]:
    """The modules of a sentence encoder, its transformer first; none for any other folder.

    Raises:
        ModelError: for modules that are not plain data: of foreign classes, outside the folder, or pickled.
    """
    if not (folder / MODULES).is_file():
        return []
    entries: list[dict[str, Any]] = read_record(list[dict[str, Any]], folder / MODULES, ModelError, _MEND)
    modules = []
    for number, entry in enumerate(entries):
        kind, path = str(entry.get("type", "")), str(entry.get("path", ""))
        if not kind.startswith("sentence_transformers."):
            raise ModelError(
                f"'{folder / MODULES}' wants code that is not sentence-transformers' own ('{kind}'): {_MEND}"
            )
        if (number > 0 or path) and not re.fullmatch(r"\w[\w.-]{0,99}", path):
            raise ModelError(f"'{folder / MODULES}' has a module outside of its folder ('{path}'): {_MEND}")
        modules.append(Module(kind.rpartition(".")[2], path))
    if not modules or modules[0].kind != "Transformer" or modules[0].path:
        raise ModelError(f"'{folder / MODULES}' does not begin with a transformer in the folder itself: {_MEND}")
    for module in modules[1:]:
        inside = [path for path in (folder / module.path).rglob("*") if path.is_file()]
        if any(path.suffix in (".bin", ".pt") for path in inside) and not any(
            path.suffix == ".safetensors" for path in inside
        ):
            raise ModelError(f"'{folder / module.path}' has pickled weights only, which are never loaded: {_MEND}")
    return modules


def copy_modules(source: Path, target: Path) -> bool:
    """Copy the modules and settings of a sentence encoder from one folder to another.

    Returns:
        Whether there was anything to copy.

    Raises:
        ModelError: as ``read_modules``.
    """
    modules = read_modules(source)
    for module in modules[1:]:
        (target / module.path).mkdir(parents=True, exist_ok=True)
        for path in sorted((source / module.path).rglob("*")):
            if path.is_file() and path.suffix in _COPIED:
                place = target / path.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
    if modules:
        for name in (MODULES, SETTINGS):
            if (source / name).is_file():
                shutil.copyfile(source / name, target / name)
        settings = _settings(source / LENGTH)
        length = max_seq_length(source)
        write_json(target / LENGTH, settings if length is None else {**settings, "max_seq_length": length})
    return bool(modules)


def max_seq_length(folder: Path) -> int | None:
    """Maximum number of tokens that a sentence encoder reads; None if it is not set."""
    # Releases from 6 on set it in the tokenizer, which may be replaced.
    for name, key in ((LENGTH, "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        length = _settings(folder / name).get(key)
        if isinstance(length, int) and length < LONGEST:
            return length
    return None


def write_mean_pooling(target: Path, width: int, length: int) -> None:
    """Write the files of the simplest sentence encoder: the mean over all tokens.

    Args:
        target: The folder of its transformer.
        width: Dimension of its vectors.
        length: Maximum number of tokens that it reads.
    """
    # Names and keys that every release of sentence-transformers reads; newer ones write different ones.
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    write_whole(target / MODULES, json.dumps(modules, indent=2) + "\n")
    (target / "1_Pooling").mkdir()
    write_json(target / "1_Pooling/config.json", {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True})
    write_json(target / LENGTH, {"max_seq_length": length, "do_lower_case": False})


def pooling_of(folder: Path) -> list[str]:
    """Pooling modes of a sentence encoder: ``mean``, ``cls``, …; ``mean`` without any setting.

    Raises:
        ModelError: as ``read_modules``.
    """
    pooling = next((module for module in read_modules(folder) if module.kind == "Pooling"), None)
    if pooling is None:
        return ["mean"]
    settings = _settings(folder / pooling.path / "config.json")
    # Modes that releases before 6 had besides are named by the rest of their key.
    others = {key: key.removeprefix("pooling_mode_") for key in settings if key.startswith("pooling_mode_")}
    names = POOLING_KEYS | {key: name for key, name in others.items() if key not in POOLING_KEYS}
    chosen = settings.get("pooling_mode", [mode for key, mode in names.items() if settings.get(key)])
    return [chosen] if isinstance(chosen, str) else [str(mode) for mode in chosen] or ["mean"]


class SentenceHead(nn.Module):
    """Computes sentence vectors from token vectors, with the modules of a folder.

    Args:
        folder: Folder of a sentence encoder; for any other one the head is the mean.

    Raises:
        ModelError: for an unsupported module or pooling mode.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.modes = pooling_of(folder)
        if unknown := sorted(set(self.modes) - set(POOLING_KEYS.values())):
            raise ModelError(f"'{folder}' pools by '{unknown[0]}', which has no graph here: use --head encoder")
        steps: list[nn.Module] = []
        for module in read_modules(folder)[1:]:
            if module.kind == "Dense":
                steps.append(_dense(folder / module.path))
            elif module.kind == "Normalize":
                steps.append(_Normalize())
            elif module.kind not in ("Pooling", "Dropout"):
                raise ModelError(
                    f"'{folder}' has a module '{module.kind}', which has no graph here: use --head encoder"
                )
        self.steps = nn.Sequential(*steps)

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """``[rows, length, hidden]`` and ``[rows, length]`` to ``[rows, width]``."""
        weights = attention_mask[..., None].to(hidden.dtype)
        total, count = (hidden * weights).sum(1), weights.sum(1).clamp(min=1e-9)
        vectors = {
            "cls": lambda: hidden[:, 0],
            "max": lambda: hidden.masked_fill(weights == 0, torch.finfo(hidden.dtype).min).amax(1),
            "mean": lambda: total / count,
            "mean_sqrt_len_tokens": lambda: total / count.sqrt(),
        }
        result: Tensor = self.steps(torch.cat([vectors[mode]() for mode in self.modes], dim=-1))
        return result


class _Normalize(nn.Module):
    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1)


def _dense(folder: Path) -> nn.Module:
    settings = _settings(folder / "config.json")
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise ModelError(f"'{folder}' has the activation '{name}', which has no graph here: use --head encoder")
    try:
        weights = load_file(folder / "model.safetensors")
        out_features, in_features = weights["linear.weight"].shape
        linear = nn.Linear(in_features, out_features, bias="linear.bias" in weights)
        linear.load_state_dict({key.removeprefix("linear."): value for key, value in weights.items()})
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ModelError(f"cannot load '{folder / 'model.safetensors'}': {str(error).splitlines()[0]}") from error
    return nn.Sequential(linear, ACTIVATIONS[name]())


def _settings(path: Path) -> dict[str, Any]:
    return read_record(dict[str, Any], path, ModelError, _MEND) if path.is_file() else {}
