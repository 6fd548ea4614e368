"""Sweeps: what is selected, on which examples, what lies where, and what a killed sweep does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from test_finetuning import checkpoint, data, write_table
from tiny_runs import PowerCut, before_step, cut_power
from transformers import AutoModelForSequenceClassification

from trueneg.config.codec import load_config
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.errors import CheckpointError, ConfigError, TaskError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.store import Result, find_results, load_predictions, load_result, save_result
from trueneg.runs.finetuned_models import evaluate_finetuned
from trueneg.runs.finetuning_tasks import configure_tasks, finetune_tasks
from trueneg.runs.sweeps import Swept, read_selection, read_sweep, sweep
from trueneg.tasks.glue import GlueTask
from trueneg.tokenizer import load_tokenizer

__all__ = ["checkpoint", "data"]  # fixtures

Sweep = Callable[..., Swept]
RATES = "optimizer.learning_rate=1e-6,1e-2"


@pytest.fixture
def run(checkpoint: Path, data: Path) -> Sweep:
    small = [f"task.data={data}", "train.batch_size=16", "task.length=48", "train.device=cpu", "epochs=4"]

    def sweep_into(out: Path, *sweeps: str, **options: object) -> Swept:
        settings = [*small, *options.pop("settings", ())]  # type: ignore[misc]
        options = {"seeds": (1, 2), "resume": True, "quiet": True, **options}
        seeds = options.pop("seeds")
        return sweep(str(checkpoint), "glue/sst2", sweeps or (RATES,), out, seeds, settings=settings, **options)  # type: ignore[arg-type]

    return sweep_into


def held_out_accuracy(folder: Path, seed: int, trained_on: set[str], data: Path) -> float:
    """By transformers, on the training examples that are not among those trained on."""
    examples = [one for one in GlueTask("sst2", data).read("train").examples if one.key not in trained_on]
    model = AutoModelForSequenceClassification.from_pretrained(folder / f"seed-{seed}" / "hf").eval()
    tokenizer = load_tokenizer(folder / f"seed-{seed}" / "hf")
    assert len(examples) == 20
    with torch.no_grad():
        batch = tokenizer([e.text for e in examples], return_tensors="pt", padding=True, truncation=True, max_length=48)
        return float(np.mean((model(**batch).logits.argmax(1) == torch.tensor([e.label for e in examples])).numpy()))


def test_the_best_on_held_out_examples_is_found_where_results_are(
    run: Sweep, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_on: list[set[str]] = []
    encode = GlueTask.encode

    def watched(self: GlueTask, examples: list, *rest: object, is_training: bool) -> object:  # type: ignore[type-arg]
        if is_training:
            trained_on.append({example.key for example in examples})
        return encode(self, examples, *rest, is_training=is_training)  # type: ignore[arg-type]

    monkeypatch.setattr(GlueTask, "encode", watched)
    done = run(tmp_path)
    (selected,) = done.selections
    assert len(trained_on) == 4 and trained_on[:2] == trained_on[2:], "the same part for all combinations"
    low, high = selected.combinations
    assert (low.settings, high.settings) == ({"optimizer.learning_rate": 1e-6}, {"optimizer.learning_rate": 1e-2})
    for one in (low, high):
        figures = {s: held_out_accuracy(tmp_path / one.folder, s, trained_on[s - 1], data) for s in (1, 2)}
        assert one.by_seed == pytest.approx(figures)
        assert one.mean == pytest.approx(np.mean(list(figures.values())))
    assert high.mean > low.mean and selected.selected == 1
    assert selected == read_selection(tmp_path / "sst2")
    found = list(find_results(tmp_path))
    assert found == [tmp_path / "sst2" / f"seed-{seed}" / "dev.json" for seed in (1, 2)]
    for path, ended in zip(found, done.runs, strict=True):
        kept = tmp_path / high.folder / path.parent.name / "dev.json"
        result = load_result(path)
        assert result == ended.results["dev"]
        assert result.metrics == load_result(kept).metrics == high.results["dev"][result.seed]
        assert load_predictions(path) == load_predictions(kept)
        assert result.selection == (
            "last; optimizer.learning_rate: best of 2 by accuracy on 10% of the training examples, held out"
        )
        assert load_config(FinetuneConfig, path.parent / "config.json").optimizer.learning_rate == 1e-2
        again = evaluate_finetuned(path.parent)[0]
        assert (again.selection, again.metrics) == (result.selection, result.metrics)
    of_each = compare(tmp_path / low.folder, tmp_path / high.folder, resamples=50)
    assert of_each.rows[0].right == {seed: high.results["dev"][seed]["accuracy"] for seed in (1, 2)}


def test_dev_is_an_option_that_every_comparison_names(run: Sweep, tmp_path: Path) -> None:
    (selected,) = run(tmp_path / "a", select_on="dev").selections
    assert (selected.on, selected.rule) == ("dev", "highest mean of accuracy over seeds on dev")
    assert all(
        one.by_seed == {s: m["accuracy"] for s, m in one.results["dev"].items()} for one in selected.combinations
    )
    result = load_result(tmp_path / "a" / "sst2" / "seed-1" / "dev.json")
    assert result.train["num_examples"] == 200, "nothing is held out"
    run(tmp_path / "b")
    (row,) = compare(tmp_path / "b", tmp_path / "a", resamples=50).rows
    assert (
        "of a, optimizer.learning_rate is the best of 2 by accuracy on dev, the examples of this comparison: too high"
        in row.notes
    )


def test_a_tie_is_told(run: Sweep, tmp_path: Path) -> None:
    rates = "optimizer.learning_rate=1e-12,1e-11"  # which change nothing
    (selected,) = run(tmp_path, rates, seeds=(1,), select_on="dev", settings=["epochs=1"]).selections
    assert selected.combinations[0].mean == selected.combinations[1].mean and selected.selected == 0
    assert selected.rule.endswith("; 2 combinations share it, of which this is the first")


def test_a_killed_sweep_goes_on_and_a_finished_one_does_nothing(
    run: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        before_step(patch, 20, cut_power)
        with pytest.raises(PowerCut):
            run(tmp_path / "cut", settings=["train.save_every=7"])
    assert not any(find_results(tmp_path / "cut")), "nothing is selected yet"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("trueneg.runs.sweeps._link", interrupted)
        run(tmp_path / "cut", settings=["train.save_every=7"])
    done = run(tmp_path / "cut", settings=["train.save_every=7"])
    whole = run(tmp_path / "whole")
    assert done.selections == whole.selections
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").rglob("*.safetensors")}
    before_step(monkeypatch, 0, cut_power)
    assert run(tmp_path / "cut", settings=["train.save_every=7"]).selections == whole.selections
    assert before == {path: path.stat().st_mtime_ns for path in before}


def interrupted(source: Path, target: Path) -> None:
    raise KeyboardInterrupt


def test_what_was_measured_of_the_selected_stays_and_of_others_goes(run: Sweep, tmp_path: Path) -> None:
    run(tmp_path)
    attacked = tmp_path / "sst2" / "seed-1" / "of-another.json"
    result = load_result(attacked.with_name("dev.json"))
    save_result(
        Result(**{**vars(result), "split": "of-another"}),
        load_predictions(attacked.with_name("dev.json")),
        attacked.parent,
    )
    run(tmp_path, seeds=(3,))
    assert read_selection(tmp_path / "sst2").seeds == [1, 2, 3], "seeds are added, not replaced"
    assert attacked.is_file()
    run(tmp_path, "optimizer.learning_rate=1e-6,2e-2")
    assert not attacked.exists(), "it was of another model"
    assert len({load_result(path).config["optimizer"]["learning_rate"] for path in find_results(tmp_path)}) == 1


def test_a_tie_goes_to_the_first(run: Sweep, tmp_path: Path) -> None:
    (selected,) = run(tmp_path, "learning_rate=1e-9,1e-10", settings=["epochs=0.1"], seeds=(1,)).selections
    assert selected.combinations[0].mean == selected.combinations[1].mean
    assert selected.selected == 0


def test_every_combination_of_several(tmp_path: Path) -> None:
    assert read_sweep(["learning_rate=1e-5,2e-5", "epochs=3,10"]) == [
        [f"optimizer.learning_rate={rate}", f"epochs={epochs}"] for rate in ("1e-5", "2e-5") for epochs in (3, 10)
    ]


@pytest.mark.parametrize(
    ("sweeps", "options", "complaint"),
    [
        (["optimizer.learning_rat=1e-5,2e-5"], {}, "did you mean 'optimizer.learning_rate'"),
        (["learning_rate=1e-5,fast"], {}, "optimizer.learning_rate must be a number, got 'fast'"),
        (["dropout=0.1,2"], {}, "dropout must be below 1, got 2.0"),
        (["learning_rate=1e-5,0.00001"], {}, "a value of optimizer.learning_rate is given twice"),
        (["learning_rate=1e-5"], {}, "one value is no sweep"),
        (["learning_rate"], {}, "write it as name=value,value"),
        (["learning_rate=1e-5,2e-5", "optimizer.learning_rate=1,2"], {}, "is swept twice"),
        (["train.seed=1,2"], {}, "every combination is trained with all of --seeds"),
        (["task.data=a,b"], {}, "it changes no result"),
        (["valid_fraction=0.1,0.2"], {}, "selected by figures on other examples"),
        (["epochs=1,2"], {}, "epochs is set and swept"),
        (["freelb.steps=2,3"], {}, "freelb.steps does nothing unless adversarial"),
        ([RATES], {"select_on": "test"}, "unknown --select-on 'test'"),
        ([RATES], {"select_on": "contrast-set"}, "name the folder"),
        ([RATES], {"select_on": "contrast-set:nowhere"}, "unknown contrast set 'glue/sst2'"),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(
    sweeps: list[str], options: dict[str, object], complaint: str, run: Sweep, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("(", r"\(")):
        run(tmp_path / "out", *sweeps, **options)
    assert not (tmp_path / "out").exists()


def test_selected_and_other_results_are_not_mixed(run: Sweep, checkpoint: Path, data: Path, tmp_path: Path) -> None:
    settings = [f"task.data={data}", "train.steps=1", "task.length=48"]
    configs = configure_tasks(str(checkpoint), "glue/sst2", settings=settings)
    finetune_tasks(configs, tmp_path / "plain", [1], quiet=True)
    with pytest.raises(ConfigError, match="plain/sst2' holds results that no sweep selected: give another --out"):
        run(tmp_path / "plain")
    run(tmp_path / "swept", seeds=(1,))
    with pytest.raises(ConfigError, match="swept/sst2' holds what a sweep selected"):
        finetune_tasks(configs, tmp_path / "swept", [7], quiet=True)
    with pytest.raises(CheckpointError, match="was trained with other options"):
        run(tmp_path / "swept", select_on="dev")
    (tmp_path / "swept" / "films").mkdir()
    shutil.copy(tmp_path / "swept" / "sst2" / "selection.json", tmp_path / "swept" / "films")
    own = configure_tasks(
        str(checkpoint), "classification", settings=[f"task.data={write_table(tmp_path / 'films.csv', 1)}"]
    )
    with pytest.raises(ConfigError, match="swept/films' holds what a sweep selected"):
        finetune_tasks(own, tmp_path / "swept", [7], quiet=True)
    shutil.rmtree(tmp_path / "swept" / "sst2")
    (tmp_path / "swept" / "sst2").mkdir()
    (tmp_path / "swept" / "sst2" / "selection.json").write_text('{"schema": 2}')
    with pytest.raises(TaskError, match="'schema' is 2"):
        run(tmp_path / "swept", seeds=(1,))
