"""``finetune``, ``evaluate``, ``compare`` and ``report`` as a user goes through them, and what goes wrong."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import World, fails, trueneg, works

from made_up_results import write_result
from trueneg.attacks.runner import load_adversarial_examples
from trueneg.evaluation.results.summary import read_runs
from trueneg.reporting.provenance import provenance_table
from trueneg.reporting.sources import read_sources

WORDS = ("happy", "glad", "cheerful")


def write_reviews(path: Path, num: int, start: int = 0) -> Path:
    """A table of one's own: quoted, with a comma in each text."""
    rows = [
        f'"the {WORDS[n % 3] if n % 2 else "old"} beast , number {n}",{"good" if n % 2 else "bad"},{n}'
        for n in range(start, start + num)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["review,verdict,id", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reviews")
    write_reviews(folder / "train.csv", 80)
    write_reviews(folder / "dev.csv", 30, start=80)
    return folder


def options(data: Path, out: Path) -> list[object]:
    return [
        *("--task", "classification", "--data", data, "--text-column", "review", "--label-column", "verdict"),
        *("--out", out, "--length", 32, "--batch-size", 16, "--set", "train.device=cpu", "--epochs", 2),
    ]


@pytest.fixture(scope="module")
def results(world: World, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, two seeds each."""
    folder = tmp_path_factory.mktemp("results")
    works("finetune", world.run, *options(reviews, folder / "slow"), "--seeds", 2)
    works("finetune", world.run, *options(reviews, folder / "fast"), "--seeds", 2, "--set", "learning_rate=1e-2")
    return folder


def test_results_of_all_seeds_are_shown_and_kept(world: World, reviews: Path, results: Path) -> None:
    name = reviews.stem
    said = works("finetune", world.run, *options(reviews, results / "slow"), "--seeds", 2, "--json")
    assert [r["seed"] for r in said.data["results"]] == [1, 2]
    assert all(r["task"] == name and r["num_examples"] == 30 for r in said.data["results"])
    kept = json.loads((results / "slow" / name / "seed-2" / "dev.json").read_text())
    assert kept["metrics"] == said.data["results"][1]["metrics"]
    assert kept["labels"] == ["bad", "good"]
    answers = (results / "slow" / name / "seed-2" / "dev.predictions.jsonl").read_text().splitlines()
    assert len(answers) == 30
    told = works("finetune", world.run, *options(reviews, results / "slow"), "--seeds", 2).out
    assert name in told and "accuracy" in told and told.count("30") >= 2


@pytest.mark.parametrize(
    ("method", "setting", "reading"),
    [("freelb", "freelb.steps=2", "adversarial_rise"), ("smart", "smart.weight=3", "loss/smart")],
)
def test_adversarial_training_is_one_option(
    method: str, setting: str, reading: str, world: World, reviews: Path, tmp_path: Path
) -> None:
    given = [*options(reviews, tmp_path), "--seed", 1, "--adversarial", method, "--set", setting]
    (result,) = works("finetune", world.run, *given, "--json").data["results"]
    assert result["config"]["adversarial"] == method
    records = (tmp_path / reviews.stem / "seed-1" / "metrics.jsonl").read_text().splitlines()
    assert reading in json.loads(records[-1])


def test_evaluate_finds_the_seeds_and_their_task(reviews: Path, results: Path) -> None:
    folder = results / "fast" / reviews.stem
    by_folder = works("evaluate", folder, "--json").data["results"]
    named = works("evaluate", folder / "seed-1", "--task", "classification", "--split", "dev", "--json").data["results"]
    assert [r["seed"] for r in by_folder] == [1, 2]
    assert named[0]["metrics"] == by_folder[0]["metrics"]


def test_compare_and_report_read_what_was_left(reviews: Path, results: Path, tmp_path: Path) -> None:
    compared = works("compare", results / "slow", results / "fast", "--resamples", 200, "--json").data
    assert compared["rows"] and len(compared["verdicts"]) == len(compared["rows"])
    assert reviews.stem in works("report", results / "slow", results / "fast").out
    page = tmp_path / "results.html"
    works("report", results / "slow", results / "fast", "--format", "html", "--out", page)
    assert reviews.stem in page.read_text()


def test_runs_and_results_are_reported_together(world: World, results: Path, tmp_path: Path) -> None:
    assert works("report", world.run, "--out", tmp_path / "r.html", "--json").data == {
        "report": str(tmp_path / "r.html")
    }
    works("report", world.run, results / "slow", results / "fast", "--out", tmp_path / "all.html")
    page = (tmp_path / "all.html").read_text()
    assert all(f'id="{section}"' in page for section in ("results", "training", "provenance"))
    assert "<strong>fast</strong> against slow" in page
    assert "holds no results of fine-tuning" in fails("report", world.run, "--format", "latex")
    assert "holds no results of fine-tuning" in fails("report", results / "slow", world.run, "--out", "table.csv")
    assert "holds no run and no results" in fails("report", world.run, tmp_path)
    assert "--partial does nothing beside a report that is no submission" in fails("report", results, "--partial")


def write_glue(folder: Path, **tasks: str) -> Path:
    """Two of GLUE's tasks, in forty sentences each, in the folders that are named."""
    for place, header in tasks.items():
        (folder / place).mkdir(parents=True)
        for split in ("train", "dev"):
            rows = [f"0\t{n % 2}\t\tthe {WORDS[n % 3]} beast {n}" for n in range(40)]
            rows = rows if header == "cola" else [f"the {WORDS[n % 3]} beast {n}\t{n % 2}" for n in range(40)]
            lines = rows if header == "cola" else ["sentence\tlabel", *rows]
            (folder / place / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def made_again_by(folder: Path) -> dict[str, list[str]]:
    """The words of the command that a report names for each kind of a folder's results."""
    rows = provenance_table(read_sources([folder]), {folder.name: read_runs(folder)}).rows
    return {str(row[1]): shlex.split(str(row[-1]), comments=True) for row in rows}


def test_a_report_names_the_command_that_makes_results_again(
    world: World, reviews: Path, films: Path, tmp_path: Path
) -> None:
    own, again = tmp_path / "own", tmp_path / "again"
    works("finetune", world.run, *options(reviews, own), "--seeds", "1,3", "--select", "best", "--preset", "bert")
    model = own / reviews.stem
    works("attack", model, "--attack", "typos", "--seed", 4, "--max-examples", 9, "--set", "share=0.5")
    found = made_again_by(own)
    trueneg_, *command = found["fine-tuning"]
    assert trueneg_ == "trueneg" and command[-2:] == ["--seeds", "1,3"]
    assert not any(word.startswith("optimizer.weight_decay") for word in command), "only what a preset may not say"
    works(*command, "--set", "train.device=cpu", "--out", again)
    for seed in (1, 3):
        first, second = (json.loads((of / reviews.stem / f"seed-{seed}/dev.json").read_text()) for of in (own, again))
        assert first["metrics"] == second["metrics"] and first["step"] == second["step"]
    attack = found["attack-typos-default"]
    assert attack[1:3] == ["attack", str(model)] and attack[attack.index("--seed") :][:2] == ["--seed", "4"]
    works(*(word.replace(str(own), str(again)) for word in attack[1:]), "--set", "share=0.5")
    name = f"{reviews.stem}/seed-3/attack-typos-default.predictions.jsonl"
    assert (again / name).read_bytes() == (own / name).read_bytes()

    works("finetune", world.run, *on_films(films), "--seed", 2, "--epochs", 1, "--out", tmp_path / "films")
    works("evaluate", "contrast-set", tmp_path / "films" / "imdb", "--data", films)
    found = made_again_by(tmp_path / "films")
    assert found["fine-tuning"][-2:] == ["--seed", "2"]
    result = tmp_path / "films" / "imdb" / "seed-2" / "contrast-test.json"
    result.unlink()
    works(*found["contrast set"][1:])
    assert result.is_file()


def test_what_is_not_recorded_is_said_to_be(tmp_path: Path) -> None:
    """Results of a model that lies elsewhere, or of a version that recorded less."""
    told: dict[str, dict[str, object]] = {
        "dev": {},
        "contrast-test": {"contrast_set": "sets"},
        "attack-typos-default": {"attack": {"name": "typos", "profile": "default", "options": {"share": 0.5}}},
        "attack-typos-old": {},
        "attack-file": {"attack": {"name": "published", "file": "file.csv"}},
    }
    for split, config in told.items():
        columns = {"gold": [0, 1], "predicted": [1, 1], "predicted_before": [0, 1]}
        write_result(tmp_path / "m", "imdb", 1, columns, metrics=["accuracy_before"], split=split, config=config)
    assert {kind: " ".join(words) for kind, words in made_again_by(tmp_path / "m").items()} == {
        "fine-tuning": "not recorded",
        "contrast set": "trueneg evaluate contrast-set MODEL --data sets --split test",
        "attack-typos-default": "trueneg attack MODEL --attack typos --profile default",
        "attack-typos-old": "not recorded",
        "attack-file": "trueneg attack MODEL --load file.csv",
    }
    rows = provenance_table(read_sources([tmp_path / "m"]), {"m": read_runs(tmp_path / "m")})
    assert any(str(row[-1]).endswith("  # share=0.5") for row in rows.rows) and "MODEL" in rows.notes[-1]


def test_several_tasks_each_with_its_preset_and_the_listed_seeds(world: World, tmp_path: Path) -> None:
    data = write_glue(tmp_path / "glue", **{"CoLA": "cola", "SST-2": "sst2"})
    given = ("--task", "glue/cola,glue/sst2", "--data", data, "--length", 16, "--set", "train.device=cpu")
    given = (*given, "--set", "train.steps=1", "--set", "keep_model=false", "--out", tmp_path / "out")
    rows = works("finetune", world.run, *given, "--seeds", "1,4", "--json").data["results"]
    expected = [(task, seed) for task in ("glue/cola", "glue/sst2") for seed in (1, 4)]
    assert [(row["task"], row["seed"]) for row in rows] == expected
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("dev.json")}
    works("finetune", world.run, *given, "--seeds", 1, "--json")
    assert before.items() <= {path: path.stat().st_mtime_ns for path in before}.items(), "finished seeds stay"


def test_all_tasks_without_data_are_named_before_anything_is_trained(world: World, tmp_path: Path) -> None:
    data = write_glue(tmp_path / "glue", **{"CoLA": "cola", "SST-2": "sst2"})
    (data / "SST-2" / "dev.tsv").unlink()
    error = fails("finetune", world.run, "--task", "glue", "--data", data, "--out", tmp_path / "out")
    assert "7 of 8 tasks cannot be read: glue/sst2 (" in error and "no dev.tsv" in error
    assert all(f"glue/{name} (" in error for name in ("mrpc", "stsb", "qqp", "mnli", "qnli", "rte"))
    assert "glue/cola (" not in error and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--seed", "7", "--seeds", "3"], "--seeds does nothing beside --seed: leave it out"),
        (["--task", "classification,glue/mprc"], "did you mean 'glue/mrpc'"),
        (["--task", "glue,glue/rte"], "glue/rte is named twice"),
        (["--seeds", "0"], "--seeds 0: give their number, at least 1"),
        (["--seeds", "1,2,x"], "list them: --seeds 1,3,7"),
        (["--seeds", "1,2,1"], "a seed is listed twice"),
        (["--task", "glue/mprc"], "did you mean 'glue/mrpc'"),
        (["--text-column", "revew"], "did you mean 'review'"),
        (["--label-column", "nothing"], "nothing"),
        (["--data", "no/such/place"], "no/such/place"),
        (["--preset", "electra"], "unknown preset 'electra'"),
        (["--select", "middle"], "unknown value of select 'middle'"),
        (["--adversarial", "freeLB"], "did you mean 'freelb'"),
        (["--adversarial", "smart", "--set", "smart.step=1"], "did you mean 'smart.steps'"),
        (["--adversarial", "smart", "--set", "train.compile=true"], "leave train.compile=false"),
        (["--set", "train.seed=3"], "train.seed does nothing where several seeds are run: choose one with --seed"),
        (["--set", "learning_rat=1"], "did you mean 'learning_rate'"),
        (["--train-fraction", "0"], "task.train_fraction"),
    ],
)
def test_mistakes_are_one_line_with_the_remedy(
    world: World, reviews: Path, tmp_path: Path, change: list[str], complaint: str
) -> None:
    given = options(reviews, tmp_path)
    assert complaint in fails("finetune", world.run, *given, *change)


def test_a_seed_is_at_least_zero(world: World, reviews: Path, tmp_path: Path) -> None:
    said = trueneg("finetune", world.run, *options(reviews, tmp_path), "--seed", -1)
    assert said.code == 2 and "Invalid value for '--seed'" in said.err


def test_a_label_that_training_never_saw_is_named_with_its_line(world: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_reviews(data / "train.csv", 20)
    dev = write_reviews(data / "dev.csv", 3)
    dev.write_text(dev.read_text() + '"a beast",mediocre,9\n')
    error = fails("finetune", world.run, *options(data, tmp_path / "out"))
    assert "dev.csv:5" in error and "mediocre" in error


def test_a_run_of_pretraining_is_no_fine_tuned_model(world: World) -> None:
    assert "holds no fine-tuned model" in fails("evaluate", world.run, "--task", "glue/rte")


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """Reviews with a contrast set, whose originals and revisions differ by one word."""
    data = tmp_path / "data"
    for split in ("train", "test"):
        for side, word in (("neg", "small"), ("pos", "large")):
            folder = data / "aclImdb" / split / side
            folder.mkdir(parents=True)
            for number in range(20):
                (folder / f"{number}_1.txt").write_text(f"the {word} film number {number}")
    contrast = data / "contrast-sets" / "IMDb" / "data"
    contrast.mkdir(parents=True)
    for name, words in (("test_original", ("large", "small")), ("test_contrast", ("small", "large"))):
        kinds = {"large": "Positive", "small": "Negative"}
        rows = [f"{kinds[word]}\ta {word} city {number}" for number in range(6) for word in words]
        (contrast / f"{name}.tsv").write_text("\n".join(["Sentiment\tText", *rows]) + "\n")
    return data


def on_films(data: Path) -> tuple[object, ...]:
    return ("--task", "imdb", "--data", data, "--length", 24, "--batch-size", 8, "--set", "train.device=cpu")


def test_a_contrast_set_is_evaluated_and_compared(world: World, films: Path, tmp_path: Path) -> None:
    data, given = films, on_films(films)
    works("finetune", world.run, *given, "--seeds", 2, "--epochs", 1, "--out", tmp_path / "a")
    longer = ("--epochs", 8, "--out", tmp_path / "b", "--set", "learning_rate=3e-3")
    works("finetune", world.run, *given, "--seeds", 2, *longer)
    for name in ("a", "b"):
        found = works("evaluate", tmp_path / name / "imdb", "--contrast-set", data, "--json").data["results"]
        assert [(r["seed"], r["split"], r["num_examples"]) for r in found] == [(n, "contrast-test", 12) for n in (1, 2)]
        assert [(r["counts"]["rows"], r["counts"]["truncated"]) for r in found] == [(24, 0)] * 2
        assert len({result["data"] for result in found} - {""}) == 1, "of one set, which is named"
        for result in found:
            metrics = result["metrics"]
            assert set(metrics) == {"group_consistency", "pair_consistency", "original", "revised"}
            assert metrics["group_consistency"] <= min(metrics["original"], metrics["revised"])
            assert result["counts"]["trained_on"] == 0, "no original is a training review"
    log = tmp_path / "log.csv"
    log.write_text(
        "original_text,perturbed_text,ground_truth_output,result_type\n"
        "a large<br /><br />city,a big<br /><br />city,1,Successful\n"
    )
    (attacked,) = load_adversarial_examples(log, tmp_path / "a" / "imdb" / "seed-1").examples
    assert (attacked.original.text, attacked.adversarial.text) == ("a large city", "a big city"), "as it reads reviews"
    elsewhere = tmp_path / "elsewhere"
    works("evaluate", "contrast-set", tmp_path / "a" / "imdb", "--data", data, "--results", elsewhere)
    first = "imdb/seed-1/contrast-test.predictions.jsonl"
    assert (elsewhere / first).read_bytes() == (tmp_path / "a" / first).read_bytes()
    compared = ("compare", tmp_path / "a", tmp_path / "b", "--resamples", 100, "--json")
    examples = works(*compared, "--examples", 1000).data["examples"]
    revised = [one for one in examples if one["split"] == "contrast-test" and "/" in one["key"]]
    for one in revised:
        right = [
            sum(num for label, num in one[side].items() if label == one["gold"]) for side in ("baseline", "contender")
        ]
        assert one["margin"] == pytest.approx(abs(right[1] - right[0]) / 2)
        assert one["text"] == f"a {'large' if one['gold'] == 'positive' else 'small'} city {one['text'].split()[-1]}"
    assert revised, "the models differ on some revision"
    rows = works(*compared).data["rows"]
    assert ("imdb", "contrast-test", "group_consistency") in {(r["task"], r["split"], r["metric"]) for r in rows}
    error = fails("evaluate", tmp_path / "a" / "imdb", "--contrast-set", tmp_path / "nowhere")
    assert "--contrast-set" in error and "no such file or folder" in error


def test_a_sweep_selected_on_the_contrast_set_is_labelled_in_every_table(
    world: World, films: Path, tmp_path: Path
) -> None:
    given = (*on_films(films), "--seeds", 1, "--sweep", "learning_rate=1e-5,3e-3")
    chosen = ("--select-on", f"contrast-set:{films}", "--out", tmp_path / "a")
    done = works("finetune", world.run, *given, *chosen, "--json").data
    (selected,) = done["selections"]
    assert (selected["on"], selected["metric"]) == ("contrast-test", "revised")
    best = selected["combinations"][selected["selected"]]
    for one in selected["combinations"]:
        shown = works("evaluate", tmp_path / "a" / one["folder"], "--contrast-set", films, "--json").data["results"]
        assert one["by_seed"] == {"1": shown[0]["metrics"]["revised"]}
        assert one["mean"] <= best["mean"]
    rule = "best of 2 by revised on contrast-test"
    assert {result["split"] for result in done["results"]} == {"dev", "test", "contrast-test"}
    assert all(result["selection"] == f"last; optimizer.learning_rate: {rule}" for result in done["results"])
    assert works("report", tmp_path / "a", "--format", "csv").out.count(rule) == 6, "each metric of each split"
    assert rule in works("evaluate", tmp_path / "a" / "imdb").err
    attacked = works("attack", tmp_path / "a" / "imdb", "--attack", "typos")
    assert rule in attacked.err
    works("finetune", world.run, *on_films(films), "--seeds", 1, "--out", tmp_path / "b")
    notes = works("compare", tmp_path / "b", tmp_path / "a", "--resamples", 50, "--json").data["rows"][0]["notes"]
    note = "of a, optimizer.learning_rate is the best of 2 by revised on contrast-test"
    assert note in notes


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--sweep", "learning_rat=1e-5,2e-5"], "did you mean 'learning_rate'"),
        (["--sweep", "learning_rate=1e-5,fast"], "optimizer.learning_rate must be a number, got 'fast'"),
        (["--sweep", "learning_rate=1e-5,2e-5", "--lr", "1e-4"], "optimizer.learning_rate is set and swept"),
        (["--select-on", "dev"], "--select-on does nothing beside finetune without --sweep"),
        (["--sweep", "learning_rate=1e-5,2e-5", "--select-on", "held_out"], "did you mean 'held-out'"),
    ],
)
def test_mistakes_in_sweeps(world: World, reviews: Path, tmp_path: Path, change: list[str], complaint: str) -> None:
    assert complaint in fails("finetune", world.run, *options(reviews, tmp_path / "out"), *change)
    assert not (tmp_path / "out").exists()


