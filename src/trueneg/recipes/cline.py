"""The tables of "CLINE: Contrastive Learning with Semantic Negative Examples" (Wang et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.evaluation.results.store import load_predictions
from trueneg.evaluation.results.summary import Runs, read_runs
from trueneg.recipes.papers import (
    AVERAGE,
    CLINE_TABLE2,
    CLINE_TABLE3,
    CLINE_TABLE4,
    CLINE_TABLE5,
    CLINE_TABLE6,
    CLINE_TABLE7,
    PrintedTable,
)
from trueneg.recipes.places import CONTRAST_FOLDERS
from trueneg.recipes.plan import Argument, Command, Job, Output, Workspace, safe_name
from trueneg.recipes.setting import HELD_OUT, Setting
from trueneg.recipes.tables import Column, Measured, Read, Spec, assemble, data_notes, output_of, reader, without_model
from trueneg.runs.configuring_finetuning import LEAST_NOISE

ENCODERS = {"BERT": "BERT-base", "RoBERTa": "RoBERTa-base"}
"""Name in the tables to the model; a scale may lack one."""
NAMES = {"IMDB": "imdb", "PERSPECTRUM": "perspectrum", "BoolQ": "boolq", "SNLI": "snli", "AG": "ag", "MR": "mr"}
_FIGURES = {"Ori": "original", "Rev": "revised", "Con": "pair_consistency"}
_GROUPS = {"Groups": "group_consistency"}
"""For originals with several revisions. The paper's "every element in both" sets would define this, but its figures
are of pairs: a model that always predicts the same class scores 60.9, 49.3 and 27.5 on BoolQ, as in its Table 6."""
_OF_GROUPS = ("BoolQ", "SNLI")


def _base(setting: Setting) -> str:
    """Return the model that CLINE continues: RoBERTa-base, as in the paper, if the scale has it, else BERT-base."""
    return "RoBERTa" if setting.has(ENCODERS["RoBERTa"]) else "BERT"


def _model(setting: Setting, name: str, seed: int) -> Argument:
    """Return a row's encoder: a released one, CLINE, or one of CLINE's ablations.

    ``continued`` is CLINE's control, which the paper does not have: as many steps of masked language modelling alone.
    """
    if name in ENCODERS:
        return setting.checkpoint(ENCODERS[name], seed)
    backbone = ENCODERS[_base(setting)]
    return setting.pretrain(backbone, name, seed)


def _names(setting: Setting, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the models of a table that the scale has, and a note on the control."""
    has = [name for name in dict.fromkeys(names) if setting.has(ENCODERS.get(name, ENCODERS[_base(setting)]))]
    control = (
        f"CLINE continues {_base(setting)}; the row 'continued' is {_base(setting)} after as many steps of masked "
        f"language modelling alone: the paper has no such control."
    )
    return has, [control] if "CLINE" in names else []


def _missing(printed: PrintedTable, setting: Setting) -> dict[str, str]:
    """Return the rows whose encoder the scale lacks, with the reason; CLINE's rows use the encoder that it has."""
    models = {row: ENCODERS[row.split()[0]] for row in printed.rows if row.split()[0] in ENCODERS}
    return without_model(models, setting.scale)


def _of(printed: PrintedTable, setting: Setting) -> PrintedTable:
    """Return the table with the paper's differences relative to RoBERTa, whichever encoder the scale continues."""
    base = _base(setting)
    return replace(printed, baselines={f"{base}{way}": f"RoBERTa{way}" for way in ("", " FreeLB")})


def _tuned(
    setting: Setting, name: str, task: str, seed: int, more: Command = (), label: str = "", select: str = ""
) -> str:
    """Fine-tune with the middle learning rate, or with one selected as the settings or the table specify."""
    select = setting.selection(select)
    chosen = setting.swept(task, select) if select else ("--set", f"optimizer.learning_rate={_middle(setting):g}")
    label = " ".join(filter(None, (name, label, "swept" if select else "")))
    return setting.finetune(_model(setting, name, seed), label, task, seed, ("--preset", "cline", *chosen, *more))


