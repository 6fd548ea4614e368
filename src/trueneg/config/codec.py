"""Configurations as data: decoded strictly, changed by ``key=value``, saved as JSON and read back.

An unknown key or a value of the wrong type is an error with a suggestion: a setting that silently
does nothing costs GPU days.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from trueneg.config.fields import Rule, current_value, explain, hints_of, own_rules, rules, warn_renamed
from trueneg.errors import ConfigError, unknown_name
from trueneg.files.records import read_record
from trueneg.files.whole import write_json
from trueneg.registry import require_plugins

T = TypeVar("T")

LARGEST = sys.float_info.max
"""Largest whole number accepted: larger ones cannot be converted to float."""

OTHER_NAMES = {
    other: name
    for name, others in {
        "accumulation": "grad_accum gradient_accumulation gradient_accumulation_steps",
        "batch_size": "bs",
        "beta1": "adam_beta1",
        "beta2": "adam_beta2",
        "detector": "hard_correction",
        "epochs": "num_train_epochs num_epochs",
        "epsilon": "eps adam_epsilon",
        "eval_every": "eval_interval eval_steps",
        "learning_rate": "lr",
        "length": "max_length max_seq_length seq_length",
        "level": "soft_regularization",
        "log_every": "log_steps logging_steps",
        "max_grad_norm": "grad_clip",
        "min_lr_ratio": "min_lr",
        "precision": "bf16 dtype",
        "rate": "mask_rate mlm_probability",
        "save_every": "save_interval save_steps",
        "schedule": "lr_scheduler lr_scheduler_type scheduler",
        "seed": "random_seed",
        "steps": "max_steps num_steps",
        "tracker": "report_to",
        "warmup_ratio": "warmup_proportion",
        "warmup_steps": "warmup",
        "weight_decay": "wd",
    }.items()
    for other in others.split()
}
"""Names that other libraries use, mapped to ours: not accepted, but used for suggestions."""


def decode(kind: type[T], data: Mapping[str, Any], where: str = "") -> T:
    """Make a configuration from plain data, refusing unknown keys.

    Args:
        kind: A dataclass of options, or a similar one.
        data: Values by field name, nested like the dataclass; missing fields keep their defaults.
        where: Dotted path of ``data``, for messages.

    Raises:
        ConfigError: on an unknown key (with a suggestion) or a value of another type.

    Example:
        >>> from trueneg.config.objective_options import MaskingConfig
        >>> decode(MaskingConfig, {"rate": 0.3}).rate
        0.3
        >>> decode(MaskingConfig, {"rat": 0.3})
        Traceback (most recent call last):
        trueneg.errors.ConfigError: unknown option 'rat': did you mean 'rate'? Known: ...
    """
    hints, own = hints_of(kind), own_rules(kind)
    values: dict[str, Any] = {}
    for key, value in with_current_names(kind, data, where).items():
        path = _joined(where, key)
        if key not in hints:
            raise ConfigError(unknown_name("option", path, [_joined(where, name) for name in hints]))
        values[key] = _decode_value(hints[key], value, path, own[key])
    return _of_presets(kind, values)


def with_current_names(kind: type[Any], data: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Replace old names of options and values by current ones; unknown names stay as they are.

    Args:
        kind: The dataclass that ``data`` describes.
        data: Values by field name, nested like the dataclass.
        where: Dotted path of ``data``, for messages.

    Raises:
        ConfigError: if an option is given under both its old and its current name.
    """
    hints, own = hints_of(kind), own_rules(kind)
    current = {old: name for name, rule in own.items() for old in rule.formerly}
    renamed: dict[str, Any] = {}
    for key, value in data.items():
        name = current.get(key, key)
        path = _joined(where, name)
        if name != key:
            if name in data:
                raise ConfigError(f"{path} is given twice: {_joined(where, key)} is its old name, leave it out")
            warn_renamed(f"option {_joined(where, key)}", path)
        hint = hints.get(name)
        if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
            renamed[name] = with_current_names(cast(type[Any], hint), value, path)
        else:
            renamed[name] = current_value(own[name], value, path) if name in own else value
    return renamed


def encode(config: Any) -> dict[str, Any]:
    """Turn a configuration into plain data that ``decode`` reads back to an equal one."""
    return dataclasses.asdict(config, dict_factory=_with_lists)


def _with_lists(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A group of options as JSON returns it: with lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items}


