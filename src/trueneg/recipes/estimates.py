"""Rough estimates of the time of a recipe's jobs, from what they read and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from trueneg.config.codec import override
from trueneg.config.costs import cost_of
from trueneg.config.finetune_presets import BASE, SQUAD, finetune_preset
from trueneg.config.presets import preset
from trueneg.recipes.plan import Argument
from trueneg.recipes.scales import Scale

PAPERS = ("tn-", "cline-")
"""Prefixes of the names of the papers' presets."""
TRAINING_EXAMPLES: Mapping[str, int] = {
    **{"glue/cola": 8_551, "glue/sst2": 67_349, "glue/mrpc": 3_668, "glue/stsb": 5_749, "glue/qqp": 363_846},
    **{"glue/mnli": 392_702, "glue/qnli": 104_743, "glue/rte": 2_490, "squad": 87_599},
    **{"imdb": 25_000, "snli": 549_367, "perspectrum": 6_978, "boolq": 9_427, "ag": 120_000, "mr": 10_662},
}
"""Task to its number of training examples, as released."""
_LENGTH = 128
"""Tokens per row that stated times refer to."""


def training_minutes(arguments: Sequence[str], minutes: float, asked: int = 0) -> float:
    """Estimate the minutes of pre-training: on a GPU for presets of the papers, else as stated.

    Args:
        arguments: Arguments of ``trueneg pretrain``.
        minutes: Stated time of other presets.
        asked: Steps that a setting asks for instead of the arguments'; 0 for none.
    """
    steps = steps_of(arguments)
    if arguments[0].startswith(PAPERS):
        config = preset(arguments[0])
        steps = steps or config.train.steps
        minutes = round(60 * cost_of(config).gpu_hours * steps / config.train.steps)
    return minutes * asked / steps if asked and steps else minutes


def steps_of(arguments: Sequence[str]) -> int:
    """Read ``--steps``; 0 where it is not given."""
    return int(arguments[arguments.index("--steps") + 1]) if "--steps" in arguments else 0


def of_steps(arguments: Sequence[str], steps: int) -> tuple[str, ...]:
    """Return the arguments with another number of steps.

    Example:
        >>> of_steps(("electra-mini", "--steps", "5", "--seed", "1"), 7)
        ('electra-mini', '--steps', '7', '--seed', '1')
    """
    words = list(arguments)
    if "--steps" in words:
        words[words.index("--steps") + 1] = str(steps)
        return tuple(words)
    return (*words, "--steps", str(steps))


def tuning_minutes(scale: Scale, tasks: str, command: Sequence[Argument]) -> float:
    """Estimate the minutes of fine-tuning from the tokens that it reads, relative to the scale's stated time.

    A sweep trains once for each of its values, and FreeLB and SMART take three passes per step.

    Args:
        scale: Scale, with the time of fine-tuning on a task and the examples that it reads.
        tasks: One task, or several separated by commas.
        command: Arguments of ``trueneg finetune``.
    """
    times = len(_after("--sweep", command).split(",")) * (3 if "--adversarial" in command else 1)
    return round(times * sum(_minutes(scale, task, command) for task in tasks.split(",")), 2)


def _minutes(scale: Scale, task: str, command: Sequence[Argument]) -> float:
    stated, examples = scale.minutes, float(scale.examples)
    if long := scale.long_tasks.get(task):
        stated, examples = long.minutes, long.max_train_examples * scale.epochs * long.length / _LENGTH
    share = _examples(task, command) / examples if examples else 1.0
    return scale.start + (stated - scale.start) * share


def _examples(task: str, command: Sequence[Argument]) -> float:
    """Count the training examples that fine-tuning reads, repeats included, as rows of 128 tokens."""
    settings = [str(word) for before, word in pairwise(command) if before == "--set"]
    family = SQUAD if task == SQUAD else "text"
    config = override(finetune_preset(_after("--preset", command) or "bert", task, "", BASE, family), settings)
    of_task = config.task
    num = TRAINING_EXAMPLES[task] * float(_after("--train-fraction", command) or of_task.train_fraction)
    num = min(num, of_task.max_train_examples or num) * (2 if of_task.swap_pairs else 1) * config.epochs
    return (config.train.steps * config.train.batch_size or num) * of_task.length / _LENGTH


def _after(option: str, command: Sequence[Argument]) -> str:
    return next((str(word) for before, word in pairwise(command) if before == option), "")
