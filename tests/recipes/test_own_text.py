"""A trial on one's own text: verdicts against scipy, how steps are chosen, and a whole one with a tiny checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy

from trueneg.corpus.build import build_corpus
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.errors import ConfigError, CorpusError, Interrupted, ModelError, TaskError
from trueneg.evaluation.results.trial import (
    BASELINE,
    BEFORE,
    Measure,
    Shown,
    Trial,
    compare_arms,
    judge,
    load_trial,
    perplexity,
    save_trial,
)
from trueneg.evaluation.statistics.intervals import Interval
from trueneg.recipes import trial_steps
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.own_text import OwnText, ask
from trueneg.recipes.plan import FINISHED
from trueneg.recipes.trial import planned, run_trial
from trueneg.recipes.trial_jobs import EVALUATED_ROWS
from trueneg.recipes.trial_steps import (
    EVALUATION,
    MAX_EPOCHS,
    MIN_EVALUATED_ROWS,
    MIN_STEPS,
    Cost,
    choose_rows,
    choose_steps,
)
from trueneg.reporting.trial import headline, trial_tables, write_trial
from trueneg.runs.configuring import configure
from trueneg.runs.pretraining import pretrain
from trueneg.training.log import read_metrics

WORDNET = Path(__file__).parents[1] / "data" / "wordnet"
SMALL = ("corpus.length=24", "train.batch_size=4", "train.precision=fp32")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The hand-made WordNet, a cache of our own, and one passage to look at."""
    monkeypatch.setattr(trial_steps, "PASSAGES", 1)
    monkeypatch.setenv("WNSEARCHDIR", str(WORDNET))
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Made-up text, and the folder of a tiny BERT that was trained on it for two steps."""
    folder = tmp_path_factory.mktemp("own")
    text = made_up_data(folder / "data", num=60) / "corpus" / "made-up.txt"
    train_tokenizer([str(text)], folder / "tokenizer", vocab_size=200)
    build_corpus([str(text)], folder / "tokenizer", folder / "corpus")
    settings = [f"corpus.path={folder / 'corpus'}", "model.architecture=bert", "train.steps=2", *SMALL]
    return text, pretrain(configure("electra-tiny", objective="mlm", settings=settings), folder / "run").hugging_face


def asked(world: tuple[Path, Path], **options: Any) -> OwnText:
    text, checkpoint = world
    settings = (*SMALL, "train.steps=4")
    return ask(
        [str(text)], str(checkpoint), **({"seeds": (1, 2), "arms": ("lexical",), "settings": settings} | options)
    )


# ---- verdicts

LOSSES = {
    BEFORE: {1: 2.9, 2: 2.9, 3: 2.9, 4: 2.9},
    BASELINE: {1: 2.50, 2: 2.44, 3: 2.61, 4: 2.52},
    "good": {1: 2.40, 2: 2.35, 3: 2.50, 4: 2.43},
    "bad": {1: 2.60, 2: 2.55, 3: 2.70, 4: 2.62},
    "equal": {1: 2.48, 2: 2.47, 3: 2.58, 4: 2.55},
}


def test_verdicts_are_those_of_scipy() -> None:
    """Paired t-tests and intervals by scipy; Holm's method written out."""
    found = compare_arms([Measure("loss", "nats", LOSSES, "less")], ["good", "bad", "equal"], [1, 2, 3, 4])
    assert [(one.arm, one.against) for one in found] == [
        (BASELINE, BEFORE),
        ("good", BASELINE),
        ("bad", BASELINE),
        ("equal", BASELINE),
    ]
    assert [one.verdict for one in found] == ["helps", "helps", "hurts", "no difference shown"]
    values = {arm: np.array(list(of.values())) for arm, of in LOSSES.items()}
    p_values = [float(scipy.stats.ttest_rel(values[one.arm], values[one.against]).pvalue) for one in found]
    order, highest, adjusted = sorted(range(4), key=lambda number: p_values[number]), 0.0, [0.0] * 4
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (4 - rank) * p_values[number]))
        adjusted[number] = highest
    for one, p in zip(found, adjusted, strict=True):
        assert one.p == pytest.approx(p)
        differences = values[one.arm] - values[one.against]
        low, high = scipy.stats.t.interval(0.95, 3, differences.mean(), scipy.stats.sem(differences))
        assert one.interval is not None
        assert (one.interval.low, one.interval.high) == pytest.approx((low, high))


