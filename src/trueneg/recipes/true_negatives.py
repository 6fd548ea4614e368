"""The tables of "Language Model Pre-training on True Negatives" (Zhang et al. 2023)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.recipes.papers import (
    AVERAGE,
    TN_COST,
    TN_TABLE2,
    TN_TABLE3,
    TN_TABLE4,
    TN_TABLE5,
    TN_TABLE6,
    TN_TABLE7,
    PrintedTable,
)
from trueneg.recipes.places import GLUE_FOLDERS, files_needed
from trueneg.recipes.plan import Command, Job, Output, Workspace, safe_name
from trueneg.recipes.setting import GLUE, KEEP, KEPT_AT, RETRIEVED, VECTORS, Setting
from trueneg.recipes.tables import Column, Measured, Read, Spec, assemble, output_of, reader, rows_folder, without_model
from trueneg.reporting.glue_server import FILES, server_scores

_GLUE_COLUMNS = [Column(name, f"glue/{task}", split, metric) for task, (name, split, metric) in GLUE.items()]
FRACTIONS = dict(zip(TN_TABLE2.rows, KEPT_AT, strict=True))


def table2(setting: Setting, arms: Sequence[str]) -> Read:
    """Rates of false negatives over training (Table 2)."""
    jobs: dict[tuple[str, int], str] = {}
    wiki = setting.file("wikitext", "wiki.test.raw")
    sizes = [size for size in ("base", "large") if setting.has(f"BERT-{size}")]
    for size in sizes:
        for seed in setting.all_seeds:
            run = setting.pretrain(f"BERT-{size}", "", seed, KEEP, label="kept")
            command = (
                *("evaluate", "masked-lm", run, "--over-training", "--text", wiki, "--sequences", "lines"),
                *("--detector", RETRIEVED, "--rows", str(setting.scale.limit)),
                *("--out", Output("rates.json"), "--json"),
            )
            jobs[size, seed] = setting.plan.add(Job(f"rates-BERT-{size}-s{seed}", command, minutes=5))

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        measured = Measured()
        for (size, seed), job in jobs.items():
            if table := workspace.table_of(job):
                measured.take(seed, table, column=f"{size} ")
                continue
            for row, shares in _rates(workspace, job).items():
                for figure, share in shares.items():
                    measured.figures.setdefault((row, f"{size} {figure}"), {})[seed] = share
        # In the paper, the rates rise over training, except "large Iter.", for which no claim is made.
        claims = [("100 %", "6.25 %", column) for column in TN_TABLE2.columns if column != "large Iter."]
        claims = [claim for claim in claims if (claim[0], claim[2]) in measured.figures]
        notes = ["Claim: the rates rise as training goes on."]
        why = without_model({name: f"BERT-{name.split()[0]}" for name in TN_TABLE2.columns}, setting.scale)
        rows, columns = list(TN_TABLE2.rows), TN_TABLE2.columns
        return assemble(workspace, recipe, scale, TN_TABLE2, rows, columns, measured, claims, notes, why)

    return read


def _rates(workspace: Workspace, job: str) -> Mapping[str, Mapping[str, float]]:
    """Read the shares of false negatives at each kept step, in percent."""
    nearest: dict[str, Mapping[str, Any]] = {}
    for record in output_of(workspace, job)["records"]:
        row = min(FRACTIONS, key=lambda row: abs(FRACTIONS[row] - record["fraction"]))
        # Checkpoints that a run left between the shares are evaluated, too.
        nearest[row] = min(nearest.get(row, record), record, key=lambda one: abs(FRACTIONS[row] - one["fraction"]))
    found: dict[str, dict[str, float]] = {}
    for row, record in nearest.items():
        shares = {"Iter.": record["shares"]["of_rows"], "Pred.": record["shares"]["of_mispredicted"]}
        found[row] = {name: 100 * share["estimate"] for name, share in shares.items() if share}
    return found


def _glue(
    printed: PrintedTable,
    rows: Mapping[str, tuple[str, str]],
    setting: Setting,
    further: Sequence[tuple[str, str]] = (),
) -> Read:
    """Fine-tune each row's model on GLUE: a row is a backbone with an arm.

    Claims compare each row with its backbone's baseline, and the two rows of each of ``further``.
    """
    tasks = [task for task in GLUE if task in (setting.scale.glue or GLUE)]
    jobs: dict[str, list[str]] = {}
    notes: list[str] = []
    for row, (backbone, arm) in rows.items():
        if not setting.has(backbone):
            continue
        for seed in setting.all_seeds:
            run = setting.pretrain(backbone, arm, seed)
            for task in tasks:
                label = f"{backbone} {arm}".strip()
                job = setting.finetune(run, label, f"glue/{task}", seed, tuned_as(backbone))
                jobs.setdefault(row, []).append(job)
    columns = [column for column in _GLUE_COLUMNS if column.task.removeprefix("glue/") in tasks]
    if any(arm == "HC GloVe" for _, arm in rows.values()):
        notes.append(f"Word vectors of HC GloVe: {setting.file('vectors', VECTORS).name}.")
    why = _missing(rows, setting)
    if len(tasks) < len(GLUE):
        named = ", ".join(column.name for column in columns)
        notes.append(f"Average of {len(tasks)} of {len(GLUE)} tasks, the paper's too: {named}.")
        part = f"this scale takes {len(tasks)} of GLUE's {len(GLUE)} tasks: --scale small or paper"
        why |= {name: part for name, _, _ in GLUE.values() if name not in {column.name for column in columns}}
    baselines = {backbone: row for row, (backbone, arm) in rows.items() if not arm}
    claims = [
        (row, baselines[backbone], AVERAGE) for row, (backbone, arm) in rows.items() if arm and backbone in baselines
    ]
    claims += [(*pair, AVERAGE) for pair in further]
    return reader(Spec(printed, jobs, columns, claims, [column.name for column in columns], notes, why))


def tuned_as(backbone: str) -> Command:
    """Return the preset of section 4.1, "we follow ELECTRA hyper-parameters"; for ELECTRA models, with their head."""
    return ("--preset", "tn-electra" if backbone.startswith("ELECTRA") else "electra-paper")


def _missing(rows: Mapping[str, tuple[str, str]], setting: Setting) -> dict[str, str]:
    return without_model({row: backbone for row, (backbone, _) in rows.items()}, setting.scale)


def _rows(printed: PrintedTable, backbones: Sequence[str], arms: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the rows of a table, and those of further arms for each backbone."""
    found: dict[str, tuple[str, str]] = {}
    for backbone in backbones:
        own = [row for row in printed.rows if row == backbone or row.startswith(f"{backbone} ")]
        found |= {row: (backbone, row.removeprefix(backbone).strip()) for row in own}
        found |= {f"{backbone} {arm}": (backbone, arm) for arm in arms if f"{backbone} {arm}" not in found}
    return found


