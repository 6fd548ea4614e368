"""The program ``trueneg``."""

from __future__ import annotations

import importlib
import importlib.abc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from trueneg.cli import (
    attack,
    compare,
    corpus,
    detect,
    evaluate,
    inspect,
    lexicon,
    listing,
    merge,
    push,
    reproduce,
    runs,
    tokenizer,
    try_text,
    views,
)
from trueneg.cli.options import BatchSize, WordNetPath, chosen_settings
from trueneg.cli.output import Json, Output, Quiet, Settings, is_main_process, refuse_given
from trueneg.errors import ConfigError, Interrupted, TruenegError, TruenegWarning, is_out_of_memory
from trueneg.registry import load_plugins
from trueneg.terminal.printable import printable
from trueneg.terminal.streams import lasting_streams
from trueneg.version import __version__

if TYPE_CHECKING:
    from trueneg.evaluation.masked_lm.corrections import Correction

INTERRUPTED = 130
START = "Get started"

app = typer.Typer(
    name="trueneg",
    help="Pre-train text encoders on true negatives, and prove what that gains.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trueneg {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="Import a module that registers objectives, detectors, tasks or attacks; repeatable."
        ),
    ] = None,
) -> None:
    """Pre-train text encoders on true negatives, and prove what that gains."""
    load_plugins(plugin or [])


