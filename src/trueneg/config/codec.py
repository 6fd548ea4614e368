"""Configurations as data: decoded strictly, changed by ``key=value``, saved as JSON and read back.

A key nobody knows, or a value of the wrong type, is an error with a suggestion: a setting that silently
does nothing costs GPU days.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from trueneg.errors import ConfigError, unknown_name
from trueneg.files.records import read_record
from trueneg.files.whole import write_json
from trueneg.registry import load_plugins

T = TypeVar("T")

LARGEST = sys.float_info.max
"""Of whole numbers: they are divided, too."""

OTHER_NAMES = {
    "bs": "batch_size",
    "eps": "epsilon",
    "adam_epsilon": "epsilon",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "eval_interval": "eval_every",
    "eval_steps": "eval_every",
    "bf16": "precision",
    "dtype": "precision",
    "grad_clip": "max_norm",
    "max_grad_norm": "max_norm",
    "grad_accum": "accumulation",
    "gradient_accumulation": "accumulation",
    "gradient_accumulation_steps": "accumulation",
    "hard_correction": "detector",
    "log_steps": "log_every",
    "logging_steps": "log_every",
    "lr": "learning_rate",
    "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "scheduler": "schedule",
    "max_length": "length",
    "max_seq_length": "length",
    "seq_length": "length",
    "max_steps": "steps",
    "num_steps": "steps",
    "mask_rate": "rate",
    "mlm_probability": "rate",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "random_seed": "seed",
    "report_to": "tracker",
    "save_interval": "save_every",
    "save_steps": "save_every",
    "soft_regularization": "level",
    "warmup": "warmup_steps",
    "warmup_ratio": "warmup_share",
    "wd": "weight_decay",
}
"""What options are called elsewhere: no option's name, but what is suggested."""


