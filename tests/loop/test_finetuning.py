"""Fine-tuning goes through the loop of pre-training: it learns, resumes to the bit, and says what it did."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers.modeling_utils
from safetensors.torch import load_file
from tiny_runs import (
    PowerCut,
    before_step,
    cut_power,
    documents,
    ending,
    in_float32,
    readings,
    start,
    terminate,
    together,
)
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel

from made_up_results import write_result
from trueneg.config.codec import load_config, override, save_config
from trueneg.config.finetune_options import FinetuneConfig, TaskConfig
from trueneg.errors import CheckpointError, ConfigError, TaskError
from trueneg.evaluation.results.comparison import compare
from trueneg.evaluation.results.store import Result, find_results, load_predictions, load_result
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.runs.finetuned_models import evaluate_finetuned, is_unseen
from trueneg.runs.finetuning import Finetuned, finetune
from trueneg.tasks import make_task
from trueneg.tasks.base import digest_of
from trueneg.tokenizer import load_tokenizer, save_tokenizer
from trueneg.training.log import read_metrics

POSITIVE = ("happy", "glad", "cheerful")
Configure = Callable[..., FinetuneConfig]
FREELB = ["adversarial=freelb"]
SMART = ["adversarial=smart", "smart.weight=5", "smart.step_size=0.1", "smart.noise=0.01"]


def write_sst2(folder: Path, num_train: int = 200, num_dev: int = 60) -> Path:
    """Sentences that are positive if they say that something is happy, glad or cheerful."""
    texts = iter(documents(num_train + num_dev, seed=7))
    folder.mkdir(parents=True)
    for split, num in (("train", num_train), ("dev", num_dev)):
        rows = [next(texts) for _ in range(num)]
        lines = [f"{text}\t{int(any(word in text.split() for word in POSITIVE))}" for text in rows]
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return folder.parent


@pytest.fixture(scope="module")
def checkpoint(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = load_tokenizer(tokenizer_folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes))
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sst2(tmp_path_factory.mktemp("glue") / "SST-2")


@pytest.fixture
def configure(checkpoint: Path, data: Path) -> Configure:
    small = ["train.batch_size=16", "task.length=48", "learning_rate=3e-3", "train.device=cpu", "train.log_every=4"]
    small.append("train.precision=fp32")  # the same anywhere, and equal to references but for rounding

    def make(*settings: str) -> FinetuneConfig:
        return configure_finetuning(
            str(checkpoint), "glue/sst2", settings=[f"task.data={data}", *small, "epochs=2", *settings]
        )

    return make


def precision_of(done: Finetuned) -> str:
    return load_config(FinetuneConfig, done.folder / "config.json").train.precision


def weights(done: Finetuned) -> dict[str, torch.Tensor]:
    return load_file(done.folder / "hf" / "model.safetensors")


def assert_same_run(ours: Finetuned, theirs: Finetuned) -> None:
    assert (ours.reason, ours.step) == (theirs.reason, theirs.step) == ("finished", theirs.steps)
    left, right = weights(ours), weights(theirs)
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    for split, result in ours.results.items():
        assert result.metrics == theirs.results[split].metrics
        assert load_predictions(ours.folder / f"{split}.json") == load_predictions(theirs.folder / f"{split}.json")


@pytest.mark.parametrize(
    ("settings", "is_native", "precision"),
    [
        ([], True, "bf16"),
        ([], False, "fp32"),
        (FREELB, True, "bf16"),
        (SMART, True, "bf16"),
        (["adversarial=smart"], True, "fp32"),  # bf16 would round its noise away
    ],
)
def test_the_precision_is_the_devices_unless_it_is_said(
    settings: list[str],
    is_native: bool,
    precision: str,
    configure: Configure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trueneg.training.precision.is_bfloat16_faster", lambda device: is_native)
    assert configure_finetuning(configure().start_from, "glue/sst2").train.precision == "auto"
    config = configure(*settings, "train.precision=auto", "epochs=0.2")
    done = finetune(config, tmp_path, quiet=True)
    assert precision_of(done) == precision
    monkeypatch.setattr("trueneg.training.precision.is_bfloat16_faster", lambda device: not is_native)
    again = finetune(config, tmp_path, quiet=True)
    assert (again.reason, precision_of(again)) == ("finished", precision), "on another machine, nothing is done again"


def test_processes_that_measure_differently_train_alike(configure: Configure, tmp_path: Path) -> None:
    config, out = configure("train.precision=auto", "epochs=0.2"), tmp_path / "results"
    measured = {rank: {"is_bfloat16_faster": rank == 0, "before_step": (0, in_float32)} for rank in range(2)}
    assert [told.get("reason") for told in together(config, out, 2, measured)] == ["finished"] * 2
    assert load_config(FinetuneConfig, out / "sst2" / "seed-1" / "config.json").train.precision == "fp32"
    # Finished, it is not done again, whatever is measured now.
    again = {rank: {"is_bfloat16_faster": True} for rank in range(2)}
    assert [told.get("reason") for told in together(config, out, 2, again)] == ["finished"] * 2


def test_it_learns_and_leaves_everything_behind(configure: Configure, tmp_path: Path) -> None:
    done = finetune(configure("epochs=8"), tmp_path, quiet=True)
    result = done.results["dev"]
    assert result.metrics["accuracy"] > 0.9
    assert done.folder == tmp_path / "sst2" / "seed-1"
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "config.json",
        "dev.json",
        "dev.predictions.jsonl",
        "hf",
        "metrics.jsonl",
    ]
    assert list(find_results(tmp_path)) == [done.folder / "dev.json"]
    assert load_result(done.folder / "dev.json") == result
    assert (result.task, result.seed, result.split, result.selection) == ("glue/sst2", 1, "dev", "last")
    assert (result.num_examples, result.train["num_examples"], result.train["num_rows"]) == (60, 200, 200)
    assert done.step == done.steps == 8 * 13, "200 examples in batches of 16, eight times"
    assert {"torch", "transformers", "trueneg"} <= result.versions.keys()
    assert load_config(FinetuneConfig, done.folder / "config.json").optimizer.warmup_steps == round(0.1 * 8 * 13)
    answers = load_predictions(done.folder / "dev.json")
    assert result.metrics["accuracy"] == np.mean([answer["gold"] == answer["predicted"] for answer in answers])
    card = (done.folder / "hf/README.md").read_text()
    assert f"| dev | accuracy | {result.metrics['accuracy']:.4f} | 60 |" in card
    assert "pipeline_tag: text-classification" in card and "AutoModelForSequenceClassification.from_pretrained" in card


def test_transformers_loads_the_model_and_says_the_same(configure: Configure, tmp_path: Path, data: Path) -> None:
    done = finetune(configure(), tmp_path, quiet=True)
    model = AutoModelForSequenceClassification.from_pretrained(done.folder / "hf").eval()
    tokenizer = load_tokenizer(done.folder / "hf")
    texts = [line.split("\t")[0] for line in (data / "SST-2/dev.tsv").read_text().splitlines()[1:]]
    for text, answer in zip(texts, load_predictions(done.folder / "dev.json"), strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=48)).logits[0]
        assert answer["predicted"] == int(logits.argmax())
        np.testing.assert_allclose(answer["probabilities"], logits.softmax(0), atol=2e-5)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["select=best", "evals_per_epoch=2"],
        ["train.precision=bf16"],
        FREELB,
        [*SMART, "train.precision=bf16"],
    ],
)
def test_a_run_cut_anywhere_ends_as_the_uninterrupted_one(
    settings: list[str], configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure("dropout=0.1", "train.save_every=3", *settings)
    whole = finetune(config, tmp_path / "whole", quiet=True)
    choose = random.Random(str(settings))
    for _ in range(4):
        with monkeypatch.context() as patch:
            before_step(patch, choose.randrange(whole.steps), cut_power)
            try:
                finetune(config, tmp_path / "cut", resume=True, quiet=True)
            except PowerCut:
                continue
    assert_same_run(finetune(config, tmp_path / "cut", resume=True, quiet=True), whole)
    assert readings(tmp_path / "cut" / "sst2" / "seed-1") == readings(whole.folder)


def test_a_run_told_to_stop_saves_and_goes_on(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure()
    with monkeypatch.context() as patch:
        before_step(patch, 7, terminate)
        stopped = finetune(config, tmp_path / "a", quiet=True)
    assert (stopped.reason, stopped.step, stopped.results) == ("interrupted", 8, {})
    with pytest.raises(CheckpointError, match="continue it with --resume"):
        finetune(config, tmp_path / "a", quiet=True)
    with pytest.raises(CheckpointError, match=r"learning_rate: 0.003 -> 0.1"):
        finetune(override(config, ["learning_rate=0.1"]), tmp_path / "a", resume=True, quiet=True)
    assert_same_run(finetune(config, tmp_path / "a", resume=True, quiet=True), finetune(config, tmp_path / "b"))


def test_a_finished_seed_is_not_run_again(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = finetune(configure(), tmp_path, quiet=True)
    before_step(monkeypatch, 0, cut_power)
    assert finetune(configure("train.log_every=9"), tmp_path, quiet=True).results == first.results
    with pytest.raises(CheckpointError, match=r"was trained with other options \(epochs: 2.0 -> 1.0\)"):
        finetune(configure("epochs=1"), tmp_path, quiet=True)
    with pytest.raises(CheckpointError, match=r"other options \(task.max_dev_examples: 0 -> 9\)"):
        finetune(configure("task.max_dev_examples=9"), tmp_path, quiet=True)
    assert finetune(configure("keep_model=false"), tmp_path, quiet=True).results == first.results
    with pytest.raises(PowerCut):  # another seed is another run
        finetune(configure("train.seed=2"), tmp_path, quiet=True)


def test_results_of_other_data_are_not_taken_for_these(configure: Configure, tmp_path: Path) -> None:
    data = write_sst2(tmp_path / "glue" / "SST-2")
    config = configure(f"task.data={data}")
    first = finetune(config, tmp_path / "out", quiet=True)
    moved = configure(f"task.data={shutil.copytree(data, tmp_path / 'moved')}")
    assert finetune(moved, tmp_path / "out", quiet=True).results == first.results
    dev = data / "SST-2" / "dev.tsv"
    dev.write_text(dev.read_text() + "we see a glad mouse\t0\n")
    with pytest.raises(CheckpointError, match=r"is of other data \(dev changed since\): give another --out"):
        finetune(config, tmp_path / "out", quiet=True)


def test_a_result_names_the_examples_it_is_of(configure: Configure, tmp_path: Path) -> None:
    """Texts that changed while keys and labels stayed: the two models would be compared on different questions."""
    data = write_sst2(tmp_path / "glue" / "SST-2")
    model = finetune(configure(f"task.data={data}"), tmp_path / "one", quiet=True)
    (before,) = model.results.values()
    dev = shutil.copytree(data, tmp_path / "revised") / "SST-2" / "dev.tsv"
    head, *rows = dev.read_text().splitlines()
    kept = shutil.copytree(tmp_path / "one", tmp_path / "other")
    for changed, is_same in (([head, *rows], True), ([head, "x" + rows[0], *rows[1:]], False)):
        dev.write_text("\n".join(changed) + "\n")
        (after,) = evaluate_finetuned(kept / "sst2" / "seed-1", data=str(tmp_path / "revised"))
        assert (after.num_examples, after.data == before.data) == (before.num_examples, is_same)
        assert load_result(kept / "sst2" / "seed-1" / "dev.json").data == after.data
    with pytest.raises(TaskError, match="of other versions of glue/sst2, dev"):
        compare(tmp_path / "one", kept)


def write_table(path: Path, seed: int, num: int = 60) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    rows = [f"{any(word in text.split() for word in POSITIVE)},{text}" for text in documents(num, seed=seed)]
    path.write_text("\n".join(["label,text", *rows]) + "\n")
    return path


@pytest.fixture
def on_tables(checkpoint: Path, tmp_path: Path) -> Callable[[Path], Finetuned]:
    """Fine-tunes on a table, into one folder of results."""

    def run(data: Path) -> Finetuned:
        settings = [f"task.data={data}", "task.length=48", "train.steps=2", "train.batch_size=8", "train.device=cpu"]
        config = configure_finetuning(str(checkpoint), "classification", settings=settings)
        return finetune(config, tmp_path / "out", quiet=True)

    return run


def test_a_model_does_not_write_over_anothers_results(on_tables: Callable[[Path], Finetuned], tmp_path: Path) -> None:
    films, books = (
        on_tables(write_table(tmp_path / f"{name}.csv", seed)) for seed, name in enumerate(("films", "books"))
    )
    kept = (books.folder / "dev.json").read_bytes()
    with pytest.raises(ConfigError, match="books/seed-1' holds a model of its own, whose results these would replace"):
        evaluate_finetuned(films.folder, data=str(tmp_path / "books.csv"))
    assert (books.folder / "dev.json").read_bytes() == kept
    plays = write_table(tmp_path / "plays.csv", 5)
    (result,) = evaluate_finetuned(films.folder, data=str(plays))
    assert result.train["task"] == "films"
    with pytest.raises(CheckpointError, match="plays/seed-1' holds results of a model that lies elsewhere"):
        on_tables(plays)


def test_of_a_new_file_everything_is_asked_and_of_the_trained_one_a_part(
    on_tables: Callable[[Path], Finetuned], tmp_path: Path
) -> None:
    done = on_tables(write_table(tmp_path / "films.csv", 1))
    assert [r.num_examples for r in evaluate_finetuned(done.folder)] == [6]
    moved = shutil.copy(tmp_path / "films.csv", tmp_path / "copy.csv")
    assert [r.num_examples for r in evaluate_finetuned(done.folder, data=str(moved))] == [6]
    new = write_table(tmp_path / "new.csv", 2, num=40)
    assert [r.num_examples for r in evaluate_finetuned(done.folder, data=str(new))] == [40]


def test_a_model_is_never_evaluated_on_what_it_was_trained_on(
    on_tables: Callable[[Path], Finetuned], tmp_path: Path
) -> None:
    films = write_table(tmp_path / "films.csv", 1)
    done = on_tables(films)
    with films.open("a") as file:
        file.write("True,a happy end\n")
    before = (done.folder / "dev.json").read_bytes()
    with pytest.raises(TaskError, match=r"films.csv: .dev. is a part of the training examples"):
        evaluate_finetuned(done.folder)
    assert (done.folder / "dev.json").read_bytes() == before
    write_table(tmp_path / "both" / "train.csv", 2)
    write_table(tmp_path / "both" / "dev.csv", 3)
    done = on_tables(tmp_path / "both")
    with pytest.raises(TaskError, match=r"train.csv: '.*both/seed-1' was trained on all of it"):
        evaluate_finetuned(done.folder, data=str(tmp_path / "both" / "train.csv"))


def test_a_part_of_other_training_examples_is_not_evaluated(tmp_path: Path) -> None:
    for split, label, number in itertools.product(("train", "test"), ("pos", "neg"), range(10)):
        path = tmp_path / "aclImdb" / split / label / f"{number}_{9 if label == 'pos' else 1}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{split} {label} {number}")
    options = TaskConfig(name="imdb", data=str(tmp_path))
    task = make_task(options)
    trained = {"task": "imdb", "data": {"train": digest_of(task.read("train").examples)}}
    folder = write_result(tmp_path, "imdb", 1, {"gold": [0], "predicted": [0]}, train=trained).parent
    save_config(FinetuneConfig(task=options), folder / "config.json")
    assert not is_unseen(folder, task, "dev")
    sets = tmp_path / "contrast-sets" / "IMDb" / "data"
    sets.mkdir(parents=True)
    for kind in ("original", "contrast"):
        (sets / f"test_{kind}.tsv").write_text("Sentiment\tText\nPositive\ttrain pos 3\nNegative\ttrain neg 3\n")
    changed = make_task(options)
    with pytest.raises(TaskError, match="'dev' is a part of the training examples, and these are not those"):
        is_unseen(folder, changed, "dev")
    assert not is_unseen(folder, changed, "test")


def test_a_task_without_labels_needs_a_split(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = finetune(configure("epochs=0.1"), tmp_path, quiet=True)
    task = make_task(load_config(FinetuneConfig, done.folder / "config.json").task)
    monkeypatch.setattr(task, "dev_splits", ())  # as those of glue/ax are
    monkeypatch.setattr("trueneg.runs.finetuned_models.make_task", lambda options, labels: task)
    with pytest.raises(ConfigError, match="glue/sst2 has no labelled split: name one with --split"):
        evaluate_finetuned(done.folder)


def test_seeds_differ_and_the_same_seed_does_not(configure: Configure, tmp_path: Path) -> None:
    one, again, two = (
        finetune(configure(f"train.seed={seed}"), tmp_path / name, quiet=True)
        for name, seed in (("one", 1), ("again", 1), ("two", 2))
    )
    assert_same_run(one, again)
    assert not torch.equal(weights(one)["classifier.weight"], weights(two)["classifier.weight"])


@pytest.mark.parametrize(("accumulation", "settings"), [(2, []), (4, []), (4, FREELB), (4, SMART)])
def test_accumulation_changes_only_rounding(
    accumulation: int, settings: list[str], configure: Configure, tmp_path: Path
) -> None:
    settings = [*settings, "dropout=0", "epochs=1"]
    whole = finetune(configure(*settings), tmp_path / "1", quiet=True)
    cut = finetune(configure(*settings, f"train.accumulation={accumulation}"), tmp_path / "n", quiet=True)
    ours, theirs = weights(whole), weights(cut)
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-5


@pytest.mark.parametrize("settings", [[], [*FREELB, "train.accumulation=2"], SMART])
def test_two_processes_come_to_the_same_result(settings: list[str], configure: Configure, tmp_path: Path) -> None:
    config = configure("dropout=0", "epochs=1", "select=best", *settings)
    told = together(config, tmp_path / "two", 2)
    assert [t["reason"] for t in told] == ["finished"] * 2, told
    alone = finetune(config, tmp_path / "one", quiet=True)
    together_folder = tmp_path / "two" / "sst2" / "seed-1"
    ours, theirs = weights(alone), load_file(together_folder / "hf" / "model.safetensors")
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-5
    assert load_result(together_folder / "dev.json").metrics == alone.results["dev"].metrics


@pytest.mark.parametrize("settings", [[], FREELB])
def test_a_killed_run_goes_on(settings: list[str], configure: Configure, tmp_path: Path) -> None:
    config = configure("train.save_every=2", *settings)
    process = start(config, tmp_path / "killed", before_step=(9, _kill))
    process.join(60)
    assert process.exitcode == -9
    assert ending(start(config, tmp_path / "killed"), tmp_path / "killed")["reason"] == "finished"
    whole = finetune(config, tmp_path / "whole", quiet=True)
    assert_same_run(finetune(config, tmp_path / "killed", quiet=True), whole)


def _kill(run: object) -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def test_the_best_weights_are_chosen_on_held_out_training_examples(configure: Configure, tmp_path: Path) -> None:
    config = configure("select=best", "epochs=6", "evals_per_epoch=2", "valid_fraction=0.3")
    done = finetune(config, tmp_path, quiet=True)
    result = done.results["dev"]
    evaluations = [r for r in read_metrics(done.folder / "metrics.jsonl") if r["kind"] == "eval"]
    assert [r["step"] for r in evaluations] == [*range(4, 54, 4), 54], "140 examples in batches of 16: 9 an epoch"
    assert result.selection == "best on 30% of the training examples, held out"
    assert result.train["num_examples"] == 140
    assert not (done.folder / "best.safetensors").exists()


def test_weights_that_were_best_are_those_evaluated(
    configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose weights are ruined after its best evaluation reports the best ones."""

    def ruin(run: object) -> None:
        for parameter in run.module.parameters():  # type: ignore[attr-defined]
            parameter.data.zero_()

    config = configure("select=best", "epochs=6")
    with monkeypatch.context() as patch:
        before_step(patch, 60, ruin)
        done = finetune(config, tmp_path, quiet=True)
    assert done.steps > 62
    assert any(value.abs().sum() > 0 for value in weights(done).values())
    assert done.results["dev"].metrics["accuracy"] > 0.7