def override(config: T, assignments: Sequence[str]) -> T:
    """Apply ``section.key=value`` settings, typed by the fields they name.

    A key may omit its sections if its name is unique: ``steps=10``. Presets of a group of options are applied first,
    whatever their position, so that other settings take precedence over them.

    Raises:
        ConfigError: for a setting without '=', an unknown or ambiguous key, or a value of another type.

    Example:
        >>> from trueneg.config.options import PretrainConfig
        >>> override(PretrainConfig(), ["optimizer.learning_rate=3e-4", "steps=10"]).train.steps
        10
    """
    known = rules(type(config))
    settings = [_setting(config, assignment) for assignment in assignments]
    named = {path for path, _ in settings}
    for path, text in list(settings):
        for brought in known[path].brings.get(text, ()):
            name, _, value = brought.partition("=")
            if (other := _joined(path.rpartition(".")[0], name)) not in named:
                settings.append((other, value))
    for path, text in sorted(settings, key=lambda setting: not known[setting[0]].presets):
        config = _replace(config, path.split("."), text)
    return config


def _setting(config: Any, assignment: str) -> tuple[str, str]:
    """Full name and value, as text, of a setting."""
    name, equals, text = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set {assignment}: write it as key=value, for example train.steps=1000")
    path = full_name(config, name.strip())
    if (old := name.strip()).rpartition(".")[2] != path.rpartition(".")[2]:
        warn_renamed(f"option {old}", path)
    return path, text.strip()


def save_config(config: Any, path: Path) -> None:
    """Write a configuration as JSON, whole or not at all."""
    write_json(path, encode(config))


def load_config(kind: type[T], path: Path) -> T:
    """Read what ``save_config`` wrote.

    Raises:
        ConfigError: if there is no such file, it is not JSON, or it holds unknown or ill-typed options; if it names
            plugins that are not loaded.
    """
    if not path.exists():
        raise ConfigError(f"no configuration at '{path}'")
    data = read_record(dict[str, Any], path, ConfigError, "the command that made it writes it again (--resume)")
    try:
        config = decode(kind, data)
        require_plugins(getattr(config, "plugins", ""))
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
    """Description of an option."""

    values: str
    """Its type, or its choices."""
    default: Any
    about: str
    """What it does."""
    bounds: str = ""
    """Bounds of a number."""
    resume: str = "same"
    """Whether a resumed run may change it: ``same``, ``free``, or ``unfinished`` (until the run has finished)."""
    needs: tuple[str, ...] = ()
    """Conditions under which it has an effect."""
    formerly: tuple[str, ...] = ()
    """Its old names, which are still accepted."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Other defaults, by the profile or scale that has them."""


def describe(config: Any) -> dict[str, Option]:
    """Describe every option that ``--set`` can change, by its dotted name.

    Args:
        config: A dataclass of options; its values are described as the defaults.

    Example:
        >>> from trueneg.config.options import PretrainConfig
        >>> described = describe(PretrainConfig())["train.steps"]
        >>> described.values, described.bounds, described.about
        ('int', 'at least 1', 'Optimizer steps of the whole run, of all its stages together.')
    """
    described, known, default = {}, rules(type(config)), flatten(encode(config))
    hints_and_docs = _hints_and_docstrings(type(config))
    for name, rule in known.items():
        hint, about = hints_and_docs[name]
        if get_origin(hint) is frozenset:
            continue
        choices = " | ".join(_said(choice) for choice in get_args(hint) if get_origin(hint) is Literal)
        described[name] = Option(
            values=choices or hint.__name__,
            default=default[name],
            about=about,
            bounds=rule.bounds,
            resume=rule.resume,
            needs=tuple(explain(condition, known) for condition in rule.needs),
            formerly=rule.formerly,
        )
    return described


def _hints_and_docstrings(kind: type[Any], prefix: str = "") -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    about = _field_docstrings(kind)
    for name, hint in hints_of(kind).items():
        if dataclasses.is_dataclass(hint):
            found |= _hints_and_docstrings(cast(type[Any], hint), f"{prefix}{name}.")
        else:
            found[prefix + name] = hint, about.get(name, "")
    return found


