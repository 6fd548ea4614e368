"""``trueneg evaluate`` with several checkpoints, texts and detectors: Table 2."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import WORDNET, World, contents, fails, pretrain_options, trueneg, works

import trueneg as trueneg_api
from trueneg.cli.evaluate import kind_of
from trueneg.errors import ConfigError
from trueneg.reporting.provenance import provenance_table
from trueneg.reporting.sources import read_sources


def records(*arguments: object) -> list[dict[str, Any]]:
    found = works("evaluate", *arguments, "--json").data["records"]
    assert isinstance(found, list)
    return found


def test_a_course_of_training_ends_where_the_run_ended(world: World) -> None:
    told = ("--corpus", world.corpus, "--rows", 8)
    early, late = records(world.run, *told, "--over-training")
    assert [(r["step"], r["fraction"]) for r in (early, late)] == [(3, 0.5), (6, 1.0)]
    whole = works("evaluate", world.run, *told, "--json").data
    (last,) = whole["records"]
    assert last["step"] is None
    assert late["readings"] == pytest.approx(last["readings"])
    assert early["readings"]["gold_loss"] != late["readings"]["gold_loss"]
    # An ELECTRA run shows no random tokens: its generator would take them for gold.
    assert whole["config"]["objective"]["masking"]["random_share"] == 0


def provenance(file: Path) -> list[str]:
    """The command that a report names for a file, as a shell has its words, without ``trueneg``."""
    (row,) = provenance_table(read_sources([file]), {}).rows
    return shlex.split(str(row[-1]))[1:]


def test_a_report_names_the_command_that_makes_a_file_again(world: World, tmp_path: Path) -> None:
    options = ("--corpus", world.corpus, "--rows", 5, "--sequences", "packed", "--length", 20, "--over-training")
    detectors = ("--detector", "lexical[forms=retrieved]", "--detector", "first-sense", "--wordnet", WORDNET)
    made, again = tmp_path / "made.json", tmp_path / "again.json"
    works("evaluate", "masked-lm", world.run, *options, *detectors, "--set", "masking.rate=0.3", "--out", made)
    works(*provenance(made), "--out", again)
    assert json.loads(again.read_text()) == json.loads(made.read_text())
    assert json.loads(made.read_text())["versions"]["trueneg"] == trueneg_api.__version__

    swords = Path(__file__).parents[1] / "data" / "swords" / "tiny.json"
    options = ("--data", swords, "--limit", 3, "--no-inflect", "--folds", 2, "--resamples", 9, "--seed", 4)
    works("detect", "benchmark", *options, "--detector", "lexical", "--wordnet", WORDNET, "--out", tmp_path / "made")
    command = provenance(tmp_path / "made" / "substitution.json")
    command[command.index("--data") + 1] = str(swords)  # data are named without their place
    works(*command, "--wordnet", WORDNET, "--out", tmp_path / "again")
    first, second = (json.loads((tmp_path / name / "substitution.json").read_text()) for name in ("made", "again"))
    assert second["options"] == first["options"]


def test_a_configuration_is_said_once_with_what_records_differ_in(world: World) -> None:
    told = ("--corpus", world.corpus, "--rows", 4, "--sequences", "documents", "--sequences", "packed", "--json")
    found = works("evaluate", world.run, *told).data
    first, second = found["records"]
    assert "architecture" not in found["config"]["model"]  # its own files say what it is
    assert [record.get("config") for record in (first, second)] == [None, None]
    assert (first["differs"], second["differs"]) == ({}, {"corpus.pack": True})


def test_what_was_found_is_on_the_page_about_the_run(world: World, tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "report.html"
    shutil.copytree(world.run, run)
    told = ("--corpus", world.corpus, "--rows", 12, "--detector", "!lexical", "--task", "false-negatives")
    said = works("evaluate", run, *told, "--over-training")
    written = run / "false-negatives.json"
    assert str(written) in said.err
    assert {record["step"] for record in json.loads(written.read_text())["records"]} == {6}
    works("report", run, "--out", page)
    assert "On 12 held-out rows" in page.read_text()
    written.write_text('{"readings": {"corrected": "all"}, "corrections": []}')
    assert "false-negatives.json' is damaged: 'readings.corrected'" in fails("report", run, "--out", page)


def test_a_file_that_is_named_is_all_that_is_written(world: World, tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "found.json"
    shutil.copytree(world.run, run)
    before = contents(run)
    said = works("evaluate", "masked-lm", run, "--corpus", world.corpus, "--rows", 4, "--out", file)
    assert contents(run) == before and str(file) in said.err
    assert json.loads(file.read_text())["num_rows"] == 4


def test_python_and_the_command_line_measure_the_same(world: World) -> None:
    (told,) = records(world.run, "--corpus", world.corpus)
    found = trueneg_api.evaluate(str(world.run), world.corpus)
    assert found.config["corpus"]["length"] == 24  # the run's own; its model has 64 positions
    assert (found.num_rows, found.counts) == (told["num_rows"], told["counts"])
    assert found.readings == pytest.approx(told["readings"])


def test_a_masked_language_models_course_too(world: World, tmp_path: Path) -> None:
    run = tmp_path / "mlm"
    options = ("--objective", "mlm", "--hard-correction", "lexical", "--set", "save_every=3", "-q")
    works(*pretrain_options(world, run), *options)
    told = ("--corpus", world.corpus, "--rows", 8)
    assert records(run, *told, "--over-training")[-1]["readings"] == pytest.approx(records(run, *told)[0]["readings"])


def test_each_table_of_synonyms_has_a_record_of_its_own(world: World) -> None:
    names = [f"lexical[forms={forms}]" for forms in ("agree", "lemma", "retrieved")]
    told = (world.run, "--corpus", world.corpus)
    agree, lemma, retrieved = records(*told, *(part for name in names for part in ("--detector", name)))
    assert [record["detector"] for record in (agree, lemma, retrieved)] == names
    assert lemma["counts"]["corrected"] <= retrieved["counts"]["corrected"]
    (same,) = records(*told, "--detector", "lexical", "--set", "correction.forms=lemma")
    assert same["counts"] == lemma["counts"]


def test_forms_that_no_detector_takes_are_refused(world: World) -> None:
    told = ("evaluate", world.run, "--corpus", world.corpus, "--set", "correction.forms=lemma", "--rows", 2)
    refused = fails(*told, "--detector", "lexical[forms=retrieved]", "--detector", "fits")
    assert "objective.correction.forms does nothing unless a 'lexical'" in refused
    works(*told, "--detector", "lexical", "--detector", "fits")


def test_every_checkpoint_text_and_detector_has_a_record(world: World, tmp_path: Path) -> None:
    file, picture = tmp_path / "out" / "table.json", tmp_path / "out" / "course.png"
    told = ("--corpus", world.corpus, "--sequences", "documents", "--sequences", "packed", "--rows", 6)
    detectors = ("--detector", "lexical", "--detector", "!lexical")
    said = works("evaluate", world.run, *told, *detectors, "--over-training", "--out", file, "--plot", picture)
    found = json.loads(file.read_text())["records"]
    names = [(r["sequences"], r["detector"], r["step"]) for r in found]
    assert names == [(s, d, n) for s in ("documents", "packed") for d in ("lexical", "!lexical") for n in (3, 6)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = said.out.splitlines()
    assert len(lines) == 1 + len(found)
    assert lines[0].split()[:3] == ["sequences", "training", "detector"]
    yes, no = (r["counts"] for r in found[:4:2])
    assert (yes["masked"], yes["mispredicted"]) == (no["masked"], no["mispredicted"])
    assert no["corrected"] > yes["corrected"]
    assert yes["corrected"] + no["corrected"] <= yes["mispredicted"]


def test_a_text_is_read_by_lines_by_documents_or_packed(world: World, tmp_path: Path) -> None:
    text = tmp_path / "held-out.txt"
    text.write_text("the large mouse will stay .\nwe see a film .\n\n" * 20)
    kinds = ("lines", "documents", "packed")
    told = [word for kind in kinds for word in ("--sequences", kind)]
    found = {r["sequences"]: r["num_rows"] for r in records(world.run, "--text", text, "--length", 60, *told)}
    assert (found["lines"], found["documents"]) == (40, 20)
    assert found["packed"] < 20
    built = tmp_path / "lines"
    works("corpus", "build", world.text, "--tokenizer", world.tokenizer, "--out", built, "--lines", "--valid", text)
    (from_corpus,) = records(world.run, "--corpus", built, "--length", 24)
    assert from_corpus["num_rows"] == 40


def test_several_checkpoints_are_told_apart(world: World) -> None:
    other = world.run / "hf" / "generator"
    told = ("--corpus", world.corpus, "--rows", 4, "--length", 24)
    assert [r["checkpoint"] for r in records(world.run, other, *told)] == [str(world.run), str(other)]
    assert works("evaluate", world.run, other, *told).out.split()[0] == "checkpoint"


def test_a_detector_that_averages_the_model_has_the_model_itself(world: World) -> None:
    (found,) = records(world.run, "--corpus", world.corpus, "--rows", 4, "--detector", "ema")
    assert found["counts"]["masked"] > 0


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ([], "nothing to read: give --corpus"),
        (["--corpus", "CORPUS", "--sequences", "line"], "did you mean 'lines'?"),
        (["--corpus", "CORPUS", "--sequences", "lines"], "keeps no lines: give the text itself with --text"),
        (["--text", "nowhere.txt"], "no such file or folder: 'nowhere.txt'"),
        (["--corpus", "CORPUS", "--detector", "lexcial"], "did you mean 'lexical'?"),
        (["--corpus", "CORPUS", "--plot", "course.png"], "add --over-training"),
        (["--corpus", "CORPUS", "--over-training", "--plot", "course.gif"], "name the picture .png"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(world: World, arguments: list[str], complaint: str) -> None:
    given = [world.corpus if argument == "CORPUS" else argument for argument in arguments]
    assert complaint in fails("evaluate", world.run, *given, "--quiet")


def test_a_folder_that_is_no_run_has_no_checkpoints(world: World) -> None:
    line = fails("evaluate", world.run / "hf", "--corpus", world.corpus, "--over-training")
    assert f"'{world.run / 'hf'}' is not a run" in line


def test_a_torn_checkpoint_is_left_out(world: World, tmp_path: Path) -> None:
    run = tmp_path / "torn"
    shutil.copytree(world.run, run)
    with (run / "checkpoints" / "step-000000003" / "model.safetensors").open("ab") as file:
        file.write(b"more")
    said = trueneg("evaluate", run, "--corpus", world.corpus, "--rows", 4, "--over-training", "--json")
    assert [record["step"] for record in said.data["records"]] == [6]
    assert "is torn (model.safetensors is damaged): it is left out" in said.err


def test_encoders_are_measured_as_they_come(world: World, tmp_path: Path) -> None:
    lines = [
        {"original": f"the large film {n}", "synonym": f"the big film {n}", "antonym": f"the small film {n}"}
        for n in range(12)
    ]
    triplets = tmp_path / "t.jsonl"
    triplets.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = works("evaluate", world.run, "--task", "triplets", "--data", triplets, "--json").data["triplets"]
    assert [record["way"] for record in found] == ["cls", "mean", "bertscore"]
    assert all(0 <= record["chosen"]["estimate"] <= 1 for record in found)
    pairs = tmp_path / "STS-B"
    pairs.mkdir()
    rows = [f"{n}\tthe large film\tthe {('big', 'small', 'large')[n % 3]} film\t{n % 5}.0" for n in range(15)]
    (pairs / "dev.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    similar = works("evaluate", world.run, "--task", "sts", "--data", tmp_path, "--json").data["sts"]
    assert [(record["pooling"], record["num_examples"]) for record in similar] == [("cls", 15), ("mean", 15)]
    assert "reads --data" in fails("evaluate", world.run, "--task", "sts")
    assert "nowhere: no such file" in fails("evaluate", world.run, "--task", "triplets", "--data", tmp_path / "nowhere")
    works("evaluate", world.run, "--task", "triplets", "--data", triplets, "--limit", 5, "--out", tmp_path / "5")
    kept = {json.loads(line)["original"] for line in (tmp_path / "5").read_text().splitlines()}
    assert len(kept) == 5 and kept < {line["original"] for line in lines}
    results = tmp_path / "hits.json"
    works("evaluate", world.run, "--task", "triplets", "--data", triplets, "--out", results)
    assert json.loads(results.read_text())["triplets"] == found
    similar = works("evaluate", world.run, "--task", "sts", "--data", tmp_path, "--rows", 6, "--json").data["sts"]
    assert [record["num_examples"] for record in similar] == [6, 6]
    of_all, of_six, again = (tmp_path / f"sts-{name}.json" for name in ("all", "six", "again"))
    for file, limit in ((of_all, 0), (of_six, 6), (again, 6)):
        works("evaluate", world.run, "--task", "sts", "--data", tmp_path, "--rows", limit, "--out", file)
    said = [json.loads(file.read_text()) for file in (of_all, of_six, again)]
    assert [(one["split"], one["rows"]) for one in said] == [("dev", 0), ("dev", 6), ("dev", 6)]
    assert said[0]["examples"] != said[1]["examples"] == said[2]["examples"]


def test_triplets_made_of_sentences_say_what_they_replace(world: World, tmp_path: Path) -> None:
    sentences, wordnet = tmp_path / "films.txt", Path(__file__).parents[1] / "data" / "wordnet"
    sentences.write_text("".join(f"A big and happy film of {n} movies moves quickly .\n" for n in range(12)))
    told = ("evaluate", world.run, "--task", "triplets", "--data", sentences, "--wordnet", wordnet)
    ours = ("--set", "senses=all")  # this WordNet has no counts
    results, triplets = tmp_path / "hits.json", tmp_path / "made.jsonl"
    one = works(*told, *ours, "--out", results, "--json").data["triplets"]
    assert {record["form"] for record in one} == {"one word each"}
    assert json.loads(results.read_text())["triplets"] == one
    assert one[0]["made"] | {"replaced": "one", "preset": "trueneg", "senses": "all", "agree": True} == one[0]["made"]
    assert (one[0]["num_sentences"], one[0]["num_made"], one[0]["num_triplets"]) == (12, 12, 12)
    many = works(*told, *ours, "--set", "replaced=many", "--rows", 5, "--json").data["triplets"][0]
    assert many["form"].endswith("by antonyms") and (many["num_made"], many["num_triplets"]) == (12, 5)
    paper = works(*told, "--set", "preset=paper", "--out", triplets)
    assert "12 triplets of 12 sentences: one word each" in paper.err and "one word each" in paper.out
    for line in map(json.loads, triplets.read_text().splitlines()):
        assert len(line["synonym_words"]) == len(line["antonym_words"]) == 1
    again = ("evaluate", world.run, "--task", "triplets", "--data", triplets)
    assert works(*again, "--json").data["triplets"][0]["form"] == "one word each"
    assert "--set does nothing for triplets that are made already" in fails(*again, "--set", "replaced=many")
    assert "did you mean 'replaced'" in fails(*told, "--set", "replace=many")
    assert "did you mean 'many'" in fails(*told, "--set", "replaced=mny")
    assert "--set does nothing" in fails("evaluate", world.run, "--task", "sts", "--data", "x", "--set", "senses=all")


def test_what_is_evaluated_follows_from_what_is_given_or_is_named(world: World, tmp_path: Path) -> None:
    told = (world.run, "--corpus", world.corpus, "--rows", 4, "--json")
    named = works("evaluate", "masked-lm", *told).data
    assert works("evaluate", *told).data["records"] == named["records"]
    assert works("evaluate", *told[1:], "--task=false-negatives", world.run).data["records"] == named["records"]


def test_a_verb_that_is_misspelled_is_no_checkpoint(world: World) -> None:
    assert "unknown verb of evaluate 'masked_lm': did you mean 'masked-lm'?" in fails(
        "evaluate", "masked_lm", world.run
    )


def test_results_on_other_rows_are_not_replaced_silently(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(world.run, run)
    (run / "false-negatives.json").unlink(missing_ok=True)
    asked = ("evaluate", "masked-lm", run, "--corpus", world.corpus, "--rows")
    assert "replaces" not in works(*asked, 6).err
    assert f"it replaces the results on 6 rows of {world.corpus}: --out FILE keeps both" in works(*asked, 4).err
    assert "replaces" not in works(*asked, 4).err


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["x"], "masked-lm"),
        (["--corpus", "c", "x", "--task", "false-negatives"], "masked-lm"),
        (["x", "--task", "substitution"], "substitution"),
        (["x", "--task", "sts"], "encoder"),
        (["--task=triplets", "x"], "encoder"),
        (["x", "--task", "glue/rte"], "task"),
        (["x", "--contrast-set", "c"], "contrast-set"),
        (["x", "--contrast-set=c"], "contrast-set"),
        (["seed-3"], "task"),
        (["OUT/imdb"], "task"),
    ],
)
def test_the_verb_is_found_by_task_contrast_set_or_folder(
    words: list[str], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("seed-3", "OUT/imdb/seed-1"):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "config.json").write_text("{}")
    assert kind_of(words) == kind


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["x", "--task", "triplets", "--plot", "p.png"], "--plot"),
        (["x", "--task", "glue/rte", "--corpus", "c"], "--corpus"),
        (["x", "--corpus", "c", "--split", "dev"], "--split"),
        (["contrast-set", "x", "--data", "d", "--set", "train.seed=1"], "--set"),
        (["contrast-set", "x"], "--data"),
    ],
)
def test_options_of_another_verb_are_usage_errors(arguments: list[str], flag: str) -> None:
    said = trueneg("evaluate", *arguments)
    assert said.code == 2 and flag in said.err


@pytest.mark.parametrize(("task", "flag"), [("triplets", "--split"), ("sts", "--wordnet")])
def test_options_of_the_other_task_of_encoders_are_refused(task: str, flag: str) -> None:
    assert f"{flag} does nothing" in fails("evaluate", "encoder", "x", "--task", task, flag, "y")


@pytest.mark.parametrize(("given", "device"), [((), "cuda:0"), (("--device", "cpu"), "cpu")])
@pytest.mark.parametrize("task", ["triplets", "sts"])
def test_encoders_run_on_a_gpu_if_there_is_one(
    task: str, given: tuple[str, ...], device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader(source: str, window: int = 128, device: str = "cpu") -> None:
        raise ConfigError(f"'{source}' is read on {device}")

    data = {"triplets": tmp_path / "t.jsonl", "sts": tmp_path}
    data["triplets"].write_text('{"original": "a large film", "synonym": "a big film", "antonym": "a small film"}\n')
    (tmp_path / "STS-B").mkdir()
    (tmp_path / "STS-B" / "dev.tsv").write_text("index\tsentence1\tsentence2\tscore\n0\ta\tb\t1.0\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("trueneg.models.text_reader.TextReader", reader)
    asked = ("evaluate", "encoder", "x", "--task", task, "--data", data[task])
    assert f"'x' is read on {device}" in fails(*asked, *given)
    assert "--device must be cpu, cuda, cuda:N, xpu, xpu:N or mps, got tpux" in fails(*asked, "--device", "tpux")


@pytest.mark.parametrize("task", ["triplets", "sts"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(task: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out, message in ((tmp_path, "is a folder: name a file"), (tmp_path / "file" / "x.json", "cannot be written")):
        assert message in fails("evaluate", "encoder", "nowhere", "--task", task, "--data", "none", "--out", out)


def test_splits_and_a_lexicon_that_would_not_be_read_are_refused(tmp_path: Path) -> None:
    both = ("--split", "dev", "--split", "test")
    assert "--split test" in fails("evaluate", "x", "--task", "sts", "--data", tmp_path, *both)
    made = ("--data", tmp_path / "t.jsonl", "--wordnet", tmp_path)
    assert "--wordnet does nothing" in fails("evaluate", "x", "--task", "triplets", *made)
