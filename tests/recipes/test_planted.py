from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trueneg.cli.main import app
from trueneg.errors import BusyError, ConfigError, Interrupted, TruenegDeprecationWarning
from trueneg.files.lock import locked
from trueneg.recipes import planted
from trueneg.recipes.planted import GRID, GROUPS, SCALES, parse_arms, plan, reproduce, reproduce_seed, scripted
from trueneg.recipes.planted_arms import ARMS, Arm, ArmResult, PlantedConfig
from trueneg.recipes.scripts import slurm_script

SMALL = ("num_words=12", "steps=2", "eval_rows=8", "length=20")
SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


def made_up(arm: Arm, seed: int, config: PlantedConfig, corpus: Path) -> ArmResult:
    """What a run might come to: ``marginal`` gains 0.1 nats and a little that differs between seeds."""
    gain = 0.1 + 0.01 * seed if arm.use == "marginal" else 0.0
    metrics = {"nll": 5 + seed - gain, "accuracy": 0.1, "planted_nll": 4.0, "planted_accuracy": 0.2}
    extra = {"auc": 0.7, "masked_auc": 0.6} if arm.is_electra else {}
    return ArmResult(str(arm), seed, metrics | extra, {"precision": 0.5} if arm.use == "marginal" else {}, 0.3, 1.0)


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Runs take no time; which were done is noted."""
    done: list[tuple[str, int]] = []

    def run(arm: Arm, seed: int, config: PlantedConfig, corpus: Path) -> ArmResult:
        done.append((str(arm), seed))
        return made_up(arm, seed, config, corpus)

    monkeypatch.setattr(planted, "run_arm", run)
    return done


def test_groups_and_grid() -> None:
    assert [str(arm) for arm in parse_arms(["all"])] == list(ARMS)
    assert len(parse_arms(["grid"])) == len(GRID) == 45
    assert [str(arm) for arm in parse_arms(["marginal", "baseline", "marginal@1/1"])] == ["marginal", "baseline"]
    assert set(GROUPS["mlm"]) | set(GROUPS["rtd"]) == set(ARMS)
    assert not set(GROUPS) & set(ARMS), "a name means an arm or a group"
    assert SCALES["mini"].steps == 1200


def test_runs_are_done_seed_by_seed_and_once(
    fake_runs: list[tuple[str, int]], ring_corpus: Path, tmp_path: Path
) -> None:
    reproduce(tmp_path, arms=["baseline", "marginal"], seeds=2, corpus=ring_corpus)
    assert fake_runs == [("baseline", 1), ("marginal", 1), ("baseline", 2), ("marginal", 2)]
    results, _ = reproduce(tmp_path, arms=["baseline", "marginal@0.5/1", "relabel"], seeds=3, corpus=ring_corpus)
    assert fake_runs[4:] == [
        *(("marginal@0.5/1", 1), ("relabel", 1), ("marginal@0.5/1", 2), ("relabel", 2)),
        *(("baseline", 3), ("marginal@0.5/1", 3), ("relabel", 3)),
    ]
    assert [arm["arm"] for arm in results["arms"]] == ["baseline", "marginal", "marginal@0.5/1", "relabel"]
    assert [len(arm["seeds"]) for arm in results["arms"]] == [3, 2, 3, 3]


def test_a_dry_run_lists_what_is_left(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    assert [
        (run.arm, run.seed, run.is_done, run.minutes) for run in plan(tmp_path / "new", arms=["drop"], seeds=2)
    ] == [*(("drop", 1, False, 2.0), ("drop", 2, False, 2.0))]
    assert not (tmp_path / "new").exists()
    reproduce(tmp_path, arms=["baseline"], seeds=1, corpus=ring_corpus, settings=SMALL)
    command = ["reproduce", "planted", "--dry-run", "--arms", "baseline,drop", "--seeds", "2", "--out", str(tmp_path)]
    said = CliRunner().invoke(app, [*command, "--json"])
    found = json.loads(said.stdout)
    runs = [("baseline", 1, True), ("drop", 1, False), ("baseline", 2, False), ("drop", 2, False)]
    assert [(run["arm"], run["seed"], run["is_done"]) for run in found["runs"]] == runs
    assert found["minutes_left"] == 0.0 and fake_runs == [("baseline", 1)]  # a made-up run takes a second
    assert "4 runs, 3 left" in CliRunner().invoke(app, command).output


def test_differences_are_paired_by_seed(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    results, table = reproduce(tmp_path, arms=["baseline", "marginal", "electra"], seeds=3, corpus=ring_corpus)
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert table == (tmp_path / "table.md").read_text()
    baseline, gained, electra = results["arms"]
    difference = gained["difference"]["nll"]
    assert difference["estimate"] == pytest.approx(-0.12)
    # Seeds differ by 1 nat, gains by 0.01: the interval is that of the gains.
    assert difference["high"] - difference["low"] == pytest.approx(2 * 4.302653 * 0.01 / 3**0.5, rel=1e-5)
    assert baseline["difference"] == electra["difference"] == {}
    assert gained["mean"]["nll"] == pytest.approx(7 - 0.12)
    assert results["settings"]["config"]["steps"] == 1200
    assert {"trueneg", "torch", "transformers"} == results["versions"].keys()
    assert "| marginal | 3 | 6.880 (-0.120 [-0.145, -0.095]) | 0.100 (+0.000 [+0.000, +0.000]) |" in table
    assert "| 0.50 |  |" in table
    assert "| electra | 3 | 0.700 | 0.600 |" in table


def test_seeds_of_one_arm_alone_are_said(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    both = ["baseline", "marginal"]
    assert "not run with the same seeds" not in reproduce(tmp_path, arms=both, seeds=2, corpus=ring_corpus)[1]
    results, table = reproduce(tmp_path, arms=["marginal"], seeds=4, corpus=ring_corpus)
    baseline, gained = results["arms"]
    # The means are 6.5 and 7.375, and yet marginal gains: that is over the seeds of both.
    assert (baseline["mean"]["nll"], gained["mean"]["nll"]) == pytest.approx((6.5, 7.375))
    assert "| marginal | 4 | 7.375 (-0.115 [" in table
    means = "nll 6.385 (marginal), nll 6.500 (baseline)"
    said = "marginal and baseline were not run with the same seeds: differences are over seeds 1, 2 alone, with means "
    assert said + means in table


def test_one_seed_has_no_intervals(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    results, table = reproduce(tmp_path, arms=["baseline", "marginal"], seeds=1, corpus=ring_corpus)
    assert results["arms"][1]["difference"] == {}
    assert "[" not in table.partition("\n\n")[2]


def test_results_of_other_settings_are_not_mixed(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    reproduce(tmp_path, arms=["baseline"], seeds=1, corpus=ring_corpus)
    with pytest.raises(ConfigError, match=r"other settings \(config.steps: 1200 -> 9\): give another --out"):
        reproduce(tmp_path, arms=["marginal"], seeds=1, corpus=ring_corpus, settings=["steps=9"])
    assert len(fake_runs) == 1


def test_a_torn_result_is_named(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    reproduce(tmp_path, arms=["baseline"], seeds=1, corpus=ring_corpus)
    file = tmp_path / "runs" / "baseline.seed1.json"
    file.write_text(file.read_text()[:50])
    with pytest.raises(ConfigError, match=r"baseline.seed1.json' is damaged: .*delete it"):
        reproduce(tmp_path, arms=["baseline"], seeds=1, corpus=ring_corpus)


def test_an_interruption_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch, ring_corpus: Path, tmp_path: Path) -> None:
    def interrupted(arm: Arm, seed: int, config: PlantedConfig, corpus: Path) -> ArmResult:
        if arm.use == "marginal":
            raise KeyboardInterrupt
        return made_up(arm, seed, config, corpus)

    monkeypatch.setattr(planted, "run_arm", interrupted)
    with pytest.raises(Interrupted, match="run the same command again to continue"):
        reproduce(tmp_path, arms=["baseline", "marginal"], seeds=1, corpus=ring_corpus)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["baseline.seed1.json"]


def test_runs_of_an_arm_under_its_old_name_are_taken_for_its_own(
    fake_runs: list[tuple[str, int]], ring_corpus: Path, tmp_path: Path
) -> None:
    reproduce(tmp_path, arms=["baseline", "marginal"], seeds=1, corpus=ring_corpus)
    new = tmp_path / "runs" / "marginal.seed1.json"
    old = new.with_name("set.seed1.json")
    old.write_text(new.read_text().replace('"marginal"', '"set"'))
    new.unlink()
    fake_runs.clear()
    with pytest.warns(TruenegDeprecationWarning, match="arm=set is now called marginal"):
        results, _ = reproduce(tmp_path, arms=["baseline", "set"], seeds=1, corpus=ring_corpus)
    assert fake_runs == [] and [arm["arm"] for arm in results["arms"]] == ["baseline", "marginal"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"scale": "min"}, "did you mean 'mini'"),
        ({"arms": ["drp"]}, "did you mean 'drop'"),
        ({"seeds": 0}, "at least 1"),
        ({"settings": ["stesp=3"]}, "steps"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    options: dict[str, Any], message: str, ring_corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        reproduce(tmp_path / "out", corpus=ring_corpus, **options)
    with pytest.raises(ConfigError, match=message):
        plan(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_corpus_without_held_out_text_is_refused(ring_corpus: Path, tmp_path: Path) -> None:
    from trueneg.corpus.build import build_corpus
    from trueneg.errors import CorpusError

    build_corpus([str(ring_corpus.parent / "text.txt")], ring_corpus / "tokenizer", tmp_path / "corpus")
    with pytest.raises(CorpusError, match="--valid"):
        reproduce(tmp_path / "out", scale="tiny", arms=["baseline"], corpus=tmp_path / "corpus", settings=SMALL)


def test_a_script_does_the_same_runs_each_by_a_command_of_its_own(
    fake_runs: list[tuple[str, int]], ring_corpus: Path, tmp_path: Path
) -> None:
    out, given = tmp_path / "it's here", ["--arms", "baseline,marginal@0.5/1", "--seeds", "2", *SETTINGS]
    command = ["reproduce", "planted", *given, "--corpus", str(ring_corpus), "--out", str(out)]
    reproduce(out, arms=["baseline"], seeds=1, corpus=ring_corpus, settings=SMALL)
    fake_runs.clear()
    script = CliRunner().invoke(app, [*command, "--dry-run", "--format", "shell"]).stdout
    lines = [shlex.split(line) for line in script.splitlines() if line.startswith("trueneg ")]
    assert [(words[words.index("--arms") + 1], words[words.index("--seed") + 1]) for words in lines] == [
        *(("marginal@0.5/1", "1"), ("baseline", "2"), ("marginal@0.5/1", "2"))
    ]
    for words in [*lines, lines[0]]:
        said = CliRunner().invoke(app, words[1:])
        assert said.exit_code == 0, said.output
    assert len(fake_runs) == 3, "what is done is not done again"
    assert (
        "trueneg" not in CliRunner().invoke(app, [*command, "--dry-run", "--format", "shell"]).stdout.split("\n", 3)[3]
    )
    results, _ = reproduce(out, arms=["baseline"], seeds=2, corpus=ring_corpus, settings=SMALL)
    assert [len(arm["seeds"]) for arm in results["arms"]] == [2, 2] and len(fake_runs) == 3


def test_runs_of_a_slurm_script_wait_for_the_first_which_makes_the_corpus(tmp_path: Path) -> None:
    jobs = scripted(tmp_path / "out", arms=["baseline", "drop"], seeds=2)
    assert [list(job.needs) for job in jobs] == [[], *[["baseline-s1"]] * 3]
    assert slurm_script(jobs).count("--dependency=afterok:$job0 ") == 3


def test_one_run_is_not_done_by_two_processes(fake_runs: list[Any], ring_corpus: Path, tmp_path: Path) -> None:
    reproduce_seed(tmp_path, 1, arms=["baseline"], corpus=ring_corpus)
    (tmp_path / "runs" / "drop.seed1.json").unlink(missing_ok=True)
    with locked(tmp_path / "runs", "test", ".drop.seed1.json.lock"):
        assert reproduce_seed(tmp_path, 2, arms=["drop"], corpus=ring_corpus)[0].seed == 2
        with pytest.raises(BusyError):
            reproduce_seed(tmp_path, 1, arms=["drop"], corpus=ring_corpus)
    assert fake_runs == [("baseline", 1), ("drop", 2)]


@pytest.mark.slow
def test_the_verb_on_two_workers_gives_the_same_numbers(ring_corpus: Path, tmp_path: Path) -> None:
    options = ["planted", "--scale", "tiny", "--seeds", "1", "--arms", "marginal, baseline", *SETTINGS]
    found = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        arguments = [*options, "--corpus", str(ring_corpus), "--out", str(out), "--workers", str(workers), "--json"]
        said = CliRunner().invoke(app, ["reproduce", *arguments])
        assert said.exit_code == 0, said.output
        found.append({arm["arm"]: arm["seeds"] for arm in json.loads(said.stdout)["arms"]})
        assert "2 of 2" in said.stderr
    assert found[0] == found[1]
    assert found[0].keys() == {"baseline", "marginal"}
