"""Ways of treating false negatives, compared on real text: dropping, soft targets, smoothing, or no treatment.

The claim, as one order: soft targets over what a detector accepts in context > self-distillation > uniform label
smoothing > one-hot targets > dropping by the paper's table. Runs with the same seed read the same rows and masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trueneg.evaluation.results.reproduction import ReproducedTable
from trueneg.recipes.papers import AVERAGE, CORRECTIONS, CORRECTIONS_GLUE
from trueneg.recipes.plan import Command, Job, Output, Workspace, safe_name
from trueneg.recipes.setting import GLUE, Setting
from trueneg.recipes.tables import Column, Measured, Read, Spec, assemble, output_of, reader
from trueneg.recipes.true_negatives import tuned_as

ONE_HOT = "one-hot"
BACKBONE = "BERT-base"
ROWS = {
    **{ONE_HOT: "", "HC": "HC", "smoothing": "smoothing", "self": "self"},
    "soft in context": "soft in context",
}
"""Row to its arm, for the rows of the claim; ``--arms`` adds more."""
CHAIN = ("soft in context", "self", "smoothing", ONE_HOT, "HC")
"""The claim: each is better than the next."""
TASKS = ("cola", "sst2", "mrpc", "rte")
"""Of GLUE."""
HELD_OUT_ROWS = 2000
"""Rows of held-out text that each run's loss is measured on."""


def written(setting: Setting, arms: Sequence[str]) -> Read:
    """Trained models' substitutes for a word against human judgements, their sentence vectors and their loss."""
    rows = _rows(arms)
    jobs = {(row, seed): _measured(setting, arm, seed) for row, arm in rows.items() for seed in setting.all_seeds}

    def read(workspace: Workspace, recipe: str, scale: str) -> ReproducedTable:
        measured = Measured()
        for (row, seed), (substitutes, vectors, loss) in jobs.items():
            if table := workspace.table_of(substitutes, vectors, loss):
                measured.take(seed, table, row)
                continue
            figures = {}
            for result in output_of(workspace, substitutes)["results"]:
                is_visible = result["config"]["substitution"]["target"] == "visible"
                end = " visible" if is_visible else ""
                figures[f"F10{end}"] = result["metrics"]["f10_lenient_acceptable"]
                figures[f"GAP{end}"] = result["metrics"]["gap"]
                if not is_visible:
                    figures["F10 conceivable"] = result["metrics"]["f10_lenient_conceivable"]
            # The encoder that the run continues is measured, too, and comes first.
            *_, own = (one for one in output_of(workspace, vectors)["sts"] if one["pooling"] == "mean")
            figures["STS-B"] = own["spearman"]
            figures = {column: 100 * figure for column, figure in figures.items()}
            figures["gold loss"] = output_of(workspace, loss)["readings"]["gold_loss"]
            for column, figure in figures.items():
                measured.figures.setdefault((row, column), {})[seed] = figure
        notes = [
            "F10, GAP: SWORDS, in percent; lenient and acceptable where nothing else is said; the target masked, or "
            "visible. STS-B: Spearman x 100 of mean vectors, no fine-tuning. Gold loss: held out, in nats.",
            f"Claim: {' > '.join(CHAIN)}.",
        ]
        columns = CORRECTIONS.columns
        claims = _claims(list(rows), ("F10", "GAP", "STS-B"))
        return assemble(workspace, recipe, scale, CORRECTIONS, list(rows), columns, measured, claims, notes)

    return read


def glue(setting: Setting, arms: Sequence[str]) -> Read:
    """GLUE after each treatment."""
    rows = _rows(arms)
    jobs: dict[str, list[str]] = {}
    for row, arm in rows.items():
        for seed in setting.all_seeds:
            run, label = _pretrained(setting, arm, seed), safe_name("corrections", row)
            for task in TASKS:
                job = setting.finetune(run, label, f"glue/{task}", seed, tuned_as(BACKBONE))
                jobs.setdefault(row, []).append(job)
    columns = [Column(GLUE[task][0], f"glue/{task}", *GLUE[task][1:]) for task in TASKS]
    names = [column.name for column in columns]
    notes = [f"Claim: {' > '.join(CHAIN)}."]
    return reader(Spec(CORRECTIONS_GLUE, jobs, columns, _claims(list(rows), (AVERAGE,)), names, notes))


def _rows(arms: Sequence[str]) -> dict[str, str]:
    return ROWS | {arm: arm for arm in arms if arm not in ROWS}


def _claims(rows: Sequence[str], columns: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the claims that one row is better than another, in each of some columns.

    They are the chain's links, its first row and all further rows against the baseline, and variants of its first row
    against self-distillation, the chain's second.
    """
    against_one_hot = [CHAIN[0], *(row for row in rows if row not in CHAIN)]
    variants = [row for row in rows if row.startswith(f"{CHAIN[0]} ")]
    links = [*pairwise(CHAIN), *((row, ONE_HOT) for row in against_one_hot), *((row, "self") for row in variants)]
    return [(row, baseline, column) for row, baseline in links for column in columns]


def _pretrained(setting: Setting, arm: str, seed: int) -> Output:
    steps = setting.scale.correction_steps
    return setting.pretrain(BACKBONE, arm, seed, label=str(steps or ""), steps=steps)


def _measured(setting: Setting, arm: str, seed: int) -> tuple[str, str, str]:
    """Add a run and the measurements of its substitutes, its vectors and its loss; return these three jobs."""
    run, label = _pretrained(setting, arm, seed), safe_name(arm.replace(" ", "-") or ONE_HOT, f"s{seed}")
    writes: Command = (
        *("evaluate", "substitution", run, "--data", setting.file("substitution", "swords*_dev.json*")),
        *("--out", Output("written"), "--target", "masked", "--target", "visible", "--json"),
    )
    vectors: Command = (
        *("evaluate", "encoder", run, "--task", "sts", "--data", setting.input("glue/STS-B"), "--json"),
    )
    loss: Command = (
        *("evaluate", "masked-lm", run, "--corpus", setting.corpus(BACKBONE), "--rows", str(HELD_OUT_ROWS)),
        *("--out", Output("loss.json"), "--json"),
    )
    of = {"writes": writes, "vectors": vectors, "loss": loss}
    first, second, third = (setting.plan.add(Job(safe_name(name, label), of[name])) for name in of)
    return first, second, third


RECIPES = {"corrections": written, "corrections-glue": glue}
"""Name to the function that plans a table's jobs and returns how to read them."""
