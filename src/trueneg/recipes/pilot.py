"""CLINE's pilot experiment: adversarial training where words change but not the meaning, and where both do.

Wang et al. 2021, §2 and Table 2: a model is fine-tuned plainly and with FreeLB, and evaluated on adversarial examples
(*Adv*: changed words, same label) and on the contrast set's revised ones (*Rev*: few changed words, mostly another
label). The paper reports a gain of FreeLB on the first and a loss on the second, of one run each; here are several
seeds, paired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trueneg.attacks.attack_set import AttackSet
from trueneg.attacks.runner import evaluate_attack, load_adversarial_examples, result_name
from trueneg.config.codec import override
from trueneg.config.options import FinetuneConfig
from trueneg.config.validation import Needs, refuse_idle
from trueneg.errors import ConfigError, Interrupted, unknown_name
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.store import find_results
from trueneg.files.digests import checksum
from trueneg.files.lock import locked
from trueneg.files.whole import write_json
from trueneg.recipes.folder import claim_folder
from trueneg.reporting.results import comparison_table, results_table
from trueneg.runs.finetuned_models import evaluate_contrast_set
from trueneg.runs.finetuning import LEAST_NOISE, configure_finetuning, finetune

ARMS: tuple[str, ...] = ("vanilla", "freelb", "smart")


@dataclass(frozen=True)
class PilotConfig:
    """Settings of the pilot."""

    encoder: str = ""
    """A checkpoint: a run, a Hugging Face folder or a hub name."""
    data: str = ""
    """The folder with the task's files and, below it, its contrast set."""
    task: Literal["imdb", "snli"] = "snli"
    adversaries: str = ""
    """Published adversarial examples, or those of ``trueneg attack … --save FILE``."""
    label_names: str = ""
    """Names of the labels 0,1,… of published adversarial examples, separated by commas."""
    num_train: int = 0
    """Training examples; 0 for all."""
    num_dev: int = 1000
    length: int = 128
    epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float = 0.0
    """0 for the preset's."""
    precision: Literal["fp32", "bf16"] = "bf16"
    freelb_steps: int = 3
    freelb_step_size: float = 0.1
    """Also the first perturbation's magnitude: FreeLB's default kept all-MiniLM-L6-v2 from learning anything."""
    smart_noise: float = 10 * LEAST_NOISE
    """Representable in bf16, which rounds SMART's own 1e-5 away."""


@dataclass(frozen=True)
class _Claim(PilotConfig):
    """Settings of a folder of results."""

    adversaries_sha256: str = ""


SCALES = {
    "mini": PilotConfig(num_train=3000, epochs=2.0, length=64),
    "paper": PilotConfig(),
    "tiny": PilotConfig(num_train=64, num_dev=50, epochs=1.0, length=32, precision="fp32"),
}
"""``paper``: all training examples, hours on a GPU. ``mini``: minutes a run of a small encoder on a CPU. ``tiny``: to
check that it runs."""

RESULTS, TABLE = "results.json", "table.md"
_SHOWN = ("accuracy", "original", "revised", "group_consistency", "accuracy_under_attack", "accuracy_before")


def reproduce(
    out: str | Path,
    *,
    scale: str = "mini",
    arms: Sequence[str] = ("all",),
    seeds: int = 5,
    settings: Sequence[str] = (),
    say: Callable[[str], None] = lambda message: None,
    **unused: Any,
) -> tuple[dict[str, Any], str]:
    """Run the pilot, or what is missing of it: finished runs are not repeated.

    Args:
        out: Folder of the results, one of fine-tuning each arm: ``compare`` and ``report`` read them.
        scale: ``mini``, ``paper`` or ``tiny``.
        arms: Names from ``ARMS``; ``vanilla`` is always run.
        seeds: Runs of each arm, with seeds 1, 2, …
        settings: ``encoder=…``, ``data=…``, ``adversaries=…`` and other changes to ``PilotConfig``.
        say: Called with a line of progress.
        unused: Options of other recipes, which must have their defaults.

    Returns:
        Content of ``results.json``, and of ``table.md``.

    Raises:
        ConfigError: for unknown names, missing settings, or a folder with results of other settings.
    """
    _refuse(unused)
    if scale not in SCALES:
        raise ConfigError(unknown_name("scale", scale, SCALES))
    config = override(SCALES[scale], settings)
    chosen = _arms(arms)
    refuse_idle(config, settings, _needs(chosen))
    for name in ("encoder", "data", "adversaries"):
        if not getattr(config, name):
            raise ConfigError(f"the pilot needs --set {name}=…")
    if not Path(config.adversaries).is_file():
        raise ConfigError(f"--set adversaries={config.adversaries}: no such file")
    folder = Path(out)
    wanted = {(arm, seed): _configured(config, arm, seed) for seed in range(1, seeds + 1) for arm in chosen}
    with locked(folder, "reproduce pilot"):
        claim_folder(folder, _Claim(**asdict(config), adversaries_sha256=checksum(Path(config.adversaries))))
        adversaries: AttackSet | None = None
        for (arm, seed), configured in wanted.items():
            tuned = finetune(configured, folder / arm, resume=True, quiet=True)
            if tuned.reason == "interrupted":
                raise Interrupted(f"what is done is kept in '{folder}': the same command goes on")
            run = tuned.folder
            if adversaries is None:
                names = [name.strip() for name in config.label_names.split(",")] if config.label_names else []
                adversaries = _successful(load_adversarial_examples(Path(config.adversaries), run, names))
            _evaluate(run, config, adversaries)
            say(f"{arm}, seed {seed}: done")
        return _written(folder, chosen, seeds)