def _middle(setting: Setting) -> float:
    rates = setting.scale.learning_rates
    return rates[len(rates) // 2]


def _selection(setting: Setting, tasks: Sequence[str], select: str = "") -> str:
    """Describe how a table's learning rates were chosen.

    Args:
        setting: The plan's setting.
        tasks: The table's tasks.
        select: What to select them on if the settings do not specify it.
    """
    rates = ", ".join(f"{rate:g}" for rate in setting.scale.learning_rates)
    select = setting.selection(select)
    if not select:
        return f"Learning rate {_middle(setting):g}, without a choice: --set select=held-out selects one of {rates}."
    if select == HELD_OUT:
        how = "held-out training examples; the paper selects on the contrast set: --set select=contrast-set"
    else:
        without = [task for task in tasks if NAMES[task] not in CONTRAST_FOLDERS]
        others = f"; of {' and '.join(without)}, which have none, on held-out training examples" if without else ""
        how = f"the contrast set itself, as in the paper: figures on it are too high{others}"
    return f"Learning rate ({rates}) selected on {how}."


FREELB = ("--adversarial", "freelb", "--set", "freelb.step_size=0.1", "--set", "freelb.magnitude=0.1")
"""The paper gives no hyper-parameters for FreeLB."""
SMART = ("--adversarial", "smart", "--set", f"smart.noise={10 * LEAST_NOISE}")
"""Noise that bf16 can represent."""


def _adversarial_rows(
    setting: Setting, names: Sequence[str], tasks: Sequence[str], arms: Sequence[str], *, with_contrast: bool
) -> dict[str, list[str]]:
    """Fine-tune with and without FreeLB, and evaluate on TextFooler's examples and on contrast sets."""
    jobs: dict[str, list[str]] = {}
    for task in tasks:
        found = setting.adversaries(ENCODERS["BERT"], NAMES[task])
        for name in names:
            ways: dict[str, Command] = {"": (), "FreeLB": FREELB, **({"SMART": SMART} if "SMART" in arms else {})}
            for way, more in ways.items():
                row = f"{name} {way}".strip()
                for seed in setting.all_seeds:
                    job = _tuned(setting, name, NAMES[task], seed, more, way)
                    jobs.setdefault(row, []).append(setting.of_model(job, "adversarial", ("attack",), "--load", found))
                    if with_contrast:
                        jobs[row].append(setting.contrast_set(job, NAMES[task]))
    return jobs


def _adversarial(task: str, column: str) -> Column:
    return Column(column, NAMES[task], "attack-*", "accuracy_under_attack")


_ADVERSARIES = "Adversarial examples: TextFooler's against one BERT that no row shows, the same for all rows."


def table2(setting: Setting, arms: Sequence[str]) -> Read:
    """FreeLB on adversarial and on revised examples (Table 2)."""
    names, notes = _names(setting, tuple(ENCODERS))
    tasks = ("IMDB", "SNLI")
    jobs = _adversarial_rows(setting, names, tasks, arms, with_contrast=True)
    columns = [
        column
        for task in tasks
        for column in (
            _adversarial(task, f"{task} Adv"),
            Column(f"{task} Rev", NAMES[task], "contrast-test", "revised"),
        )
    ]
    claims = [(f"{name} FreeLB", name, column.name) for name in names for column in columns]
    notes, why = [*notes, _ADVERSARIES, _selection(setting, tasks)], _missing(CLINE_TABLE2, setting)
    return reader(Spec(CLINE_TABLE2, jobs, columns, claims, notes=notes, why=why))


def table3(setting: Setting, arms: Sequence[str]) -> Read:
    """Revised reviews that BERT gets right and its FreeLB version wrong (section 2.3, Table 3): how many, and which."""
    jobs: dict[int, list[Output]] = {}
    for seed in setting.all_seeds:
        for way, more in (("", ()), ("FreeLB", FREELB)):
            job = _tuned(setting, "BERT", "imdb", seed, more, way)
            jobs.setdefault(seed, []).append(setting.results(setting.contrast_set(job, "imdb"), job))

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        measured, rows, read_of = Measured(), list(CLINE_TABLE3.rows), list[Runs]()
        for seed, (plain, adversarial) in jobs.items():
            if table := workspace.table_of(plain.job, adversarial.job):
                measured.take(seed, table)
                continue
            read_of += [read_runs(workspace.path(one)) for one in (plain, adversarial)]
            ways = [_revisions_right(workspace, one) for one in (plain, adversarial)]
            for row, (one, other) in zip(rows, (ways, ways[::-1]), strict=True):
                share = sum(bool(one[key] > other[key]) for key in one) / len(one)
                measured.figures.setdefault((row, "IMDB Rev"), {})[seed] = 100 * share
        claims = [(rows[0], rows[1], "IMDB Rev")]
        folders = [workspace.public_path(one) for one in jobs[min(jobs)]]
        notes = [
            *data_notes(read_of, [Column("IMDB Rev", "imdb", "contrast-test", "revised")]),
            _selection(setting, ["IMDB"]),
            f"The examples: trueneg compare {' '.join(folders)} --examples examples.csv",
        ]
        return assemble(workspace, recipe, scale, CLINE_TABLE3, rows, ["IMDB Rev"], measured, claims, notes)

    return read


def _revisions_right(workspace: Workspace, results: Output) -> dict[str, float]:
    """Read how many of each review's revisions a model gets right."""
    result = next(workspace.path(results).glob("seed-*/contrast-test.json"))
    return {str(one["key"]): float(one["num_revised_right"]) for one in load_predictions(result)}


def table5(setting: Setting, arms: Sequence[str]) -> Read:
    """Adversarial sets (Table 5)."""
    names, notes = _names(setting, (*ENCODERS, "CLINE", *(arm for arm in arms if arm != "SMART")))
    tasks = ("IMDB", "AG", "MR", "SNLI")
    jobs = _adversarial_rows(setting, names, tasks, arms, with_contrast=False)
    columns = [_adversarial(task, task) for task in tasks]
    pairs = [("CLINE", _base(setting)), ("CLINE FreeLB", f"{_base(setting)} FreeLB")]
    claims = [(*pair, column) for pair in pairs for column in (*tasks, AVERAGE)]
    printed, notes = _of(CLINE_TABLE5, setting), [*notes, _ADVERSARIES, _selection(setting, tasks)]
    return reader(Spec(printed, jobs, columns, claims, tasks, notes, _missing(printed, setting)))


def _contrast_columns(tasks: Sequence[str], parts: Mapping[str, str]) -> list[Column]:
    """Return the columns of contrast sets; results for part of the training examples have their own folder."""
    return [
        Column(
            " ".join(word for word in (task, part, figure) if word),
            f"{NAMES[task]} {NAMES[task]}-{folder}" if folder else NAMES[task],
            "contrast-test",
            metric,
        )
        for task in tasks
        for part, folder in parts.items()
        for figure, metric in (_FIGURES | (_GROUPS if task in _OF_GROUPS else {})).items()
    ]


def table4(setting: Setting, arms: Sequence[str]) -> Read:
    """Contrast sets (Table 4)."""
    names, notes = _names(setting, (*ENCODERS, "CLINE", "continued", *arms))
    tasks = ("IMDB", "PERSPECTRUM", "BoolQ", "SNLI")
    jobs: dict[str, list[str]] = {}
    for name in names:
        for task in tasks:
            for seed in setting.all_seeds:
                job = _tuned(setting, name, NAMES[task], seed, select=HELD_OUT)
                jobs.setdefault(name, []).append(setting.contrast_set(job, NAMES[task]))
    columns = _contrast_columns(tasks, {"": ""})
    notes.append(_selection(setting, tasks, HELD_OUT))
    others = (_base(setting), "continued")
    claims = [("CLINE", other, name) for other in others for name in (*CLINE_TABLE4.columns, AVERAGE)]
    revised = [column.name for column in columns if column.metric == "revised"]
    notes.append("Average: of the revised examples (Rev).")
    printed = _of(CLINE_TABLE4, setting)
    return reader(Spec(printed, jobs, columns, claims, revised, notes, _missing(printed, setting)))


PARTS = {"1 %": 0.01, "10 %": 0.1, "100 %": 1.0}


def table6(setting: Setting, arms: Sequence[str]) -> Read:
    """Ablations with parts of the training examples (Table 6)."""
    ablations = ("CLINE w/o RTD", "CLINE w/o hard negatives")
    names, notes = _names(setting, ("CLINE", *ablations, _base(setting), *arms))
    tasks = ("PERSPECTRUM", "BoolQ")
    folders = {part: part.replace(" %", "pct") for part in PARTS}
    jobs: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        for task in tasks:
            for part, share in PARTS.items():
                for seed in setting.all_seeds:
                    # If learning rates are selected, the models trained on all examples are Table 4's.
                    is_of_table4 = share == 1 and bool(setting.selection())
                    more: Command = () if is_of_table4 else ("--train-fraction", str(share))
                    label = "" if is_of_table4 else folders[part]
                    job = _tuned(setting, name, NAMES[task], seed, more, label)
                    of_part = setting.contrast_set(job, NAMES[task]), f"{NAMES[task]}-{folders[part]}"
                    jobs.setdefault(name, []).append(of_part)
    columns = _contrast_columns(tasks, folders)
    # Section 4.5: CLINE is better than the encoder that it continues in all settings.
    claims = [("CLINE", _base(setting), name) for name in CLINE_TABLE6.columns]
    consistency = [column.name for column in columns if column.metric == "pair_consistency"]
    claims += [("CLINE", other, name) for other in ablations for name in consistency]
    notes.append(_selection(setting, tasks))
    printed = _of(CLINE_TABLE6, setting)
    return reader(Spec(printed, jobs, columns, claims, notes=notes, why=_missing(printed, setting)))


def table7(setting: Setting, arms: Sequence[str]) -> Read:
    """Hits on triplets of MR (Table 7)."""
    rows = {
        "BERT": ("BERT", ""),
        "CLINE-B": ("BERT", "CLINE"),
        "RoBERTa": ("RoBERTa", ""),
        "CLINE-R": ("RoBERTa", "CLINE"),
    }
    why = without_model({row: ENCODERS[name] for row, (name, _) in rows.items()}, setting.scale)
    rows = {row: of_row for row, of_row in rows.items() if row not in why}
    for name in [name for name, arm in rows.values() if arm]:
        rows[f"{name} continued"] = (name, "continued")
    jobs: dict[tuple[str, int], str] = {}
    for row, (name, arm) in rows.items():
        for seed in setting.all_seeds:
            backbone = ENCODERS[name]
            run = setting.pretrain(backbone, arm, seed) if arm else setting.checkpoint(backbone, seed)
            command: Command = (
                *("evaluate", "encoder", run, "--task", "triplets", "--set", "preset=paper"),
                *("--data", setting.input("cline_eval/rt-polaritydata"), "--rows", str(setting.scale.limit), "--json"),
            )
            jobs[row, seed] = setting.plan.add(Job(safe_name("hits", row.replace(" ", "-"), f"s{seed}"), command))

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        measured = Measured()
        for (row, seed), job in jobs.items():
            if table := workspace.table_of(job):
                measured.take(seed, table, row)
                continue
            for record in output_of(workspace, job)["triplets"]:
                column = {"cls": "CLS", "mean": "MEAN", "bertscore": "BS"}[record["way"]]
                measured.figures.setdefault((row, column), {})[seed] = 100 * max(record["curve"][1:])
        names = {name: row for row, (name, arm) in rows.items() if arm == "CLINE"}
        pairs = [pair for name, row in names.items() for pair in ((row, name), (row, f"{name} continued"))]
        claims = [(*pair, column) for pair in pairs for column in CLINE_TABLE7.columns]
        notes = ["Hits of the best layer, as in the paper; 'continued': masked language modelling alone."]
        columns = CLINE_TABLE7.columns
        return assemble(workspace, recipe, scale, CLINE_TABLE7, list(rows), columns, measured, claims, notes, why)

    return read


RECIPES = {
    "cline-table2": table2,
    "cline-table3": table3,
    "cline-table4": table4,
    "cline-table5": table5,
    "cline-table6": table6,
    "cline-table7": table7,
}
"""Name to the function that plans a table's jobs and returns how to read them."""