def test_more_is_better_turns_verdicts_around() -> None:
    found = compare_arms([Measure("similarity", "points", LOSSES, "more")], ["good", "bad"], [1, 2, 3, 4])
    assert [one.verdict for one in found] == ["hurts", "hurts", "helps"]


def test_what_is_not_shown_says_how_large_it_could_be() -> None:
    interval = Interval(-0.02, -0.09, 0.05, 3)
    verdict, reason = judge(interval, 0.4, "less", "nats")
    assert verdict == "no difference shown"
    assert "better by up to 0.090 or worse by up to 0.050" in reason
    assert "better by up to 0.050 or worse by up to 0.090" in judge(interval, 0.4, "more", "nats")[1]


def test_an_interval_that_excludes_zero_is_not_enough_among_many() -> None:
    verdict, reason = judge(Interval(-0.2, -0.3, -0.1, 3), 0.08, "less", "nats")
    assert verdict == "no difference shown"
    assert "Holm" in reason


def test_arms_that_are_the_same_are_told_as_such(tmp_path: Path) -> None:
    verdict, reason = judge(Interval(0.0, 0.0, 0.0, 3), 1.0, "less", "nats")
    assert (verdict, reason) == ("no difference at all", "exactly the same figure with every seed")
    equal = LOSSES | {"twin": LOSSES[BASELINE]}
    measures = [Measure("loss", "nats", equal, "less"), Measure("right", "points", equal, "neither")]
    arms, seeds = dict.fromkeys([BASELINE, "twin", "equal"], ""), [1, 2, 3, 4]
    answers = compare_arms(measures, ["twin", "equal"], seeds)
    trial = Trial([""], "", arms, seeds, 3, "", 1.0, measures, answers, [], [], [], {}, {}, {})
    assert headline(trial) == (
        "No difference is shown for equal. No difference at all for twin: the figures of plain training with every "
        "seed."
    )
    assert "no difference at all" in write_trial(trial, tmp_path / "try.html").read_text()


def test_the_page_has_no_p_of_zero_and_no_negative_zero(tmp_path: Path) -> None:
    near = {BASELINE: {1: 2.0, 2: 2.0, 3: 2.0}, BEFORE: {1: 2.0, 2: 2.0, 3: 2.0}}
    far = {1: 3.0, 2: 3.0 + 1e-4, 3: 3.0 - 1e-4}
    measures = [Measure("loss", "nats", {**near, "far": far, "twin": near[BASELINE]}, "less")]
    answers = compare_arms(measures, ["far", "twin"], [1, 2, 3])
    arms = dict.fromkeys([BASELINE, "far", "twin"], "")
    trial = Trial([""], "", arms, [1, 2, 3], 3, "", 1.0, measures, answers, [], [], [], {}, {}, {})
    page = write_trial(trial, tmp_path / "try.html").read_text()
    assert "(p &lt;0.001 by Holm" in page and "p 0.000" not in page
    assert "+0.00 [+0.00, +0.00]" in page and "−0.00" not in page


def test_the_same_difference_with_every_seed_shows_nothing() -> None:
    """One answer of 40 with each of two seeds: p would be 0, of systems that are as likely as not equally good."""
    probe = {BASELINE: {1: 80.0, 2: 82.5}, BEFORE: {1: 77.5, 2: 82.5}, "lexical": {1: 82.5, 2: 85.0}}
    answers = compare_arms([Measure("probe", "points", probe, "more")], ["lexical"], [1, 2])
    found = next(one for one in answers if one.arm == "lexical")
    assert found.verdict == "no difference shown" and "no spread" in found.reason and found.p == 1.0


