"""The program ``trueneg``."""

from __future__ import annotations

import importlib
import importlib.abc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from trueneg.errors import ConfigError, Interrupted, TruenegError, TruenegWarning, is_out_of_memory, unknown_name
from trueneg.registry import load_plugins
from trueneg.terminal.printable import printable
from trueneg.terminal.streams import lasting_streams
from trueneg.version import __version__

if TYPE_CHECKING:
    from trueneg.config.codec import Option
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


LISTS = {
    "presets": "named configurations for pre-training",
    "objectives": "objectives of pre-training",
    "detectors": "detectors of false negatives",
    "tasks": "tasks for fine-tuning and evaluation",
    "attacks": "attacks on fine-tuned models",
    "options": "options of pretrain for --set: defaults, bounds, requirements",
    "finetune-options": "options of finetune for --set",
    "triplet-options": "options of evaluate encoder --task triplets for --set",
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


@app.command("list", rich_help_panel=START)
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
        from trueneg.config.codec import describe
        from trueneg.config.finetune_options import FinetuneConfig
        from trueneg.config.objective_options import TripletConfig
        from trueneg.config.options import PretrainConfig

        configs = {"options": PretrainConfig, "finetune-options": FinetuneConfig, "triplet-options": TripletConfig}
        options = describe(configs[kind])
        output.definitions({kind: options}, {name: _explained(option) for name, option in options.items()})
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


RESUMES = {"same": [], "free": ["may change on resume"], "unfinished": ["may change on resume until finished"]}


def _explained(option: Option) -> str:
    default = "(empty)" if option.default == "" else str(option.default)
    notes = [
        f"{option.values}, {option.bounds}" if option.bounds else option.values,
        f"default {default.lower() if option.values == 'bool' else default}",
        *(f"only if {need}" for need in option.needs),
        *RESUMES[option.resume],
        *(f"formerly {old}" for old in option.formerly),
    ]
    return f"{option.about} ({'; '.join(notes)})"


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
