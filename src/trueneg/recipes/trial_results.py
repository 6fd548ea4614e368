"""Results of the jobs of a trial: measures, examples and warnings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trueneg.errors import TaskError
from trueneg.evaluation.results.provenance import versions
from trueneg.evaluation.results.summary import read_runs
from trueneg.evaluation.results.trial import BASELINE, BEFORE, Measure, Shown, Trial, compare_arms, perplexity
from trueneg.recipes.own_text import ARMS, OwnText
from trueneg.recipes.plan import LOG, Argument, Input, Output, Workspace
from trueneg.recipes.tables import output_of
from trueneg.recipes.trial_jobs import TrialPlan
from trueneg.recipes.trial_steps import Chosen
from trueneg.tasks.metrics import METRICS

EXAMPLES = 12


def read_trial(own: OwnText, workspace: Workspace, whole: TrialPlan, chosen: Chosen) -> Trial:
    """Read the results of a trial's jobs.

    Raises:
        TaskError: if models were measured on different masks.
    """
    measures = [*_held_out(own, workspace, whole), *_similarity(own, workspace, whole), *_probe(own, workspace, whole)]
    took = sum(workspace.seconds(name) for name in workspace.plan.jobs) / 60
    before = output_of(workspace, whole.trained[BEFORE, own.seeds[0]].held_out)["records"][0]
    notes = [
        "All arms saw the same text in the same order, the same masks, and took as many steps; seeds are paired.",
        f"Held-out documents are a tenth of the text, chosen at random; no arm trained on them. Measured on "
        f"{before['num_rows']:,} rows of them, {before['counts']['masked']:,} masked tokens.",
        f"Training and measuring took {took:.1f} minutes.",
    ]
    if own.is_head_new:
        notes.append(
            "The checkpoint has no masked-LM head: a new one was trained in every arm, and what is said of the loss "
            "before is that of an untrained head. docs/sentence-encoders.md says how to keep a sentence encoder's "
            "vectors while a head is new."
        )
    if own.glue is None:
        notes.append("Sentence similarity was not measured: give GLUE's folder with --data.")
    elif not own.is_sentence_encoder:
        notes.append("The checkpoint is no sentence encoder: its similarity is that of the mean of its vectors.")
    if not own.probe:
        notes.append("No probe was given: --task classification --data FILE fine-tunes every arm on labelled text.")
    if len(own.seeds) < 3:
        notes.append(f"{len(own.seeds)} seeds make wide intervals: give --seeds 5 to the same command to go on.")
    return Trial(
        text=[named(text) for text in own.texts],
        checkpoint=named(own.checkpoint),
        arms={BASELINE: "plain masked language modelling"} | {arm: ARMS[arm] for arm in own.arms},
        seeds=list(own.seeds),
        steps=chosen.steps,
        why_steps=chosen.why,
        minutes=chosen.minutes,
        measures=measures,
        answers=compare_arms(measures, own.arms, own.seeds),
        examples=_examples(own, workspace, whole),
        notes=notes,
        warnings=_warnings(workspace),
        commands={name: workspace.command(name) for name in workspace.plan.jobs},
        data={one.label: found for one, found in workspace.digests.items()},
        versions=versions(),
    )


def named(argument: Argument) -> str:
    """Name text or a checkpoint as it was given."""
    return str(argument.path) if isinstance(argument, Input) else str(argument)


def _held_out(own: OwnText, workspace: Workspace, whole: TrialPlan) -> list[Measure]:
    records = {key: output_of(workspace, jobs.held_out)["records"] for key, jobs in whole.trained.items()}
    if len({(one[0]["corpus"], one[0]["counts"]["masked"]) for one in records.values()}) != 1:
        raise TaskError("the arms were measured on different masks: run it again with another --out")

    def by_arm(number: int, figure: Callable[[Mapping[str, float]], float]) -> dict[str, dict[int, float]]:
        found: dict[str, dict[int, float]] = {}
        for (arm, seed), of_model in records.items():
            found.setdefault(arm, {})[seed] = figure(of_model[number]["readings"])
        return found

    obstacle = "the checkpoint's head was new: its loss before is that of random weights" if own.is_head_new else ""
    losses = by_arm(0, lambda readings: readings["gold_loss"])
    perplexities = {arm: {seed: perplexity(loss) for seed, loss in of.items()} for arm, of in losses.items()}
    right = by_arm(0, lambda readings: 100 * readings["accuracy"])
    accepted = "mispredictions that {} accepts"
    found = [
        Measure("loss of the gold token, held out", "nats", losses, "less", obstacle),
        Measure("perplexity, held out", "words", perplexities, "neither", obstacle),
        Measure("masked words predicted right, held out", "points", right, "neither", obstacle),
        Measure(
            accepted.format("WordNet's table"),
            "points",
            by_arm(0, lambda readings: 100 * readings.get("corrected", 0.0)),
            "neither",
            obstacle,
        ),
    ]
    if own.is_in_context:
        in_context = by_arm(1, lambda readings: 100 * readings.get("corrected", 0.0))
        found.append(Measure(accepted.format("context"), "points", in_context, "neither", obstacle))
    return found


def _similarity(own: OwnText, workspace: Workspace, whole: TrialPlan) -> list[Measure]:
    if own.glue is None:
        return []
    found: dict[str, dict[int, float]] = {}
    for (arm, seed), jobs in whole.trained.items():
        assert jobs.similarity is not None
        command = workspace.arguments(jobs.similarity)
        records = output_of(workspace, jobs.similarity)["sts"]
        of_model = [one for one in records if one["checkpoint"] == command[2] and one["pooling"] == "mean"]
        found.setdefault(arm, {})[seed] = 100 * of_model[0]["spearman"]
    return [Measure("sentence similarity, STS-B dev (Spearman)", "points", found, "more")]


def _probe(own: OwnText, workspace: Workspace, whole: TrialPlan) -> list[Measure]:
    if not own.probe:
        return []
    measures: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for (arm, seed), jobs in whole.trained.items():
        assert jobs.probe is not None
        for (task, split), by_seed in read_runs(workspace.path(Output("", jobs.probe))).items():
            result = by_seed[seed][1]
            if result.metrics:
                of_task = measures.setdefault((task, split, result.primary), {})
                of_task.setdefault(arm, {})[seed] = 100 * result.metrics[result.primary]
    return [
        Measure(
            f"probe, {task} {split} ({metric})", "points", by_arm, "less" if METRICS[metric].less_is_better else "more"
        )
        for (task, split, metric), by_arm in measures.items()
    ]


def _examples(own: OwnText, workspace: Workspace, whole: TrialPlan) -> list[Shown]:
    """Choose the words at which the top predictions of the first seed's arms differ."""
    looked = {arm: jobs.inspected for (arm, seed), jobs in whole.trained.items() if seed == own.seeds[0]}
    found: list[tuple[tuple[bool, float], Shown]] = []
    for number in range(len(looked[BASELINE])):
        read = {arm: output_of(workspace, names[number]) for arm, names in looked.items() if names}
        text = read[BASELINE]["text"]
        for words in zip(*(one["words"] for one in read.values()), strict=True):
            of_arm = dict(zip(read, words, strict=True))
            plain = of_arm[BASELINE]
            if len({word["predictions"][0]["text"] for arm, word in of_arm.items() if arm != BEFORE}) > 1:
                written = {arm: [_written(one) for one in word["predictions"][:3]] for arm, word in of_arm.items()}
                shown = Shown(text[: plain["start"]], plain["gold"], text[plain["end"] :], written)
                apart = max(abs(word["gold_probability"] - plain["gold_probability"]) for word in of_arm.values())
                found.append(((bool(plain["note"]), -apart), shown))
    return [shown for _, shown in sorted(found, key=lambda one: one[0])[:EXAMPLES]]


def _written(predicted: Mapping[str, Any]) -> tuple[str, float, bool]:
    is_accepted = predicted["is_correctable"] and any(one["is_accepted"] for one in predicted["verdicts"])
    return predicted["text"], predicted["probability"], bool(is_accepted)


def _warnings(workspace: Workspace) -> list[str]:
    """List the distinct warnings of all jobs, with the number of jobs that gave each."""
    said: dict[str, int] = {}
    for name in workspace.plan.jobs:
        log = workspace.folder(name) / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        for line in dict.fromkeys(line for line in lines if line.startswith("warning: ")):
            text = line.removeprefix("warning: ").replace(str(workspace.path(Output("run", name))), "RUN")
            said[text] = said.get(text, 0) + 1
    return [f"{text} ({num} jobs)" if num > 1 else text for text, num in said.items()]