def _field_docstrings(kind: type[Any]) -> dict[str, str]:
    """The string below each field of a dataclass, which Python itself does not keep, without markup."""
    found: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, kind.__bases__):
        found |= _field_docstrings(base)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    for above, below in itertools.pairwise(cast(ast.ClassDef, tree).body):
        if isinstance(above, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = cast(ast.Name, above.target).id
            found[name] = " ".join(str(below.value.value).split()).replace("``", "")
    return found


def _said(choice: str | bool) -> str:
    """A choice as it is written on the command line."""
    return str(choice).lower() if isinstance(choice, bool) else choice or "(empty)"


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _decode_value(hint: Any, value: Any, path: str, rule: Rule) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path} must be a group of options, got {value!r}")
        return decode(hint, value, path)  # type: ignore[arg-type]
    value = current_value(rule, value, path)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} must be a list, got {value!r}")
        of_each = get_args(hint)[0]
        return tuple(_decode_value(of_each, one, f"{path}[{number}]", Rule()) for number, one in enumerate(value))
    if get_origin(hint) is Literal:
        # Types are compared, too: 1 is not True.
        if not any(type(value) is type(choice) and value == choice for choice in get_args(hint)):
            raise ConfigError(
                unknown_name(f"value of {path}", str(value), [_said(choice) for choice in get_args(hint)])
            )
        return value
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ConfigError(f"{path} must be at most {LARGEST:.3g}, got a number of {len(str(abs(value)))} digits")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path} must be {_NAMES.get(hint, hint.__name__)}, got {value!r}")
    return value


def _parse(hint: Any, text: str, path: str) -> Any:
    """Parse a value from the command line as the type of its field."""
    if hint is bool:
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"{path} must be true or false, got {text!r}")
        return _BOOLEANS[text.lower()]
    if get_origin(hint) is tuple:
        raise ConfigError(f"{path}: give a file with --{path} FILE, or change one: --set {path}.NAME.OPTION=VALUE")
    if get_origin(hint) is frozenset:
        raise ConfigError(f"{path} can only be set in Python, not with --set")
    if True in get_args(hint):
        return _BOOLEANS.get(text.lower(), text)
    if hint in (int, float):
        try:
            number = float(text) if hint is float or "e" in text.lower() else int(text)
        except ValueError as error:
            raise ConfigError(f"{path} must be {_NAMES[hint]}, got {text!r}") from error
        if hint is int and isinstance(number, float) and not number.is_integer():
            raise ConfigError(f"{path} must be a whole number, got {text!r}")
        return hint(number)
    return text


def full_name(config: Any, name: str) -> str:
    """Dotted name of an option, given the last parts of its name or of an old name.

    Raises:
        ConfigError: if no option or several match.
    """
    known = rules(type(config))
    matches = [key for key in known if key == name] or [key for key in known if key.endswith(f".{name}")]
    if not matches:
        old = {_joined(key.rpartition(".")[0], former): key for key, rule in known.items() for former in rule.formerly}
        matches = [key for former, key in old.items() if f".{former}".endswith(f".{name}")]
    if not matches:
        # A name without sections is compared with names without sections.
        by_name = known if "." in name else {key.rpartition(".")[2] for key in known}
        last = name.rpartition(".")[2]
        meant = [key for key in known if key.rpartition(".")[2] == OTHER_NAMES.get(last, last)]
        kind = getattr(config, "listed_as", "")
        shown_by = f"trueneg list {kind}" if kind else ""
        raise ConfigError(unknown_name("option", name, by_name, shown_by, meant[0] if meant else ""))
    if len(matches) > 1:
        raise ConfigError(f"option {name!r} could be any of {', '.join(matches)}: name its section")
    return matches[0]


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _replace(config: Any, path: Sequence[str], text: str, where: str = "") -> Any:
    key, rest = path[0], path[1:]
    full = _joined(where, key)
    if rest:
        return dataclasses.replace(config, **{key: _replace(getattr(config, key), rest, text, full)})
    hint, rule = hints_of(type(config))[key], own_rules(type(config))[key]
    value = _decode_value(hint, _parse(hint, text, full), full, rule)
    return _of_presets(type(config), {key: value}) if rule.presets else dataclasses.replace(config, **{key: value})


def _of_presets(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make a group of options from values, and from those of a preset that is named among them."""
    named = [
        dict(rule.presets[values[name]]) for name, rule in own_rules(kind).items() if rule.presets and name in values
    ]
    return kind(**{key: value for preset in [*named, values] for key, value in preset.items()})


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested options to dotted names.

    Example:
        >>> flatten({"train": {"steps": 1}})
        {'train.steps': 1}
    """
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