def decode(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Make a configuration from plain data, refusing what it does not know.

    Args:
        kind: A dataclass of ``trueneg.config.options``, or one like them.
        data: Field names to values, nested as the dataclass is; what is missing keeps its default.
        where: Dotted path of ``data``, for messages.

    Raises:
        ConfigError: on an unknown key (with a suggestion) or a value of another type.

    Example:
        >>> from trueneg.config.options import MaskingConfig
        >>> decode(MaskingConfig, {"rate": 0.3}).rate
        0.3
        >>> from trueneg.config.options import MaskingConfig
        >>> decode(MaskingConfig, {"rat": 0.3})
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown option 'rat': did you mean 'rate'? Known: ...
    """
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{where}.{key}" if where else key
        if key not in hints:
            raise ConfigError(unknown_name("option", path, [f"{where}.{k}" if where else k for k in hints]))
        values[key] = _decode_value(hints[key], value, path)
    return kind(**values)


def encode(config: Any) -> dict[str, Any]:
    """Turn a configuration into plain data that ``decode`` reads back to an equal one."""
    return dataclasses.asdict(config)


def override(config: T, assignments: Sequence[str]) -> T:
    """Apply ``section.key=value`` settings, typed by the fields they name.

    A key may leave its sections out where it is the only one of that name: ``steps=10``.

    Raises:
        ConfigError: for a setting without '=', an unknown or ambiguous key, or a value of another type.

    Example:
        >>> from trueneg.config.options import PretrainConfig
        >>> override(PretrainConfig(), ["optimizer.learning_rate=3e-4", "steps=10"]).train.steps
        10
    """
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment}: write it as key=value, for example train.steps=1000")
        config = _replace(config, full_name(config, name.strip()).split("."), text.strip())
    return config


def save_config(config: Any, path: Path) -> None:
    """Write a configuration as JSON, whole or not at all."""
    write_json(path, encode(config))


def load_config(kind: type[T], path: Path) -> T:
    """Read what ``save_config`` wrote, and load the plugins that it names.

    Raises:
        ConfigError: if there is no such file, it is not JSON, or it holds unknown or ill-typed options; for a plugin
            that is not found.
    """
    if not path.exists():
        raise ConfigError(f"no configuration at '{path}'")
    data = read_record(dict[str, Any], path, ConfigError, "the command that made it writes it again (--resume)")
    try:
        config = decode(kind, data)
        load_plugins(getattr(config, "plugins", ""))
        return config
    except ConfigError as error:
        raise ConfigError(f"'{path}': {error}") from error


def differences(left: Any, right: Any) -> list[str]:
    """Dotted names of the fields in which two configurations of one kind differ, with both values.

    Example:
        >>> from trueneg.config.options import TrainConfig
        >>> differences(TrainConfig(steps=1), TrainConfig(steps=2))
        ['steps: 1 -> 2']
    """
    ours, theirs = flatten(encode(left)), flatten(encode(right))
    return [f"{key}: {ours[key]} -> {theirs[key]}" for key in ours if ours[key] != theirs[key]]


@dataclass(frozen=True)
class Option:
    """What is known of an option."""

    values: str
    """Its type, or its choices."""
    default: Any
    about: str
    """What it does."""


def describe(kind: type[Any], prefix: str = "") -> dict[str, Option]:
    """Dotted name of every option to its values, its default and what it does.

    Example:
        >>> from trueneg.config.options import TrainConfig
        >>> describe(TrainConfig)["steps"]
        Option(values='int', default=1000, about='Optimizer steps of the whole run.')
    """
    described: dict[str, Option] = {}
    default, about = kind(), _field_docstrings(kind)
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            described |= describe(cast(type[Any], hint), f"{prefix}{name}.")
            continue
        choices = " | ".join(str(choice) or "(empty)" for choice in get_args(hint))
        described[prefix + name] = Option(choices or hint.__name__, getattr(default, name), about.get(name, ""))
    return described


def _field_docstrings(kind: type[Any]) -> dict[str, str]:
    """The string below each field of a dataclass, which Python itself does not keep, without its markup."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    found = {}
    for field, below in itertools.pairwise(cast(ast.ClassDef, tree).body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = cast(ast.Name, field.target).id
            found[name] = " ".join(str(below.value.value).split()).replace("``", "")
    return found


def _decode_value(hint: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: a group of options is wanted, not {value!r}")
        return decode(hint, value, path)  # type: ignore[arg-type]
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            known = [str(choice) or "(empty)" for choice in choices]
            raise ConfigError(unknown_name(f"value of {path}", str(value), known))
        return value
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ConfigError(f"{path}: must be at most {LARGEST:.3g}, got a number of {len(str(abs(value)))} digits")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path}: {hint.__name__} is wanted, not {value!r}")
    return value


def _parse(hint: Any, text: str, path: str) -> Any:
    """Read a command line's text as the type that a field has."""
    if hint is bool:
        words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        if text.lower() not in words:
            raise ConfigError(f"{path}: true or false is wanted, not {text!r}")
        return words[text.lower()]
    if hint in (int, float):
        try:
            number = float(text) if hint is float or "e" in text.lower() else int(text)
        except ValueError as error:
            raise ConfigError(f"{path}: {hint.__name__} is wanted, not {text!r}") from error
        if hint is int and isinstance(number, float) and not number.is_integer():
            raise ConfigError(f"{path}: a whole number is wanted, not {text!r}")
        return hint(number)
    return text


def full_name(config: Any, name: str) -> str:
    """Dotted name of an option, given its last parts.

    Raises:
        ConfigError: for a name that no option has, or several.
    """
    known = list(flatten(encode(config)))
    matches = [key for key in known if key == name] or [key for key in known if key.endswith(f".{name}")]
    if not matches:
        # Someone who left the sections out is compared with names without sections.
        by_name = known if "." in name else {key.rpartition(".")[2] for key in known}
        last = name.rpartition(".")[2]
        meant = [key for key in known if key.rpartition(".")[2] == OTHER_NAMES.get(last, last)]
        shown_by = f"trueneg list {'finetune-options' if 'epochs' in known else 'options'}"
        raise ConfigError(unknown_name("option", name, by_name, shown_by, meant[0] if meant else ""))
    if len(matches) > 1:
        raise ConfigError(f"option {name!r} could be any of {', '.join(matches)}: name its section")
    return matches[0]


def _replace(config: Any, path: Sequence[str], text: str, where: str = "") -> Any:
    key, rest = path[0], path[1:]
    full = f"{where}.{key}" if where else key
    if rest:
        return dataclasses.replace(config, **{key: _replace(getattr(config, key), rest, text, full)})
    hint = get_type_hints(type(config))[key]
    return dataclasses.replace(config, **{key: _decode_value(hint, _parse(hint, text, full), full)})


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted names to values.

    Example:
        >>> flatten({"train": {"steps": 1}})
        {'train.steps': 1}
    """
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
