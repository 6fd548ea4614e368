"""One self-contained page about runs, results, attacks, detectors and encoders: what helped, and how sure that is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trueneg.evaluation.masked_lm.corrections import FalseNegativeRecord, judgement
from trueneg.evaluation.results.comparison import Comparison, compare
from trueneg.evaluation.results.robustness import ATTACK, robustness
from trueneg.evaluation.results.summary import Runs, read_runs, refuse_other_data
from trueneg.reporting import findings
from trueneg.reporting.baselines import Key, Tuned, group, put_first
from trueneg.reporting.charts import figures_of, forest_plot
from trueneg.reporting.correction_rows import SIDE, corrections_table, shortened
from trueneg.reporting.corrections import heading, table_rows
from trueneg.reporting.findings import Finding
from trueneg.reporting.page import asset, write_page
from trueneg.reporting.planted import of_planted
from trueneg.reporting.provenance import provenance_table
from trueneg.reporting.recipe_sections import of_recipe
from trueneg.reporting.result_sections import of_attacks, of_detectors, of_encoders, of_results
from trueneg.reporting.run_sections import (
    detector_name,
    differing_settings,
    draw_curves,
    facts_of,
    remarks_on,
    share,
    short_place,
)
from trueneg.reporting.sources import Sources, read_sources
from trueneg.reporting.tables import shown_table, text_table
from trueneg.reporting.trial import trial_parts


def write_report(folders: Sequence[str | Path], out: str | Path, *, baselines: Sequence[str | Path] = ()) -> Path:
    """Write a self-contained page.

    Args:
        folders: Folders of runs, results, recipes and trials, or files of measurements, in any mix. The first of each
            kind is the baseline of the others; for results and runs, the first with the same encoder and text.
        out: The HTML file.
        baselines: Those of the folders to consider first as baselines. If exactly one of them holds results, it is the
            baseline of all other results, whatever their encoder and text.

    Raises:
        TruenegError: if a folder holds none of these, is named twice, or has a damaged file; if results cannot be
            compared because they are of different examples.
    """
    sources = read_sources(put_first(folders, baselines))
    read = {name: read_runs(folder) for name, folder in sources.results.items()}
    refuse_other_data(*read.values())
    named = {Path(baseline).resolve() for baseline in baselines}
    forced = [name for name, folder in sources.results.items() if folder.resolve() in named]
    comparisons, notes, unlike = _comparisons(sources, read, forced[0] if len(forced) == 1 else "")
    found = [*notes, *(_with_warning(one, unlike) for one in _findings(sources, comparisons))]
    drawn, left_out = findings.drawn(found)
    records = list(_found(sources))
    common, facts = facts_of(sources.runs)
    parts = {
        "recipes": [of_recipe(table, number) for number, table in enumerate(sources.tables.values(), 1)],
        "trials": [
            {"name": name, **trial_parts(trial, f"trial-{number}")}
            for number, (name, trial) in enumerate(sources.trials.items(), 1)
        ],
        "planted": [
            {"name": file.name, **of_planted(file.read, f"planted-{number}")}
            for number, file in enumerate(sources.files["planted"], 1)
        ],
        "results": of_results(sources, comparisons),
        "robustness": of_attacks({name: robustness(runs) for name, runs in read.items()}),
        "encoders": of_encoders(sources),
        "detectors": list(of_detectors(sources)),
        "training": sources.runs,
        "corrections": records,
    }
    return write_page(
        asset("report.html"),
        Path(out),
        filters={"json": json_for_pages, "figures": figures_of, "left": shortened(-1), "right": shortened(1)},
        names=[Path(folder).resolve().name for folder in folders],
        heading="What helped, and what did not" if found else _heading(sources),
        summary=findings.summary(found),
        findings=found,
        sentences=findings.sentences,
        forest=forest_plot("Differences from the baseline", drawn) if drawn else None,
        left_out=left_out,
        sections=[(id, name) for id, name in _SECTIONS.items() if parts.get(id, True)],
        **{name: part for name, part in parts.items() if name not in ("training", "corrections")},
        runs=sources.runs,
        remarks=list(remarks_on(sources.runs)),
        common=common,
        facts=shown_table(facts, "runs"),
        differing=differing_settings(sources.runs),
        curves=draw_curves(sources.runs),
        found=[{"name": name, "said": _said(record)} for name, record in records],
        judged="; ".join(dict.fromkeys(judgement(record.detector) for _, record in records)),
        corrections=corrections_table(records),
        table_2=[
            shown_table(text_table(heading(rows), table_rows(rows)), f"false-negatives-{number}")
            for number, file in enumerate(sources.files["held_out"], 1)
            if (rows := [record.row() for record in file.read.records])
        ],
        side=SIDE,
        provenance=shown_table(provenance_table(sources, read), "provenance"),
    )


_SECTIONS = {
    "recipes": "Tables of the papers",
    "trials": "Trials",
    "planted": "Planted false negatives",
    "results": "Fine-tuned models",
    "robustness": "Under attack",
    "encoders": "Encoders",
    "detectors": "Detectors",
    "training": "Pre-training",
    "corrections": "Corrections",
    "provenance": "Provenance",
}


def json_for_pages(data: Any) -> Any:
    r"""Serialize data as JSON that is inert inside a page's ``<script>``.

    Example:
        >>> str(json_for_pages("</script><!--"))
        '"\\u003c/script\\u003e\\u003c!--"'
    """
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text))


def _heading(sources: Sources) -> str:
    if sources.runs:
        return "Pre-training on true negatives"
    return "Fine-tuned models" if sources.results else "Measurements"


def _comparisons(
    sources: Sources, read: Mapping[str, Runs], forced: str
) -> tuple[list[Comparison], list[Finding], dict[tuple[str, str], str]]:
    """Compare all results with their baselines; also return what is not compared, and what is despite an objection."""
    tuned = {name: Tuned.of(runs) for name, runs in read.items()}
    groups = group(tuned, forced)
    notes = [
        Finding(name, baseline, "fine-tuned models", "no figure", None, why, "results")
        for name, baseline, why in groups.apart
    ]
    found = [_compared(sources, tuned, baseline, of) for baseline, of in groups.contenders.items()]
    return found, notes, dict(groups.unlike)


def _compared(
    sources: Sources, tuned: Mapping[str, Tuned], baseline: str, contenders: Mapping[str, Sequence[Key]]
) -> Comparison:
    """Compare contenders with one baseline, on the splits assigned to it."""
    names = [baseline, *contenders]
    plain = {name: {key for key in keys if not key[1].startswith(ATTACK)} for name, keys in contenders.items()}
    has_average = all(
        len({task for task, _ in keys}) > 1
        and {*contenders[name]} == {*tuned[baseline].labelled()} & {*tuned[name].labelled()}
        for name, keys in plain.items()
    )
    found = compare(*(sources.results[name] for name in names), average=has_average, names=names)
    return replace(found, rows=[row for row in found.rows if (row.task, row.split) in contenders[row.contender]])


def _with_warning(finding: Finding, unlike: Mapping[tuple[str, str], str]) -> Finding:
    why = unlike.get((finding.contender, finding.baseline)) if finding.section == "results" else ""
    return replace(finding, reason=f"{finding.reason}; {why}") if why else finding


def _findings(sources: Sources, comparisons: Sequence[Comparison]) -> Iterator[Finding]:
    yield from findings.of_trials(sources.trials)
    yield from findings.of_tables(sources.tables.values())
    yield from findings.of_planted(sources.files["planted"])
    for comparison in comparisons:
        yield from findings.of_comparison(comparison)
    yield from findings.of_runs(sources.runs)
    layers, similar = findings.layers_of(sources), findings.similarities_of(sources)
    names = findings.short_checkpoints([*layers, *similar])
    yield from findings.of_hits(layers, names)
    yield from findings.of_similarity(similar, names)
    yield from findings.of_detectors(sources.files["detectors"])


def _found(sources: Sources) -> Iterator[tuple[str, FalseNegativeRecord]]:
    """Yield the name and record of false negatives on held-out text, of runs and of files of ``trueneg evaluate``."""
    for run in sources.runs:
        for record in run.found:
            yield run.name, record
    for file in sources.files["held_out"]:
        for record in file.read.records:
            step = "" if record.step is None else f", step {record.step:,}"
            yield (short_place(record.checkpoint) or file.name) + step, record


def _said(found: FalseNegativeRecord) -> str:
    rows = f"{found.num_rows:,} held-out rows" if found.num_rows else "held-out text"
    text = f" of {short_place(found.text)}" if found.text else ""
    detector = detector_name(found.detector) or "the detector"
    return (
        f"On {rows}{text} the model mispredicted {share(found.readings.get('mispredicted'))} of the masked tokens. "
        f"{detector} accepts {share(found.readings.get('corrected'))} of these mispredictions, "
        f"{len(found.corrections):,} in all."
    )