@pytest.mark.parametrize("options", [["task.train_fraction=0.1"], ["task.max_train_examples=20"]])
def test_few_examples_are_chosen_by_the_seed(options: list[str], configure: Configure, tmp_path: Path) -> None:
    one, two = (finetune(configure(f"train.seed={s}", *options), tmp_path, quiet=True) for s in (1, 2))
    assert one.results["dev"].train["num_examples"] == two.results["dev"].train["num_examples"] == 20
    assert not torch.equal(weights(one)["classifier.weight"], weights(two)["classifier.weight"])


def test_dev_examples_are_the_same_for_every_seed(configure: Configure, tmp_path: Path) -> None:
    keys = []
    for seed in (1, 2):
        done = finetune(configure(f"train.seed={seed}", "task.max_dev_examples=20"), tmp_path, quiet=True)
        keys.append([answer["key"] for answer in load_predictions(done.folder / "dev.json")])
    assert keys[0] == keys[1] and len(keys[0]) == 20


def test_a_fine_tuned_model_is_evaluated_later(configure: Configure, tmp_path: Path) -> None:
    done = finetune(configure(), tmp_path / "run", quiet=True)
    before = load_predictions(done.folder / "dev.json")
    (result,) = evaluate_finetuned(done.folder, splits=["dev"])
    assert result.metrics == done.results["dev"].metrics
    assert load_predictions(done.folder / "dev.json") == before
    moved = write_sst2(tmp_path / "elsewhere" / "SST-2", num_dev=30)
    (other,) = evaluate_finetuned(done.folder, data=str(moved))
    assert other.num_examples == 30
    assert isinstance(load_result(done.folder / "dev.json"), Result)