@app.command(rich_help_panel=START)
def doctor(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder to train in, whose free disk space is checked.")] = Path(),
    preset: Annotated[str, typer.Option(help="Estimate the memory and time that this preset needs.")] = "",
    batch_size: BatchSize = None,
    on: Annotated[
        str, typer.Option(metavar="GPU", help="Estimate for this GPU (H100, A100, L4, …) instead of the local device.")
    ] = "",
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check this machine (versions, processors, WordNet, disk) and recommend what to do.

    With `--preset`, also estimate a run: the memory of a step, and the time of all steps.

    Example: `trueneg doctor`

    A run: `trueneg doctor --preset electra-small --batch-size 128 --on H100`
    """
    from trueneg.runs.doctor import diagnose

    if not preset:
        refuse_given(context, ["batch_size", "on", "settings"], "doctor without --preset")
    data: dict[str, Any] = {}
    if preset:
        from trueneg.runs.configuring import configure
        from trueneg.runs.estimate import expect

        found, expected = expect(configure(preset, settings=chosen_settings(context)), on)
        data["estimate"] = {**vars(found), "memory": found.memory}
    else:
        expected = []
    findings = [*diagnose(folder), *expected]
    rows = [(f.level, f.name, f.what, f.remedy) for f in findings]
    Output(as_json, quiet).table({"findings": findings, **data}, ("", "what", "found", "do"), rows)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


app.command("list", rich_help_panel=START)(listing.list_names)


@app.command(rich_help_panel=START)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the corpus, the run and the report.")] = Path("demo"),
    wordnet: WordNetPath = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the demo's run.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue a real encoder on WordNet's text with hard correction, and show what was corrected.

    Takes about five minutes on two cores. An existing corpus and run in --out are reused.

    Example: `trueneg demo`
    """
    from trueneg.runs.demo import run_demo

    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file: name a folder")
    output = Output(as_json, quiet)
    shown = run_demo(out, wordnet=wordnet, settings=tuple(settings or ()), quiet=quiet, say=output.say)
    readings = shown.readings
    lines = [
        f"loss of the gold token: {shown.first_loss:.2f} at the start, {shown.last_loss:.2f} at the end",
        f"on held-out text, {readings['mispredicted']:.1%} of masked tokens were mispredicted; WordNet accepts "
        f"{readings['corrected']:.2%} of these mispredictions, in {readings['corrected_rows']:.1%} of the rows: hard "
        f"correction leaves them out of the loss",
        "",
        *_accepted(shown.corrections),
        "",
        f"checkpoint: {shown.checkpoint}   (AutoModel.from_pretrained loads it)",
        f"report:     {shown.report}",
        f"{shown.seconds:.0f} seconds",
    ]
    output.result(vars(shown), "\n".join(lines))


def _accepted(corrections: Sequence[Correction]) -> list[str]:
    from trueneg.evaluation.masked_lm.corrections import judgement

    if not corrections:
        return ["WordNet accepts none of them"]
    lines = [f"  {c.probability:4.0%}  {c.sentence}" for c in corrections]
    return [f"the {len(lines)} most confident ones (probability, gold → predicted):", *lines, judgement("lexical")]


MEASURE = "Evaluate and share"
GROUPS: dict[str, dict[str, typer.Typer]] = {
    "Prepare": {"tokenizer": tokenizer.app, "corpus": corpus.app, "lexicon": lexicon.app},
    MEASURE: {"evaluate": evaluate.app, "detect": detect.app},
}
VERBS: dict[str, tuple[Callable[..., None], ...]] = {
    "Train": (runs.pretrain, runs.finetune),
    MEASURE: (
        *(runs.report, runs.export, runs.bench, compare.compare, attack.attack, inspect.inspect, views.views),
        *(merge.merge, push.push, reproduce.reproduce),
    ),
}
for panel, groups in GROUPS.items():
    for group, verbs in groups.items():
        app.add_typer(verbs, name=group, rich_help_panel=panel)
app.command("try", rich_help_panel=START)(try_text.try_text)
app.command("check-data", hidden=True)(reproduce.check_data)
for panel, functions in VERBS.items():
    for function in functions:
        app.command(rich_help_panel=panel)(function)


def main() -> None:
    """Run the command line: exit with 0 success, 1 user error (one line), 2 wrong usage, 130 interrupted after saving.

    Ctrl-C, SIGTERM and a closed terminal interrupt it. If the reader of its output goes away, work continues.
    """
    with lasting_streams(), _all_like_ctrl_c(), _announced_loading(), warnings.catch_warnings():
        warnings.showwarning = _warnings_shown_once()
        warnings.simplefilter("always", TruenegWarning)
        try:
            app(prog_name="trueneg")
        except Interrupted as error:
            if is_main_process():
                _say("stopped", str(error))
            sys.exit(INTERRUPTED)
        except SystemExit as ended:
            if ended.code == INTERRUPTED and is_main_process():
                _say("stopped", "what was not finished is lost, what was is kept: run the same again")
            raise
        except KeyboardInterrupt:  # before the verb began, or after it ended
            if is_main_process():
                _say("stopped", "run the same again")
            sys.exit(INTERRUPTED)
        except (TruenegError, OSError, MemoryError, RuntimeError) as error:
            _say("error", _explain(error))
            sys.exit(1)


@contextmanager
def _all_like_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C; only in the main thread, as Python requires."""
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Announcing(importlib.abc.MetaPathFinder):
    """Prints a message when torch is about to be imported, which takes seconds; it never finds a module itself."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Print the message if ``name`` is torch."""
        if name == "torch":
            sys.meta_path.remove(self)
            print("loading torch …", file=sys.stderr, flush=True)


@contextmanager
def _announced_loading() -> Iterator[None]:
    """Announce the import of torch at a terminal, unless ``--quiet`` is given."""
    finder = _Announcing()
    if sys.stderr.isatty() and is_main_process() and not {"-q", "--quiet"} & set(sys.argv):
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def _explain(error: Exception) -> str:
    """Return one line for the user; re-raise errors that only a programmer can fix."""
    if isinstance(error, TruenegError):
        return str(error)
    if is_out_of_memory(error):
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"out of memory ({what}): free some, ask for less at once, or take a machine with more"
    if isinstance(error, OSError) and error.strerror:
        place = "the result" if error.filename is None else f"'{error.filename}'"
        return f"cannot read or write {place} ({error.strerror}): fix that, or name another place"
    raise error


def _say(kind: str, message: str) -> None:
    style = {"error": "bold red", "warning": "yellow"}.get(kind, "bold")
    console = Console(stderr=True)
    console.print(f"[{style}]{kind}:[/] ", end="", highlight=False)
    console.print(printable(message), soft_wrap=True, highlight=False, markup=False)


def _warnings_shown_once() -> Callable[..., None]:
    """Show each trueneg warning as one line, once per command; hide others, which concern programmers."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, TruenegWarning) and is_main_process() and str(message) not in shown:
            shown.add(str(message))
            _say("warning", str(message))

    return show