def table3(setting: Setting, arms: Sequence[str]) -> Read:
    """GLUE after HC and SR, on four models (Table 3)."""
    backbones = ("BERT-base", "BERT-large", "ELECTRA-small", "ELECTRA-base")
    return _glue(TN_TABLE3, _rows(TN_TABLE3, backbones, arms), setting)


def table6(setting: Setting, arms: Sequence[str]) -> Read:
    """Sources of synonyms, and what is regularized (Table 6).

    Section 5: WordNet is better than word vectors, and regularizing sentences is nearly as good as regularizing tokens.
    """
    small = "ELECTRA-small"
    further = [(f"{small} HC", f"{small} HC GloVe"), (f"{small} SR", f"{small} SR sentence")]
    return _glue(TN_TABLE6, _rows(TN_TABLE6, (small,), arms), setting, further)


def _squad_jobs(setting: Setting, rows: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Fine-tune on SQuAD; ELECTRA-small is the variant for 512 tokens (footnote 8)."""
    jobs: dict[str, list[str]] = {}
    for row, (backbone, arm) in rows.items():
        model = f"{backbone}-512" if backbone == "ELECTRA-small" else backbone
        if setting.has(model):
            for seed in setting.all_seeds:
                run = setting.pretrain(model, arm, seed)
                job = setting.finetune(run, f"{model} {arm}".strip(), "squad", seed, tuned_as(backbone))
                jobs.setdefault(row, []).append(job)
    return jobs


def table4(setting: Setting, arms: Sequence[str]) -> Read:
    """SQuAD 1.1 after HC and SR (Table 4)."""
    rows = _rows(TN_TABLE4, ("ELECTRA-small", "ELECTRA-base"), arms)
    columns = [Column("EM", "squad", "dev", "exact_match"), Column("F1", "squad", "dev", "squad_f1")]
    claims = _claims(rows, [column.name for column in columns])
    return reader(Spec(TN_TABLE4, _squad_jobs(setting, rows), columns, claims, why=_missing(rows, setting)))


def _claims(rows: Mapping[str, tuple[str, str]], columns: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(row, backbone, column) for row, (backbone, arm) in rows.items() if arm for column in columns]


_ATTACKS = {"AddSentenceDiverse": ("add-sentence", "textflint"), "SwapSynWordNet": ("swap-synonyms", "textflint")}


def table5(setting: Setting, arms: Sequence[str]) -> Read:
    """SQuAD under attack (Table 5)."""
    rows = _rows(TN_TABLE5, ("ELECTRA-small",), arms)
    jobs = _squad_jobs(setting, rows)
    limit = ("--max-examples", str(setting.scale.limit or 300))
    attacks: dict[str, tuple[str, Command]] = {
        name: (f"{attack}-{profile}", ("--attack", attack, "--profile", profile, *limit))
        for name, (attack, profile) in _ATTACKS.items()
    }
    published = {one.path.stem: one for one in setting.adversarial_squad()}
    attacks |= {stem: (stem, ("--load", one)) for stem, one in published.items()}
    attacked: dict[str, list[str]] = {}
    columns = []
    for name, (result, command) in attacks.items():
        label = _ATTACKS[name][0] if name in _ATTACKS else safe_name("adversarial", name)
        for row, tuned in jobs.items():
            made = [setting.of_model(job, label, ("attack",), *command) for job in tuned]
            attacked.setdefault(row, []).extend(made)
        split = f"attack-{result}"
        for short, metric, before in (
            ("EM", "exact_match_under_attack", "exact_match_before"),
            ("F1", "squad_f1_under_attack", "squad_f1_before"),
        ):
            columns.append(Column(f"{name} {short} before", "squad", split, before))
            columns.append(Column(f"{name} {short}", "squad", split, metric))
            columns.append(Column(f"{name} drop of {short}", "squad", split, metric, before))
    drops = [f"{name} drop of {short}" for name in _ATTACKS for short in ("EM", "F1")]
    # Section 5: SR is much better under distracting sentences, and HC is stable under synonyms.
    between = [("ELECTRA-small SR", "ELECTRA-small HC", drop) for drop in drops]
    notes = [f"{limit[1]} questions are attacked; the paper's figures are of about 300."]
    notes += [f"{stem}: published examples, all of them; of a question's versions the worst." for stem in published]
    return reader(Spec(TN_TABLE5, attacked, columns, [*_claims(rows, drops), *between], notes=notes))


def table7(setting: Setting, arms: Sequence[str]) -> Read:
    """GLUE's test sets (Table 7): predictions to submit, which only the server can score."""
    rows = _rows(TN_TABLE7, ("ELECTRA-small", "ELECTRA-base"), arms)
    tasks = [task for task in GLUE if task in (setting.scale.glue or GLUE)]
    parts = tuple(GLUE_FOLDERS[task] for task in tasks)
    setting.input("glue", *parts, files=files_needed("glue", parts, is_tested=True)).check_there()
    zips: dict[str, str] = {}
    for row, (backbone, arm) in rows.items():
        if setting.has(backbone):
            run, label = setting.pretrain(backbone, arm, 1), f"{backbone} {arm}".strip().replace(" ", "-")
            names = ",".join(f"glue/{task}" for task in tasks)
            tuned = setting.finetune(run, label, names, 1, tuned_as(backbone))
            tested = _tested(setting, label, tuned, tasks)
            zips[row] = tested[0]
            if not setting.scale.is_made_up:  # the server accepts only files for GLUE's own examples
                command: Command = ("report", Output("", tuned), "--out", Output("glue.zip"), "--partial")
                zips[row] = setting.plan.add(Job(safe_name("glue-zip", label), command, after=tested, minutes=1))

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        measured, notes = Measured(), list[str]()
        for row, job in zips.items():
            folder = rows_folder(workspace, recipe, row)
            folder.mkdir(parents=True, exist_ok=True)
            scores = server_scores(folder) or {}
            for task, score in scores.items():
                measured.figures[row, _SERVER.get(task, task)] = {1: score}
            if len(scores) == len(GLUE):
                measured.figures[row, AVERAGE] = {1: statistics.fmean(scores.values())}
            place = f"OUT/{folder.relative_to(workspace.root)}/{FILES[0]}"
            measured.obstacles[row, AVERAGE] = "one submission a model has no interval"
            if not scores:
                measured.obstacles[row, AVERAGE] = "GLUE's server alone has the labels"
                made = workspace.public_path(Output("glue.zip", job))
                notes.append(f"{row}: hand {made} in at gluebenchmark.com, and write its scores to {place}.")
        claims = [claim for claim in _claims(rows, [AVERAGE]) if {claim[0], claim[1]} <= zips.keys()]
        columns, why = TN_TABLE7.columns, _missing(rows, setting)
        return assemble(workspace, recipe, scale, TN_TABLE7, list(zips), columns, measured, claims, notes, why)

    return read


_TEST_SPLITS = {"mnli": ("test_matched", "test_mismatched")}


def _tested(setting: Setting, label: str, tuned: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Add jobs that predict tasks' test splits with one fine-tuning job's models; MNLI's splits have other names."""
    by_splits: dict[tuple[str, ...], list[str]] = {}
    for task in tasks:
        by_splits.setdefault(_TEST_SPLITS.get(task, ("test",)), []).append(task)
    jobs = []
    for splits, of_splits in by_splits.items():
        words = (word for split in splits for word in ("--split", split))
        command: Command = ("evaluate", "task", *(Output(task, tuned) for task in of_splits), *words)
        name = safe_name("test", label, "" if splits == ("test",) else "-".join(of_splits))
        jobs.append(setting.plan.add(Job(name, command, minutes=len(of_splits))))
    return tuple(jobs)


_SERVER = {"SST-2": "SST", "STS-B": "STS", "MNLI-m": "MNLI"}
"""Columns of tasks that have another name on the server."""


def cost(setting: Setting, arms: Sequence[str]) -> Read:
    """Overhead per step of HC and SR (section 5), measured in one run on this machine."""
    backbone = "BERT-base" if setting.scale.backbones["BERT-base"].pretrain[0].startswith("tn-") else "ELECTRA-small"
    preset = setting.scale.backbones[backbone].pretrain[0]
    command = ("bench", "overhead", "--preset", preset, "--corpus", setting.corpus(backbone), "--json")
    rounds = ("--rounds", "2" if setting.scale.is_made_up else "20")
    job = setting.plan.add(Job(safe_name("bench", preset), (*command, *rounds), minutes=10))

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        found = {arm["name"]: arm for arm in output_of(workspace, job)["arms"]}
        names = {"baseline": "baseline", "HC": "hard correction", "SR": "soft regularization (token)"}
        measured = Measured({(row, "ratio"): {0: found[name]["ratio"]} for row, name in names.items()})
        notes = [f"{preset}: median ratio of a step over the rounds, the arms taking turns."]
        notes += [
            f"{row}: quartiles {found[name]['ratio_low']:.3f} to {found[name]['ratio_high']:.3f}."
            for row, name in names.items()
        ]
        return assemble(workspace, recipe, scale, TN_COST, list(names), ["ratio"], measured, [], notes)

    return read


RECIPES = {
    "tn-table2": table2,
    "tn-table3": table3,
    "tn-table4": table4,
    "tn-table5": table5,
    "tn-table6": table6,
    "tn-table7": table7,
    "tn-cost": cost,
}
"""Name to the function that plans a table's jobs and returns how to read them."""
