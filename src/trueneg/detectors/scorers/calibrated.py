"""Load a detector from a file of ``trueneg detect calibrate``: specification, learned parameters and threshold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trueneg.detectors.scorers.base import SubstitutionScorer
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.detectors.specification import Leaf, Resources, leaves, parse
from trueneg.errors import ConfigError
from trueneg.files.records import read_record
from trueneg.models.reading import TextEncoder

KIND = "trueneg calibration"


def make_scorer(leaf: Leaf, resources: Resources) -> SubstitutionScorer:
    """Read a detector and its threshold from a file of `trueneg detect calibrate`: FILE.json.

    Raises:
        ConfigError: if the file is missing or invalid.
    """
    leaf.check(argument=True, what="FILE, written by 'trueneg detect calibrate'")
    content = read_calibration(leaf.argument)
    described = parse(content["detector"])
    calibrated_parts(leaf)
    assert resources.make is not None, "make_scorer passes itself"
    scorer = resources.make(described)
    if parameters := content["parameters"]:
        if not isinstance(scorer, LearnedScorer):
            raise ConfigError(f"'{leaf.argument}': '{content['detector']}' has nothing to learn, yet it has parameters")
        about = content.get("provenance")
        made_from = about.get("features") if isinstance(about, dict) else None
        scorer = scorer.with_parameters(parameters, leaf.argument, made_from)
        if scorer.epochs:
            scorer = scorer.with_tuned(_tuned_encoder(leaf.argument, content["encoder"], resources.device))
    threshold = float(content["threshold"])
    noted = {f"calibration.{name}": str(content.get(name)) for name in ("level", "precision", "recall", "data")}
    return scorer.with_threshold(
        threshold, {"calibration": Path(leaf.argument).name, "threshold": str(threshold), **noted}
    )


def calibrated_parts(leaf: Leaf, within: tuple[Path, ...] = ()) -> list[Leaf]:
    """List the parts of the detector that a calibration file holds, and of files that it names; none for other leaves.

    Args:
        leaf: A part of a specification.
        within: Files that name this one.

    Raises:
        ConfigError: if a file is missing or invalid, or is calibrated from itself.
    """
    if leaf.name != "calibrated":
        return []
    path = Path(leaf.argument).resolve()
    if path in within:
        raise ConfigError(f"'{leaf.argument}' is calibrated from itself: calibrate what it was made from again")
    parts = leaves(parse(read_calibration(leaf.argument)["detector"]))
    return [one for part in parts for one in (part, *calibrated_parts(part, (*within, path)))]


def encoder_folder(file: Path) -> Path:
    """Folder of the encoder that was fine-tuned for a calibration file: next to the file."""
    return file.with_name(f"{file.stem}-encoder")


def _tuned_encoder(file: str, digest: str | None, device: str) -> TextEncoder:
    """Read the encoder that was fine-tuned for a calibration.

    Raises:
        ConfigError: if it is missing, or is another one.
    """
    folder = encoder_folder(Path(file))
    if not (folder / "config.json").exists():
        raise ConfigError(
            f"'{file}' was fitted with an encoder of its own, and there is no '{folder}': keep the two together, or "
            "calibrate it again"
        )
    encoder = TextEncoder(str(folder), "all", device=device)
    if encoder.digest() != digest:
        raise ConfigError(f"'{folder}' is not the encoder that '{file}' was fitted with: calibrate it again")
    return encoder


def read_calibration(path: str) -> dict[str, Any]:
    """Read a calibration file.

    Raises:
        ConfigError: if it is missing, lacks a detector or a threshold in [0, 1], or its parameters are not numbers.
    """
    remedy = "make one with 'trueneg detect calibrate'"
    content = read_record(dict[str, Any], Path(path), ConfigError, remedy)
    if content.get("kind") != KIND:
        raise ConfigError(f"'{path}' is no calibrated detector: {remedy}")
    threshold, parameters = content.get("threshold"), content.get("parameters", {})
    is_whole = (
        isinstance(content.get("detector"), str)
        and isinstance(threshold, int | float)
        and 0 <= threshold <= 1
        and isinstance(parameters, dict)
        and all(isinstance(value, int | float) and abs(value) <= sys.float_info.max for value in parameters.values())
        and isinstance(content.get("encoder"), str | None)
    )
    if not is_whole:
        raise ConfigError(f"the detector '{path}' lacks a name, a threshold in [0, 1] or finite parameters: {remedy}")
    return {**content, "parameters": parameters, "encoder": content.get("encoder")}
