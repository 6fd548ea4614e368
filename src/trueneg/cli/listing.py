"""``trueneg list``: names and options, with what each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueneg.cli.output import Json, Output, Quiet
from trueneg.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from trueneg.config.codec import Option


LISTS = {
    "presets": "named configurations for pre-training",
    "objectives": "objectives of pre-training",
    "detectors": "detectors of false negatives",
    "tasks": "tasks for fine-tuning and evaluation",
    "attacks": "attacks on fine-tuned models",
    "options": "options of pretrain for --set: defaults, bounds, requirements",
    "finetune-options": "options of finetune for --set",
    "triplet-options": "options of evaluate encoder --task triplets for --set",
    "attack-options": "options of each attack for --set, with the values of its profiles",
    "planted-options": "options of reproduce planted for --set, with the values of its scales",
}


def _presets() -> dict[str, dict[str, Any]]:
    """Map the name of each preset to its configuration, source and cost."""
    from trueneg.config.costs import GPU, cost_of
    from trueneg.config.presets import PRESETS, PUBLISHED

    found = {}
    for name, config in PRESETS.items():
        cost, published, train = cost_of(config), PUBLISHED[name], config.train
        found[name] = {
            "objective": config.objective.name,
            "layers": config.model.num_layers,
            "hidden_size": config.model.hidden_size,
            "start_from": config.model.start_from,
            "generator_from": config.model.generator_from,
            "steps": train.steps,
            "stages": {stage.name: stage.steps for stage in config.stages},
            "batch_size": train.batch_size,
            "length": config.corpus.length,
            "tokens": cost.tokens,
            "flops": cost.flops,
            "gpu": GPU,
            "gpu_hours": cost.gpu_hours,
            **vars(published),
        }
    return found


def _steps_in_words(preset: Mapping[str, Any]) -> str:
    if preset["stages"]:
        return f"stages of {', '.join(f'{steps:,} ({name})' for name, steps in preset['stages'].items())} steps"
    return f"{preset['steps']:,} steps x {preset['batch_size']:,} rows x {preset['length']:,}"


def _preset_in_words(preset: Mapping[str, Any]) -> str:
    sources = " and ".join(filter(None, (preset["start_from"], preset["generator_from"])))
    tokens, hours = preset["tokens"], preset["gpu_hours"]
    many = f"{tokens / 1e9:,.3g} billion" if tokens >= 1e9 else f"{tokens / 1e6:.3g} million"
    told = [
        f"{preset['objective']}, {preset['layers']} layers of {preset['hidden_size']}",
        f"continues {sources}" if sources else "from nothing",
        f"{_steps_in_words(preset)} = {many} tokens",
        f"about {hours:,.0f} hours of an {preset['gpu']}" if hours >= 1 else f"less than an hour of an {preset['gpu']}",
        f"source: {preset['source']}" + (f", text: {preset['text']}" if preset["text"] else ""),
    ]
    return "; ".join([*told, *([f"its own time: {preset['hours']}"] if preset["hours"] else [])])


def _names(kind: str) -> Mapping[str, str]:
    """Return the names in one of ``LISTS`` with their descriptions, importing only the packages that define them."""
    if kind == "objectives":
        from trueneg.objectives import OBJECTIVES

        return OBJECTIVES.described()
    if kind == "detectors":
        from trueneg.detectors import DETECTORS, SCORERS

        return DETECTORS.described() | SCORERS.described()
    if kind == "tasks":
        from trueneg.tasks import FAMILIES

        return FAMILIES.described()
    from trueneg.attacks.registry import ATTACKS

    return ATTACKS.described()


def list_names(
    kind: Annotated[str, typer.Argument(help=f"What to list: {', '.join(LISTS)}; by default, these kinds.")] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the available presets, objectives, detectors, tasks or attacks, or every option of a run.

    Example: `trueneg list presets`
    """
    output = Output(as_json)
    if not kind:
        output.table({"lists": LISTS}, ("trueneg list", ""), list(LISTS.items()))
    elif kind not in LISTS:
        raise ConfigError(unknown_name("list", kind, LISTS))
    elif kind.endswith("options"):
        groups = {name: _described(variants) for name, variants in _configs(kind).items()}
        options = {(name, key): option for name, group in groups.items() for key, option in group.items()}
        entries = {" ".join(filter(None, names)): _explained(option) for names, option in options.items()}
        output.definitions({kind: groups.get("", groups)}, entries)
    elif kind == "presets":
        from trueneg.config.costs import FORMULA

        presets = _presets()
        output.definitions(
            {kind: presets, "estimate": FORMULA},
            {name: _preset_in_words(preset) for name, preset in presets.items()} | {"estimate": FORMULA},
        )
    else:
        names = _names(kind)
        output.table({kind: names}, (kind, ""), list(names.items()))


def _configs(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Return each configuration of a kind of options in its variants, the default first."""
    if kind == "attack-options":
        from trueneg.attacks.registry import ATTACKS, profiles_of

        return {name: profiles_of(name) for name in ATTACKS}
    if kind == "planted-options":
        from trueneg.recipes.planted import SCALES

        return {"": SCALES}
    from trueneg.config.finetune_options import FinetuneConfig
    from trueneg.config.objective_options import TripletConfig
    from trueneg.config.options import PretrainConfig

    configs: list[Any] = [PretrainConfig(), FinetuneConfig(), TripletConfig()]
    (config,) = (config for config in configs if config.listed_as == kind)
    return {"": {"": config}}


def _described(variants: Mapping[str, Any]) -> dict[str, Option]:
    """Describe the options of a configuration, and what other variants than the first have instead of the default."""
    from trueneg.config.codec import describe

    described: dict[str, Option] = {}
    for variant, config in variants.items():
        for name, option in describe(config).items():
            first = described.setdefault(name, option)
            if option.default != first.default:
                described[name] = replace(first, variants={**first.variants, variant: option.default})
    return described


RESUMES = {"same": [], "free": ["may change on resume"], "unfinished": ["may change on resume until finished"]}


def _explained(option: Option) -> str:
    notes = [
        f"{option.values}, {option.bounds}" if option.bounds else option.values,
        f"default {_value(option.default)}",
        *(f"{variant}: {_value(value)}" for variant, value in option.variants.items()),
        *(f"only if {need}" for need in option.needs),
        *RESUMES[option.resume],
        *(f"formerly {old}" for old in option.formerly),
    ]
    return f"{option.about} ({'; '.join(notes)})"


def _value(value: Any) -> str:
    """A value as ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value) or "(empty)"