def test_one_seed_shows_nothing() -> None:
    [first, second] = compare_arms([Measure("loss", "nats", LOSSES, "less")], ["good"], [1])
    assert first.verdict == second.verdict == "no difference shown"
    assert first.interval is first.p is None
    assert "--seeds 3" in second.reason


def test_an_untrained_head_is_not_compared_and_takes_no_part_in_the_correction() -> None:
    plain = Measure("loss", "nats", LOSSES, "less")
    both, one = (compare_arms([of], ["good"], [1, 2, 3, 4]) for of in (plain, replace(plain, obstacle="!")))
    assert [answer.verdict for answer in one] == ["not judged", "helps"]
    p = float(scipy.stats.ttest_rel([*LOSSES["good"].values()], [*LOSSES[BASELINE].values()]).pvalue)
    assert (one[0].p, one[1].p) == (None, pytest.approx(p))
    assert both[1].p == pytest.approx(2 * p)  # the smaller of two


def test_perplexity() -> None:
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert perplexity(1e9) < math.inf


# ---- the number of steps

COST = Cost({"baseline": 0.5, "lexical": 0.7}, {"baseline": 4.0, "lexical": 6.0}, a_run=5.0, once=10.0, spent=50.0)


def test_steps_fit_into_the_time() -> None:
    """0.9 x 600 s less 50 and 10, less 3 seeds of 4 + 6 + 2 x 5 s: 420 s for 3 seeds of 1.2 s a step."""
    steps, why = choose_steps(COST, 10, 3, 1000)
    assert steps == 116
    assert "6 runs (2 arms, 3 seeds)" in why
    assert "lexical 0.70 s" in why
    assert "9 minutes" in why
    assert COST.minutes(116, 3) <= 10 < COST.minutes(120, 3)


def test_too_little_time_is_refused_with_what_would_be_needed() -> None:
    with pytest.raises(ConfigError, match=r"--minutes 4: 26 steps a run would fit.*give --minutes 6,") as error:
        choose_steps(COST, 4, 3, 1000)
    assert "fewer --arms" in str(error.value)
    assert choose_steps(COST, 6, 3, 1000)[0] >= MIN_STEPS


def test_held_out_text_leaves_time_for_training() -> None:
    rows = choose_rows(0.08, minutes=80, num_measured=16)
    assert MIN_EVALUATED_ROWS < rows < EVALUATED_ROWS
    assert 0.99 * EVALUATION * 80 <= 16 * rows * 0.08 / 60 <= EVALUATION * 80
    assert choose_rows(0.001, minutes=80, num_measured=16) == EVALUATED_ROWS
    assert choose_rows(1.0, minutes=1, num_measured=16) == MIN_EVALUATED_ROWS


def test_the_first_steps_do_not_count_if_there_are_others(tmp_path: Path) -> None:
    """Five steps of 9, 7, 2, 1 and 3 s: the last three have 2 s each; of one or two steps all count."""
    path = tmp_path / "metrics.jsonl"
    lines = [
        json.dumps({"step": n, "kind": "train", "seconds": s}) for n, s in enumerate((9.0, 16.0, 18.0, 19.0, 22.0))
    ]
    for num, expected in ((5, (2.0, 22.0)), (2, (8.0, 16.0)), (1, (9.0, 9.0))):
        path.write_text("\n".join([*lines[:num], ""]))
        assert trial_steps._timed(path) == expected


def test_passages_are_of_documents_all_over_but_not_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class HeldOut:
        num_documents = 2_500

        def document(self, number: int) -> np.ndarray[Any, Any]:
            read.append(number)
            return np.array([number])

        def load_tokenizer(self) -> Any:
            return SimpleNamespace(unk_token_id=None, mask_token="[MASK]", decode=self.decode)

        def decode(self, ids: list[int]) -> str:
            return f"Each thousand has {ids[0] // 1_000} as its number. And"

    monkeypatch.setattr(trial_steps, "PASSAGES", 3)
    monkeypatch.setattr(trial_steps, "Corpus", SimpleNamespace(open=lambda *_, **__: HeldOut()))
    assert trial_steps._passages(Path()) == [f"Each thousand has {number} as its number." for number in range(3)]
    assert len(read) <= trial_steps.READ_FOR_PASSAGES and len({*np.diff(read).tolist()}) == 1
    assert read[0] == 0 and read[-1] > 2_490