def _successful(attacked: AttackSet) -> AttackSet:
    """Keep what misled the model it was made for: all arms are evaluated on the same examples."""
    kept = [example for example in attacked.examples if example.outcome in ("succeeded", "changed")]
    return replace(attacked, examples=kept)


def _needs(arms: Sequence[str]) -> Needs:
    """Say which options need which arm."""
    return tuple(
        ((f"{arm}_",), lambda config, arm=arm: arm in arms, f"without the arm {arm}: name it (--arms), or leave it out")
        for arm in ("freelb", "smart")
    )


def _refuse(unused: dict[str, Any]) -> None:
    given = [name for name, value in unused.items() if value not in (None, "", 1)]
    if given:
        raise ConfigError(f"the pilot has no --{min(given)}: leave it out")


def _arms(arms: Sequence[str]) -> list[str]:
    named = ["vanilla", "freelb"] if list(arms) == ["all"] else list(arms)
    for arm in named:
        if arm not in ARMS:
            raise ConfigError(unknown_name("arm", arm, ARMS))
    return list(dict.fromkeys(["vanilla", *named]))


def _configured(config: PilotConfig, arm: str, seed: int) -> FinetuneConfig:
    chosen = {
        "task.data": config.data,
        "task.max_train_examples": config.num_train,
        "task.max_dev_examples": config.num_dev,
        "task.length": config.length,
        "epochs": config.epochs,
        "train.batch_size": config.batch_size,
        "train.precision": config.precision,
        "train.seed": seed,
    }
    if arm != "vanilla":
        chosen["adversarial"] = arm
    if arm == "freelb":
        chosen["freelb.steps"] = config.freelb_steps
        chosen["freelb.step_size"] = chosen["freelb.magnitude"] = config.freelb_step_size
    if arm == "smart":
        chosen["smart.noise"] = config.smart_noise
    if config.learning_rate:
        chosen["optimizer.learning_rate"] = config.learning_rate
    return configure_finetuning(
        config.encoder, config.task, settings=[f"{key}={value}" for key, value in chosen.items()]
    )


def _evaluate(run: Path, config: PilotConfig, adversaries: AttackSet) -> None:
    """Evaluate on both sets, unless that is done."""
    there = {path.stem for path in find_results(run.parent) if path.parent == run}
    if not any(name.startswith("contrast-") for name in there):
        evaluate_contrast_set(run, config.data)
    if result_name(adversaries, config.task, run) not in there:
        evaluate_attack(run, adversaries)


def _written(folder: Path, arms: Sequence[str], seeds: int) -> tuple[dict[str, Any], str]:
    others = [folder / arm for arm in arms[1:]]
    tables = [results_table([folder / arm for arm in arms])]
    results: dict[str, Any] = {"arms": list(arms), "seeds": seeds}
    if others:
        compared = compare(folder / arms[0], *others, metric="all")
        kept = [row for row in compared.rows if row.metric in _SHOWN]
        results["rows"] = [asdict(row) for row in kept]
        tables.append(comparison_table(compared))
    markdown = "\n".join(table.markdown() for table in tables)
    write_json(folder / RESULTS, results)
    (folder / TABLE).write_text(markdown, encoding="utf-8")
    return results, markdown