def test_long_texts_are_read_whole_if_the_model_can_and_what_is_cut_is_said(
    world: World, films: Path, tmp_path: Path
) -> None:
    long = films / "aclImdb" / "test" / "pos" / "0_1.txt"
    long.write_text("the large film " * 60)
    given = ("--task", "imdb", "--data", films, "--seeds", 1, "--set", "train.steps=1", "--set", "train.device=cpu")
    said = works("finetune", world.run, *given, "--out", tmp_path / "a")
    longest = 64  # of the model's positions
    assert f"imdb has long texts, and '{world.run}' only {longest} positions: they are cut there" in said.err
    assert f"imdb, test, seed 1: 1 of 40 texts cut at {longest} tokens (2%)" in said.err
    kept = json.loads((tmp_path / "a" / "imdb" / "seed-1" / "test.json").read_text())
    assert (kept["counts"]["truncated"], kept["config"]["task"]["length"]) == (1, longest)
    again = works("evaluate", tmp_path / "a" / "imdb", "--split", "test").err
    assert f"1 of 40 texts cut at {longest} tokens" in again
    short = works("finetune", world.run, *given, "--length", 5, "--out", tmp_path / "b").err
    assert "has long texts" not in short and re.search(r"36 of 36 texts cut at 5 tokens \(100%\)", short)