def test_a_small_text_is_not_read_for_ever() -> None:
    steps, why = choose_steps(COST, 60, 3, 5)
    assert steps == MAX_EPOCHS * 5
    assert "20 times already" in why


# ---- the plan


def settings_of(command: str) -> Mapping[str, str]:
    words = command.split()
    return {word: words[place + 1] for place, word in enumerate(words[:-1]) if word.startswith("--")}


def test_arms_differ_in_nothing_but_what_they_are(world: tuple[Path, Path], tmp_path: Path) -> None:
    arms = ("lexical", "in-context", "in-context-drop", "regularization")
    workspace, _ = planned(asked(world, arms=arms, seeds=(1, 2, 3)), tmp_path / "try")
    runs = [name for name in workspace.plan.jobs if name.startswith("pretrain-")]
    assert len(runs) == 15
    own = {"--hard-correction", "--soft-regularization", "objective.correction.use=soft_targets", "--set"}
    for seed in "123":
        stripped = set()
        for name in (name for name in runs if name.endswith(f"s{seed}")):
            words = workspace.command(name).replace(str(workspace.folder(name)), "").split()
            assert settings_of(workspace.command(name))["--steps"] == "4"
            kept = [word for place, word in enumerate(words) if not own & {word, words[place - 1]}]
            stripped.add(" ".join(kept))
        assert len(stripped) == 1


