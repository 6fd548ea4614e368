"""Find fine-tuning results, print them, and write them as tables or for the GLUE server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.cli.output import Output
from trueneg.errors import ConfigError

if TYPE_CHECKING:
    from trueneg.evaluation.results.store import Result
    from trueneg.runs.sweeps import Selection


def is_finetuned(checkpoint: str) -> bool:
    """Return whether a folder was written by ``finetune``, for one seed or several."""
    path = Path(checkpoint)
    return (path.name.startswith("seed-") and path.is_dir()) or any(path.glob("seed-*/config.json"))


def runs_of(models: Sequence[str]) -> list[Path]:
    """Find the folders of all seeds of fine-tuned models.

    Raises:
        ConfigError: naming a folder that holds none.
    """
    from trueneg.runs.finetuned_models import seed_folders

    return [run for model in models for run in seed_folders(model)]


def show_results(results: Sequence[Result], output: Output, selections: Sequence[Selection] = ()) -> None:
    """Print the metrics of each split and seed; for a sweep, first how they were selected."""
    from trueneg.reporting.results import cut_in

    rows = [
        (result.task, result.split, result.seed, f"{result.num_examples:,}", name, f"{100 * value:.2f}")
        for result in results
        for name, value in result.metrics.items()
    ]
    data: dict[str, Any] = {"results": [asdict(result) for result in results]}
    for selected in selections:
        output.say(f"{selected.task}: {selected.rule}")
        for number, one in enumerate(selected.combinations):
            mark = "  selected" if number == selected.selected else ""
            output.say(f"  {one.mean:.4f}  {', '.join(f'{k}={v}' for k, v in one.settings.items())}{mark}")
    for result in results:
        if cut := cut_in(result):
            output.say(f"{result.task}, {result.split}, seed {result.seed}: {cut}")
    for told in dict.fromkeys(f"{result.task}: {result.selection}" for result in results if "sweep" in result.train):
        output.say(told)
    if selections:
        data["selections"] = [asdict(selected) for selected in selections]
    output.table(data, ("task", "split", "seed", "examples", "metric", "x 100"), rows)


def is_of_results(folder: Path) -> bool:
    """Return whether a folder holds fine-tuning results, and is neither a pre-training run nor an experiment."""
    from trueneg.evaluation.results.store import find_results
    from trueneg.reporting.sources import is_experiment
    from trueneg.training.folder import METRICS

    is_run = (folder / METRICS).is_file() and not folder.name.startswith("seed-")
    return not is_run and not is_experiment(folder) and any(find_results(folder))


def report_tables(folders: Sequence[Path], form: str, out: Path | None, output: Output) -> None:
    """Print or write the tables of results and of experiments."""
    from trueneg.reporting.experiments import data_of, tables_of
    from trueneg.reporting.glue_server import as_data, server_table
    from trueneg.reporting.results import results_table
    from trueneg.reporting.sources import read_sources
    from trueneg.reporting.tables import JSON, form_of, write_tables

    form = form_of(form, out)
    results = [folder for folder in folders if is_of_results(folder)]
    experiments = read_sources([folder for folder in folders if folder not in results])
    tables, data = tables_of(experiments), data_of(experiments)
    if results:
        table, server = results_table(results), server_table(results)
        columns = [column.name for column in table.columns]
        data |= {"columns": columns, "rows": table.rows, "title": table.title, "notes": table.notes, **as_data(server)}
        tables = [table, *([server] if server else []), *tables]
    if out is not None:
        write_tables(tables, out, form, data)
        output.result({"report": out, "format": form}, str(out))
    elif output.as_json or form == JSON:
        Output(as_json=True).result(data, "")
    else:
        for number, table in enumerate(tables):
            output.show(table, form, after_another=number > 0)


def report_glue_zip(folders: Sequence[Path], out: Path, is_partial: bool, output: Output) -> None:
    """Write the zip and show where each of its files came from."""
    from trueneg.reporting.glue_zip import write_glue_zip

    if len(folders) != 1:
        raise ConfigError("glue-zip is of one model: name one folder")
    written = write_glue_zip(folders[0], out, is_partial=is_partial)
    rows = [
        (name, "constant" if file.seed is None else file.seed, "–" if file.dev is None else f"{100 * file.dev:.2f}")
        for name, file in written.items()
    ]
    output.say(f"wrote {out}")
    output.table({"out": out, "files": {k: asdict(v) for k, v in written.items()}}, ("file", "seed", "dev x 100"), rows)
