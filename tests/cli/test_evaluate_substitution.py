"""``trueneg evaluate substitution``: from a run to a table, a comparison and a page."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from command_line import World, contents, fails, finetuned, works
from transformers import AutoModel

from trueneg.evaluation.results.summary import read_runs
from trueneg.reporting.provenance import provenance_table
from trueneg.reporting.sources import read_sources

TINY = Path(__file__).parents[1] / "data" / "swords" / "tiny.json"
ASKED = ("--data", TINY, "--resamples", 20)
METRICS = [
    *(
        f"{figure}_{listed}_{level}"
        for figure in ("f10", "p1")
        for listed in ("lenient", "strict")
        for level in ("acceptable", "conceivable")
    ),
    "gap",
]


def test_a_run_keeps_its_results(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(world.run, run)
    said = works("evaluate", run, "--task", "substitution", *ASKED, "--target", "masked", "--target", "visible")
    assert "F10 acceptable" in said.out and "strict" in said.out and "GAP" in said.out
    assert "5 targets in" in said.err and "so that F10 is at most" in said.err
    (folder,) = (run / "substitution").iterdir()
    assert set(contents(folder)) == {
        f"{name}.{end}" for name in ("tiny", "tiny-visible") for end in ("json", "predictions.jsonl")
    }
    result = json.loads((folder / "tiny.json").read_text())
    assert list(result["metrics"]) == METRICS
    assert (result["num_examples"], result["config"]["substitution"]["target"]) == (5, "masked")
    assert result["step"] == 6
    assert result["counts"]["acceptable"] == 3 and result["counts"]["acceptable_phrases"] == 0
    works("report", run, "--out", tmp_path / "page.html")
    assert "f10_lenient_acceptable" in (tmp_path / "page.html").read_text()


def test_results_are_compared(world: World, tmp_path: Path) -> None:
    other = tmp_path / "hf"
    shutil.copytree(world.run / "hf" / "generator", other)
    out = tmp_path / "out"
    said = works("evaluate", "substitution", world.run, other, *ASKED, "--out", out, "--json")
    first, second = said.data["results"]
    assert first["metrics"] == second["metrics"]  # the run means its generator
    assert set(first["intervals"]) == set(METRICS)
    assert set(first["ceilings"]) == {"acceptable", "conceivable"}
    folders = sorted(path for path in out.iterdir())
    compared = works("compare", *folders, "--metric", "all", "--resamples", 20, "--json").data
    assert {row["metric"] for row in compared["rows"]} == set(METRICS)
    assert all(row["difference"]["interval"]["estimate"] == 0 for row in compared["rows"])
    revised = tmp_path / "revised" / TINY.name
    revised.parent.mkdir()
    revised.write_text(TINY.read_text().replace("grew quickly.", "grew quickly!"))
    works("evaluate", "substitution", other, "--data", revised, "--resamples", 2, "--out", tmp_path / "revision")
    assert "are of other versions of substitution, tiny" in fails("compare", folders[0], tmp_path / "revision")


def test_what_is_no_run_keeps_nothing_without_out(world: World, tmp_path: Path) -> None:
    other = tmp_path / "hf"
    shutil.copytree(world.run / "hf" / "generator", other)
    before = contents(other)
    assert works("evaluate", "substitution", other, *ASKED, "--json").data["written"] == []
    assert contents(other) == before


def test_python_and_the_command_line_measure_the_same(world: World) -> None:
    from trueneg.evaluation.masked_lm.substitutes import evaluate_substitution

    (told,) = works(
        "evaluate", "substitution", world.run, *ASKED, "--limit", 3, "--words", 7, "--out", "once", "--json"
    ).data["results"]
    (found,) = evaluate_substitution([str(world.run)], TINY, num_words=7, limit=3, resamples=20)
    assert (found.result.metrics, found.result.num_examples) == (told["metrics"], 3)


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--target", "visable"], "unknown target 'visable': did you mean 'visible'?"),
        (["--target", "masked", "--target", "masked"], "'masked' is named twice"),
        (["--window", "4096"], "--window 4096: "),
        (["--window", "2"], "--window 2 has no room for 1 sentences"),
        (["--wordnet", "nowhere"], "--wordnet nowhere: no such folder"),
        (["--device", "tpux"], "--device must be cpu, cuda, cuda:N, xpu, xpu:N or mps, got tpux"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(world: World, arguments: list[str], complaint: str, tmp_path: Path) -> None:
    assert complaint in fails("evaluate", "substitution", world.run, *ASKED, "--out", tmp_path / "out", *arguments)
    assert contents(tmp_path) == {}


def test_a_report_names_the_command_that_makes_it_again(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(world.run, run)
    works("evaluate", "substitution", run, *ASKED, "--target", "visible", "--words", 9, "--limit", 3)
    rows = provenance_table(read_sources([run]), {"run": read_runs(run)}).rows
    (command,) = (shlex.split(str(row[-1])) for row in rows if row[1] == "substitution")
    (result,) = (run / "substitution").rglob("tiny-visible.json")
    before = json.loads(result.read_text())
    works(*(str(TINY) if word == "DATA" else word for word in command[1:]))
    assert {**json.loads(result.read_text()), "seconds": before["seconds"]} == before


def test_one_target_has_no_interval(world: World, tmp_path: Path) -> None:
    asked = ("evaluate", "substitution", world.run, *ASKED, "--limit", 1, "--out", tmp_path, "--json")
    said = works(*asked)
    assert "NaN" not in said.out and said.data["results"][0]["intervals"]["gap"] == [None, None]


def test_data_and_models_that_cannot_be_used(world: World, tmp_path: Path) -> None:
    data = json.loads(TINY.read_text())
    unlabelled = tmp_path / "test.json"
    unlabelled.write_text(json.dumps({key: value for key, value in data.items() if key != "substitute_labels"}))
    command = ("evaluate", "substitution", world.run, "--out", tmp_path / "out", "--data")
    assert "it has no 'substitute_labels'" in fails(*command, unlabelled)
    seed = finetuned(world, tmp_path) / "seed-1"
    said = fails("evaluate", "substitution", seed, *ASKED)
    assert f"'{seed}' is a fine-tuned model, which writes no words" in said
    assert "no such file or folder" in fails(*command, tmp_path / "nowhere.json")
    (tmp_path / "file").write_text("")
    assert "is a file: name a folder" in fails(*command, TINY, "--out", tmp_path / "file")
    generator = world.run / "hf" / "generator"
    headless, slow, other = (shutil.copytree(generator, tmp_path / name) for name in ("headless", "slow", "other"))
    AutoModel.from_pretrained(generator).save_pretrained(headless)
    assert "has no masked-LM head, so it predicts nothing" in fails("evaluate", "substitution", headless, *ASKED)
    for path in slow.glob("tokenizer*"):
        path.unlink()
    assert "knows special tokens alone" in fails("evaluate", "substitution", slow, *ASKED)
    for detector in ("contextual", "teacher"):
        assert "knows special tokens alone" in fails(
            "inspect", world.run, "A text.", "--detector", f"{detector}:{slow}"
        )
    assert "has no masked-LM head" in fails("inspect", world.run, "A text.", "--detector", f"teacher:{headless}")
    training = ("pretrain", "--from", generator, "--objective", "mlm", "--corpus", world.corpus, "--length", 16)
    for option in ("smoothing.source=teacher:", "masking.hard_for="):
        said = fails(*training, "--out", tmp_path / "run", "--set", f"objective.{option}{headless}")
        assert "has no masked-LM head, so it predicts nothing" in said
    works("tokenizer", "train", world.text, "--vocab-size", 300, "--out", tmp_path / "tok", "-q")
    shutil.copy(tmp_path / "tok" / "tokenizer.json", other)
    assert "140 entries and" in fails("evaluate", "substitution", other, *ASKED)