def test_soft_targets_take_what_is_listed_and_dropping_is_stricter(world: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, _ = planned(asked(world, arms=("in-context", "in-context-drop")), tmp_path / "try")
    assert 'prototypes.safetensors"@0.5 & fits' in workspace.command("annotate")
    spread, dropped, held_out = (
        workspace.command(name) for name in ("pretrain-in-context-s1", "pretrain-in-context-drop-s1", "held-out-before")
    )
    assert "notes\"'" in spread and "use=soft_targets" in spread
    assert 'notes"@0.62' in dropped and "use=soft_targets" not in dropped
    assert 'notes"@0.62' in held_out


def test_what_is_measured_first_is_named_in_the_plan(world: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, why = planned(asked(world, settings=SMALL), tmp_path / "try")
    assert "measured first" in why
    assert settings_of(workspace.command("pretrain-lexical-s2"))["--steps"] == "STEPS"
    assert settings_of(workspace.command("held-out-lexical-s2"))["--rows"] == "ROWS"


# ---- a whole trial


def test_a_trial_is_interrupted_and_goes_on_with_the_same_plan(world: tuple[Path, Path], tmp_path: Path) -> None:
    own, out = asked(world, arms=("in-context",)), tmp_path / "try"
    said: list[str] = []

    def say(message: str) -> None:
        said.append(message)
        if message.endswith("pretrain-in-context-s1"):
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="run the same command again to continue"):
        run_trial(own, out, say)
    finished = {path: path.stat().st_mtime_ns for path in out.rglob(FINISHED)}
    assert finished
    chosen = (out / "steps.json").read_bytes()
    trial = run_trial(own, out)
    assert (out / "steps.json").read_bytes() == chosen
    assert {path: path.stat().st_mtime_ns for path in finished} == finished

    steps = {
        path.parent.parent.parent.name: max(record["step"] for record in read_metrics(path))
        for path in out.rglob("metrics.jsonl")
    }
    assert len(steps) == 4
    assert set(steps.values()) == {4} == {trial.steps}
    assert load_trial(out) == trial
    losses, *_ = trial.measures
    assert set(losses.by_arm) == {BEFORE, BASELINE, "in-context"}
    assert all(set(of) == {1, 2} for of in losses.by_arm.values())
    assert len({*losses.by_arm[BASELINE].values()}) == 2
    evaluated = [json.loads(path.read_text()) for path in out.glob("jobs/held-out-*/output.txt")]
    assert len({(one["corpus"], one["counts"]["masked"]) for one in evaluated}) == 1
    recorded = {one["checkpoint"].split("/jobs/")[-1].split("-s1-")[0]: one["readings"] for one in evaluated}
    assert losses.by_arm["in-context"][1] == recorded["pretrain-in-context"]["gold_loss"]
    assert [one.verdict for one in trial.answers if one.measure == losses.name]
    page = (out / "try.html").read_text()
    assert headline(trial) in page

    before = (out / "try.json").read_bytes()
    run_trial(own, out, said.append)
    assert (out / "try.json").read_bytes() == before
    with pytest.raises(ConfigError, match=r"holds results of other settings \(arms: in-context -> lexical\)"):
        run_trial(asked(world), out)
    for settings in ((*SMALL, "train.steps=5"), SMALL):  # the time was not what they were chosen by
        with pytest.raises(ConfigError, match="holds a trial of 4 steps a run: give these"):
            run_trial(asked(world, arms=("in-context",), settings=settings), out)


def test_the_time_is_measured_and_kept(
    world: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are chosen once; another time is another plan."""
    monkeypatch.setattr(trial_steps, "MAX_EPOCHS", 1)
    monkeypatch.setattr(trial_steps, "MIN_STEPS", 1)
    own, out = asked(world, settings=(*SMALL, "train.batch_size=128"), minutes=30, seeds=(1,)), tmp_path / "try"
    trial = run_trial(own, out)
    assert 1 < trial.steps < 20
    assert "baseline" in trial.why_steps
    assert "read the text 1 times already" in trial.why_steps
    assert "Not known" in headline(trial)
    assert len(list(out.glob("jobs/held-out-before-*"))) == 1, "what was timed is not measured again"
    with pytest.raises(ConfigError, match="chosen for --minutes 30"):
        run_trial(asked(world, settings=(*SMALL, "train.batch_size=128"), minutes=31, seeds=(1,)), out)
    (out / "steps.json").unlink()
    monkeypatch.setattr(trial_steps, "MIN_STEPS", 10**9)
    with pytest.raises(ConfigError, match=r"--minutes 30: .* steps a run would fit"):
        run_trial(own, out)


def test_measuring_ends_with_the_time(world: tuple[Path, Path], tmp_path: Path) -> None:
    """A minute's trial whose corpus alone took two stops before the next job, and goes on with more time."""
    settings = (*SMALL, "train.batch_size=128")
    own, out = asked(world, settings=settings, minutes=1, seeds=(1,)), tmp_path / "try"
    said: list[str] = []

    def stop_after_corpus(message: str) -> None:
        said.append(message)
        if "time-baseline" in message:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run_trial(own, out, stop_after_corpus)
    (record,) = out.glob(f"jobs/corpus-*/{FINISHED}")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"seconds": 120.0}))
    with pytest.raises(ConfigError, match=r"--minutes 1: 2\.0 minutes went into .*time-baseline is still to come"):
        run_trial(own, out)
    assert not list(out.glob(f"jobs/time-*/{FINISHED}"))


# ---- bad input


