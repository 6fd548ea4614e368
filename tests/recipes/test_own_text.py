"""A trial on one's own text: how steps are chosen, and a whole one with a tiny checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trueneg.corpus.build import build_corpus
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.errors import ConfigError, CorpusError, Interrupted, ModelError, TaskError
from trueneg.evaluation.results.trial import (
    BASELINE,
    BEFORE,
    load_trial,
)
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
from trueneg.reporting.trial import headline
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