def test_options_of_training_are_refused_in_evaluation(configure: Configure, tmp_path: Path) -> None:
    done = finetune(configure("epochs=0.1"), tmp_path, quiet=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    for name, value in (
        *(("train.seed", 7), ("optimizer.learning_rate", 5), ("select", "best"), ("epochs", 1)),
        *(("task.max_train_examples", 3), ("task.train_fraction", 0.5)),
    ):
        with pytest.raises(ConfigError, match=f"^{name} has no effect on a model that is already trained"):
            evaluate_finetuned(done.folder, settings=[f"{name}={value}"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before
    (result,) = evaluate_finetuned(done.folder, settings=["max_dev_examples=7", "precision=fp32"])
    assert result.num_examples == 7


def test_a_model_that_was_not_kept_cannot_be_evaluated(configure: Configure, tmp_path: Path) -> None:
    done = finetune(configure("keep_model=false"), tmp_path, quiet=True)
    assert not (done.folder / "hf").exists() and done.results["dev"].metrics
    with pytest.raises(ConfigError, match="holds no fine-tuned model: fine-tune again into another --out, with keep_"):
        evaluate_finetuned(done.folder)
    again = finetune(configure(), tmp_path / "another", quiet=True)
    assert evaluate_finetuned(again.folder)[0].metrics == done.results["dev"].metrics


def test_what_cannot_be_trained_is_refused_before_anything_is_loaded(configure: Configure, tmp_path: Path) -> None:
    for settings, complaint in {
        "epochs=0": "epochs must be above 0",
        "warmup_ratio=2": "warmup_ratio must be",
        "task.length=100": "has only 64 positions: set task.length=64",
        "swap_pairs=true": "swap_pairs",
        "adversarial=freelb freelb.steps=0": "freelb.steps must be",
        "task.name=glue/nothing": "unknown task 'glue/nothing'",
        "task.data=/nowhere": "/nowhere",
    }.items():
        with pytest.raises(Exception, match=complaint) as caught:
            finetune(configure(*settings.split()), tmp_path, quiet=True)
        assert type(caught.value).__module__ == "trueneg.errors", caught.value
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ([*FREELB, "freelb.step_size=0.01", "magnitude=0.01"], {"adversarial_rise", "perturbation"}),
        (["adversarial=smart", "smart.step_size=0.01"], {"loss/smart"}),
    ],
)
def test_adversarial_training_learns_and_tells_of_it(
    settings: list[str], extra: set[str], configure: Configure, tmp_path: Path
) -> None:
    done = finetune(configure("epochs=8", *settings), tmp_path / "adversarial", quiet=True)
    assert done.results["dev"].metrics["accuracy"] > 0.9
    plain = finetune(configure("epochs=1"), tmp_path / "plain", quiet=True)
    assert weights(done).keys() == weights(plain).keys(), "nothing of it stays in the model"
    told = readings(done.folder)
    assert all(record.keys() == readings(plain.folder)[0].keys() | extra for record in told)
    assert np.mean([record.get("adversarial_rise", 2) for record in told]) > 1


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ([*FREELB, "train.compile=true"], "adversarial=freelb: its step is not compiled: leave train.compile=false"),
        (["adversarial=smart", "train.precision=bf16"], "smart.noise=1e-05: bf16 rounds it away: use smart.noise=0.01"),
    ],
)
def test_what_adversarial_training_cannot_do_is_refused(
    settings: list[str], complaint: str, configure: Configure, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        finetune(configure(*settings), tmp_path, quiet=True)


def test_gradients_can_be_checkpointed(configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = []
    original = transformers.modeling_utils.checkpoint

    def counting(*arguments: Any, **options: Any) -> Any:
        again.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr("transformers.modeling_utils.checkpoint", counting)
    plain = finetune(configure("epochs=1", "dropout=0"), tmp_path / "plain", quiet=True)
    assert not again
    saved = finetune(
        configure("epochs=1", "dropout=0", "train.gradient_checkpointing=true"), tmp_path / "saved", quiet=True
    )
    assert again
    left, right = weights(plain), weights(saved)
    assert max(float((left[name] - right[name]).abs().max()) for name in left) < 1e-5


def test_a_config_file_does_it_again(configure: Configure, tmp_path: Path) -> None:
    first = finetune(configure(), tmp_path / "first", quiet=True)
    again = finetune(configure_finetuning(config=first.folder), tmp_path / "again", quiet=True)
    assert_same_run(again, first)
    assert json.loads((again.folder / "config.json").read_text()) == json.loads(
        (first.folder / "config.json").read_text()
    )