def test_bad_input_is_refused_before_anything_runs(
    world: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, checkpoint = map(str, world)
    with pytest.raises(CorpusError, match=r"nowhere\.txt"):
        ask(["nowhere.txt"], checkpoint)
    with pytest.raises(ConfigError, match=r"unknown arm 'lexcal'.*lexical"):
        ask([text], checkpoint, arms=["lexcal"])
    with pytest.raises(ModelError, match=r"no checkpoint at './nowhere'"):
        ask([text], "./nowhere")
    with pytest.raises(ConfigError, match="--minutes 0: must be above 0"):
        ask([text], checkpoint, minutes=0)
    with pytest.raises(ConfigError, match=r"--set train\.seed=3: not in a trial: --seeds"):
        ask([text], checkpoint, settings=["train.seed=3"])
    for name in ("train.max_minutes", "finetune.train.max_minutes", "finetune.train.seed"):
        with pytest.raises(ConfigError, match=rf"--set {name}=3: not in a trial"):
            ask([text], checkpoint, settings=[f"{name}=3"])
    with pytest.raises(ConfigError, match=r"--set steps=0: must be at least 1; leave it out to have --minutes choose"):
        ask([text], checkpoint, settings=["steps=0"])
    with pytest.raises(ConfigError, match="learning_rat"):
        ask([text], checkpoint, settings=["learning_rat=3"])
    with pytest.raises(ConfigError, match="has no STS-B/"):
        ask([text], checkpoint, data=str(tmp_path))
    with pytest.raises(ConfigError, match="a probe needs labelled data"):
        ask([text], checkpoint, task="classification")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("!")
    with pytest.raises(ConfigError, match=r"holds something else \('thesis.tex'\)"):
        run_trial(asked(world), tmp_path / "full")


def write_reviews(path: Path) -> Path:
    path.write_text("text,label\n" + "\n".join(f"review {number},{number % 2}" for number in range(40)) + "\n")
    return path


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"task": "clasification"}, "did you mean 'classification'"),
        ({"columns": ["--label-column", "verdict"]}, "verdict"),
        ({"settings": [*SMALL, "finetune.adversarial=smart", "finetune.train.compile=true"]}, "train.compile=false"),
        ({"settings": [*SMALL, "finetune.task.doc_stride=9"]}, "task.doc_stride does nothing unless"),
    ],
)
def test_a_probe_that_would_fail_in_the_end_is_refused_at_the_beginning(
    changed: dict[str, Any], named: str, world: tuple[Path, Path], tmp_path: Path
) -> None:
    given = {"data": str(write_reviews(tmp_path / "reviews.csv")), "task": "classification"}
    assert asked(world, **given, columns=["--label-column", "label"]).probe
    with pytest.raises((ConfigError, TaskError), match=named):
        asked(world, **{**given, **changed})


def test_a_text_is_mended_in_its_folder_and_a_probe_is_changed_even_later(
    world: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "try"
    text.write_text("\n\n".join(world[0].read_text().split("\n\n")[:30]))
    with pytest.raises(ConfigError, match="too little text"):
        run_trial(asked((text, world[1])), out)
    text.write_text(world[0].read_text())

    def stop(message: str) -> None:
        if "pretrain-" in message:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run_trial(asked((text, world[1])), out, stop)
    probe = {"data": str(write_reviews(tmp_path / "reviews.csv")), "task": "classification"}
    with pytest.raises(Interrupted):
        run_trial(asked((text, world[1]), **probe), out, stop)
    text.write_text(world[0].read_text() + "\n\nmore\n")
    with pytest.raises(ConfigError, match="other settings \\(text_digest"):
        run_trial(asked((text, world[1])), out, stop)


def test_too_little_text_says_how_much_there_is_and_is_needed(world: tuple[Path, Path], tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("\n\n".join(world[0].read_text().split("\n\n")[:30]))
    with pytest.raises(
        ConfigError, match=r"too little text: [\d,]+ tokens to train on and \d+ held out, and at least 4,000 and 500"
    ):
        run_trial(asked((short, world[1])), tmp_path / "try")


# ---- the page


def test_hostile_text_is_inert(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    measures = [Measure("loss", "nats", LOSSES, "less")]
    trial = Trial(
        text=[hostile], checkpoint=hostile, arms={BASELINE: "plain", hostile: hostile}, seeds=[1, 2], steps=3,
        why_steps=hostile, minutes=1.0, measures=[replace(measures[0], by_arm={**LOSSES, hostile: LOSSES["good"]})],
        answers=compare_arms(measures, ["good"], [1, 2]),
        examples=[Shown(hostile, hostile, "\x1b[31m", {BASELINE: [(hostile, 0.5, True)]})], notes=[hostile],
        warnings=[hostile], commands={hostile: hostile}, data={hostile: hostile}, versions={"v": hostile},
    )  # fmt: skip
    page = write_trial(trial, tmp_path / "try.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert trial_tables(trial)[0].rows[0][0] == "loss"
    save_trial(trial, tmp_path)
    assert load_trial(tmp_path) == trial
    (tmp_path / "try.json").write_text('{"schema": 2}')
    with pytest.raises(TaskError, match="'schema' is 2"):
        load_trial(tmp_path)
