"""``trueneg evaluate``: masked and fine-tuned models, contrast sets, and encoders without fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from trueneg.cli.evaluate_encoder import ENCODER_TASKS, encoder
from trueneg.cli.evaluate_masked_lm import TASK, masked_lm
from trueneg.cli.evaluate_substitution import TASK as SUBSTITUTION
from trueneg.cli.evaluate_substitution import substitution
from trueneg.cli.evaluate_task import contrast_set, task
from trueneg.cli.results import is_finetuned
from trueneg.errors import ConfigError, unknown_name


class EvaluateGroup(TyperGroup):
    """The five verbs; if none is named, it is inferred from what is evaluated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of a verb before the arguments if it is missing."""
        return super().parse_args(ctx, self.completed(args))

    def completed(self, args: Sequence[str]) -> list[str]:
        """Return the arguments, starting with the name of a verb.

        Raises:
            ConfigError: for a name that is almost a verb's, and no checkpoint.
        """
        is_named = not args or args[0] in self.commands or args[0] in ("--help", "-h")
        if not is_named and not Path(args[0]).exists() and get_close_matches(args[0], self.commands, cutoff=0.8):
            raise ConfigError(unknown_name("verb of evaluate", args[0], self.commands))
        return list(args) if is_named else [kind_of(args), *args]


def kind_of(args: Sequence[str]) -> str:
    """Infer the verb of ``trueneg evaluate RUN …`` from ``--task`` or ``--contrast-set``, else from the kind of run.

    Raises:
        ConfigError: for an unknown task, with the closest name.
    """
    words = [part for arg in args for part in (arg.split("=", 1) if arg.startswith("--") else [arg])]
    if "--contrast-set" in words:
        return "contrast-set"
    named = next((value for option, value in pairwise(words) if option == "--task"), "")
    if not named:
        return "task" if any(is_finetuned(word) for word in words if not word.startswith("-")) else "masked-lm"
    if named == TASK:
        return "masked-lm"
    if named == SUBSTITUTION:
        return "substitution"
    if named in ENCODER_TASKS:
        return "encoder"
    from trueneg.tasks import known_tasks

    known = (TASK, SUBSTITUTION, *ENCODER_TASKS, *known_tasks())
    if named not in known:
        raise ConfigError(unknown_name("task", named, known))
    return "task"


app = typer.Typer(
    cls=EvaluateGroup,
    no_args_is_help=True,
    help="Evaluate masked language models, fine-tuned models and encoders.\n\nWithout the name of a command, `trueneg "
    "evaluate RUN …` chooses one by RUN, --task or --contrast-set.",
)
app.command("masked-lm")(masked_lm)
app.command("substitution")(substitution)
app.command("task")(task)
app.command("contrast-set")(contrast_set)
app.command("encoder")(encoder)
