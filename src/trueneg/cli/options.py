"""Options shared by several verbs, and flags that set options of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_type_hints

import typer
from typer.models import OptionInfo

from trueneg.config.mixtures import Source, check_sources, parse_source, with_replay, write_mixture
from trueneg.errors import ConfigError


class RunOption(OptionInfo):
    """A flag that sets an option of a run, as ``--set KEY=VALUE`` does.

    Args:
        key: The option's dotted name.
        help: What it does.
        flags: Names of the flag; by default the parameter's name.
    """

    def __init__(self, key: str, help: str, *flags: str) -> None:
        super().__init__(default=..., param_decls=flags, help=help)
        self.key = key


def chosen_settings(context: typer.Context) -> list[str]:
    """Return the run options given to a verb as ``key=value``, those of ``--set`` last."""
    hints = get_type_hints(context.command.callback, include_extras=True)
    flags = [
        f"{option.key}={context.params[name]}"
        for name, hint in hints.items()
        for option in getattr(hint, "__metadata__", ())
        if isinstance(option, RunOption) and context.params[name] is not None
    ]
    return [*flags, *(context.params["settings"] or [])]


def corpus_settings(corpora: Sequence[str], replay: Sequence[str] = ()) -> list[str]:
    """Convert ``--corpus`` and ``--replay`` to ``key=value``.

    Args:
        corpora: One folder, or several, each optionally followed by a colon and its weight.
        replay: Folders, each followed by a colon and its share of all rows.

    Raises:
        ConfigError: if a single corpus has a weight, or for an invalid mixture: see ``mixtures.parse_mixture``.

    Example:
        >>> corpus_settings(["wiki:0.7", "books:0.3"])
        ['corpus.mixture=wiki:0.7, books:0.3']
        >>> corpus_settings(["mine"], ["general:0.1"])
        ['corpus.mixture=mine:0.9, general:0.1']
    """
    if replay and not corpora:
        raise ConfigError(f"--replay {replay[0]} goes with --corpus, which names the text that it is added to")
    if not corpora:
        return []
    is_one = len(corpora) == 1
    is_available = is_one and Path(corpora[0]).exists()  # even if its name looks like FOLDER:WEIGHT
    sources = [Source(corpora[0])] if is_available else [parse_source(text, "--corpus") for text in corpora]
    if is_one and not replay:
        if sources[0].weight is not None:
            raise ConfigError(
                f"--corpus {corpora[0]}: one corpus has no weight: leave it out, or name the others, too (and no "
                f"folder is called that)"
            )
        return [f"corpus.path={sources[0].path}", "corpus.mixture="]
    if not is_one:
        check_sources(sources, "--corpus")
    replayed = [parse_source(text, "--replay") for text in replay]
    return [f"corpus.mixture={write_mixture(with_replay(sources, replayed) if replay else sources)}"]


def seeds_of(text: str) -> list[int]:
    """Parse ``--seeds``: a number of seeds, counted from 1, or a list of seeds.

    Raises:
        ConfigError: for anything but a positive number or a list of seeds, or a seed that is listed twice.

    Example:
        >>> seeds_of("3"), seeds_of("1,3,7"), seeds_of("4,")
        ([1, 2, 3], [1, 3, 7], [4])
    """
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    is_list = "," in text
    if not numbers or min(numbers) < (0 if is_list else 1):
        raise ConfigError(f"--seeds {text}: give their number, at least 1, or list them: --seeds 1,3,7")
    if len({*numbers}) < len(numbers):
        raise ConfigError(f"--seeds {text}: a seed is listed twice: list it once")
    return numbers if is_list else list(range(1, numbers[0] + 1))


Checkpoint = Annotated[str, typer.Argument(help="A run folder, a Hugging Face folder or a hub name.")]
Tokenizer = Annotated[str, typer.Option(help="A tokenizer's folder, a checkpoint or a hub name.")]
WordNetPath = Annotated[str, typer.Option(help="WordNet's folder; by default, found automatically.")]
Device = Annotated[
    str, typer.Option(help="Device for encoders: cpu, cuda, xpu, mps, cuda:N; by default a GPU if available.")
]

TextField = Annotated[
    str, typer.Option(help="Field or column with the text in JSON, CSV, TSV, Parquet and hub data sets.")
]
Lines = Annotated[bool, typer.Option("--lines", help="Treat every line as a document.")]
MaxDocumentMib = Annotated[
    float,
    typer.Option(
        min=0.001,
        help="Maximum size in MiB of a line or of a record's text; longer ones are refused. Documents of several lines "
        "in .txt files are cut at 8,388,608 characters instead, with a warning.",
    ),
]

LearningRate = Annotated[
    float | None,
    RunOption("optimizer.learning_rate", "Peak learning rate (optimizer.learning_rate).", "--learning-rate", "--lr"),
]
BatchSize = Annotated[int | None, RunOption("train.batch_size", "Rows per optimizer step, over all processes.")]
Precision = Annotated[str | None, RunOption("train.precision", "fp32, bf16, fp16, or auto (the best for the device).")]
