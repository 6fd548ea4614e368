"""Each model is compared with a baseline of its tasks, its encoder and its text, or the page says why it is not."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from page_reader import Page
from test_html import make_run
from typer.testing import CliRunner

from made_up_results import guesses, labels, write_result
from trueneg.cli.main import app
from trueneg.corpus.store import CorpusInfo, SourceInfo, SplitInfo
from trueneg.errors import ConfigError
from trueneg.evaluation.results.summary import read_runs
from trueneg.reporting import findings
from trueneg.reporting.baselines import Lineage, Tuned, group, lineage_of_checkpoint, put_first
from trueneg.reporting.html import write_report
from trueneg.reporting.sources import read_sources

RTE, MRPC = "glue/rte", "glue/mrpc"


def tuned(folder: Path, *tasks: str, share: float = 0.7, parameters: int = 0, model: str = "made-up") -> Path:
    gold = labels(300)
    for task in tasks:
        for seed in (1, 2, 3):
            columns = {"gold": gold, "predicted": guesses(gold, share, 1000 * seed + int(1000 * share))}
            write_result(folder, task, seed, columns, train={"parameters": parameters}, model=model)
    return folder


def pairs(*folders: Path, forced: str = "") -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    found = group({folder.name: Tuned.of(read_runs(folder)) for folder in folders}, forced)
    return {
        name: {one: [task for task, _ in keys] for one, keys in of.items()} for name, of in found.contenders.items()
    }, [*found.apart]


def words(tmp_path: Path, *folders: Path, baselines: tuple[Path, ...] = ()) -> str:
    return Page(write_report(folders, tmp_path / "page.html", baselines=baselines).read_text()).words


def test_each_task_has_its_own_baseline(tmp_path: Path) -> None:
    folders = [
        tuned(tmp_path / name, task, share=share)
        for name, task, share in (
            *(("base-rte", RTE, 0.6), ("hc-rte", RTE, 0.8)),
            *(("base-mrpc", MRPC, 0.8), ("hc-mrpc", MRPC, 0.6)),
        )
    ]
    compared, apart = pairs(*folders)
    assert compared == {"base-rte": {"hc-rte": [RTE]}, "base-mrpc": {"hc-mrpc": [MRPC]}}
    ((name, other, why),) = apart
    assert (name, other) == ("base-mrpc", "base-rte")
    assert "no labelled task and split in common" in why and why.endswith("it is the baseline of hc-mrpc")
    page = words(tmp_path, *folders)
    assert "hc-rte against base-rte, glue/rte" in page and "hc-mrpc against base-mrpc, glue/mrpc" in page
    assert "2 comparisons: 1 better than the baseline, 1 worse, 0 not known. 1 more cannot be compared" in page


def test_baselines_of_tasks_in_folders_of_their_own_share_a_contender(tmp_path: Path) -> None:
    folders = [tuned(tmp_path / "a", RTE), tuned(tmp_path / "b", RTE, MRPC), tuned(tmp_path / "c", MRPC, RTE)]
    compared, apart = pairs(*folders)
    assert compared == {"a": {"b": [RTE], "c": [RTE]}, "b": {"c": [MRPC]}} and not apart
    page = words(tmp_path, *folders)
    assert "3 comparisons" in page and "c against b, glue/rte" not in page  # c has its baseline of RTE


def test_each_encoder_has_its_own_baseline_and_names_tell_them_apart(tmp_path: Path) -> None:
    folders = [
        tuned(tmp_path / encoder / way, RTE, share=share, parameters=parameters)
        for encoder, parameters in (("bert", 110), ("electra", 14))
        for way, share in (("base", 0.6), ("hc", 0.8))
    ]
    page = words(tmp_path, *folders)
    assert "bert/hc against bert/base, glue/rte" in page and "electra/hc against electra/base, glue/rte" in page
    assert "electra/base against bert/base, fine-tuned models: no figure" in page
    assert "another encoder: 14 parameters, and not 110; it is the baseline of electra/hc" in page
    assert "electra/hc against bert" not in page


def test_notes_name_folders_as_the_page_does(tmp_path: Path) -> None:
    """By more than the last part, which tells the folders of one comparison apart and not all of them."""
    folders = [
        tuned(tmp_path / encoder / way, RTE, *more, parameters=parameters)
        for encoder, parameters in (("bert", 110), ("electra", 14))
        for way, more in (("base", [MRPC]), ("hc", []))
    ]
    shutil.rmtree(tmp_path / "electra" / "hc" / "rte" / "seed-3")
    page = words(tmp_path, *folders)
    assert "seeds 3 of electra/base are not used" in page and "of base " not in page
    assert "only in bert/base: glue/mrpc dev" in page and "in base:" not in page


def test_a_single_model_of_another_encoder_is_compared_only_where_that_is_asked_for(tmp_path: Path) -> None:
    bert, electra = (tuned(tmp_path / name, RTE, parameters=n) for name, n in (("bert", 110), ("electra", 14)))
    page = words(tmp_path, bert, electra)
    assert "Nothing of what is here can be compared" in page and "name the folder of bert with --baseline" in page
    page = words(tmp_path, bert, electra, baselines=(bert,))
    assert "1 comparison" in page and "another encoder: 14 parameters, and not 110" in page
    assert "bert against electra, glue/rte" in words(tmp_path, bert, electra, baselines=(electra,))


def test_several_named_baselines_are_each_those_of_their_encoder(tmp_path: Path) -> None:
    sizes = {"bert-hc": 110, "bert": 110, "electra-hc": 14, "electra": 14}
    folders = {name: tuned(tmp_path / name, RTE, parameters=size) for name, size in sizes.items()}
    page = words(tmp_path, *folders.values(), baselines=(folders["bert"], folders["electra"]))
    assert "bert-hc against bert, glue/rte" in page and "electra-hc against electra, glue/rte" in page
    assert "electra against bert, fine-tuned models: no figure" in page


def corpus(folder: Path, *files: tuple[str, int]) -> Path:
    """As much of a corpus as says what it was built of."""
    folder.mkdir()
    special = {"pad": 0, "start": 1, "end": 2}
    sources = tuple(SourceInfo(*file) for file in files)
    info = CorpusInfo("tokenizer", 9, special, "uint16", {"train": SplitInfo()}, sources)
    (folder / "corpus.json").write_text(json.dumps(asdict(info.with_fingerprint())))
    return folder


def test_models_of_other_text_are_not_compared(tmp_path: Path) -> None:
    wiki, med = corpus(tmp_path / "wiki", ("wiki.txt", 5)), corpus(tmp_path / "med", ("med.txt", 7))
    tagged = corpus(tmp_path / "tagged", ("elsewhere/wiki.txt", 5))
    runs = {
        "wiki-base": [f"corpus.path={wiki}"],
        "wiki-cline": [f"corpus.path={tagged}", "objective.name=mlm"],
        "med-base": [f"corpus.path={med}"],
        "med-hc": [f"corpus.path={med}"],
        "both": [f"corpus.path={med}", f"model.start_from={tmp_path / 'runs' / 'wiki-base' / 'hf'}"],
    }
    folders = []
    for name, settings in runs.items():
        run = make_run(tmp_path / "runs", name, [4.0, 3.0], *settings)
        folders.append(tuned(tmp_path / "results" / name, RTE, model=str(run / "hf")))
    compared, ((name, other, why),) = pairs(*folders)
    assert compared == {
        "wiki-base": {"wiki-cline": [RTE], "both": [RTE]},  # the same text in another corpus; and one that read on
        "med-base": {"med-hc": [RTE]},
    }
    assert (name, other) == ("med-base", "wiki-base")
    assert "pre-trained on other text: " in why and "/med, and not " in why
    assert len(lineage_of_checkpoint(str(tmp_path / "runs" / "both")).texts) == 2


def test_what_is_not_known_of_a_checkpoint_speaks_against_nothing(tmp_path: Path) -> None:
    assert lineage_of_checkpoint("bert-base-uncased") == Lineage()
    assert not Lineage().why_other(Lineage("bert", {"wiki": "wiki"}))
    fine_tuned = tmp_path / "seed-1"
    fine_tuned.mkdir()
    (fine_tuned / "config.json").write_text('{"epochs": 3}')
    (fine_tuned / "metrics.jsonl").touch()
    assert lineage_of_checkpoint(str(fine_tuned)) == Lineage()
    circle = make_run(tmp_path, "circle", [4.0], f"model.start_from={tmp_path / 'circle'}", "corpus.path=wiki")
    assert lineage_of_checkpoint(str(circle)).texts == {"wiki": "wiki"}


def test_each_run_has_the_first_baseline_whose_losses_can_be_compared(tmp_path: Path) -> None:
    rows = {"short": "corpus.length=32", "long": "corpus.length=64"}
    folders = [
        make_run(tmp_path, f"{length}-{way}", [4.0, loss], setting, f"optimizer.learning_rate={rate}")
        for length, setting in rows.items()
        for way, loss, rate in (("base", 3.5, 1e-4), ("hc", 3.0, 1e-3))
    ]
    other = make_run(tmp_path, "wide", [4.0, 3.0], "corpus.length=64", "model.hidden_size=512")
    found = findings.of_runs(read_sources([*folders, other]).runs)
    assert [(one.contender, one.baseline, one.gain is not None) for one in found] == [
        ("short-hc", "short-base", True),
        ("long-base", "short-base", False),
        ("long-hc", "long-base", True),
        ("wide", "short-base", False),
    ]
    assert found[1].reason.endswith("; it is the baseline of long-hc")
    (apart,) = findings.of_runs(read_sources([folders[2], other]).runs)
    assert "their encoders differ" in apart.reason and "of 512, from nothing" in apart.reason


def test_a_baseline_that_is_not_there_or_does_nothing_is_refused(tmp_path: Path) -> None:
    base, other = tuned(tmp_path / "base", RTE), tuned(tmp_path / "other", RTE)
    assert put_first([base, other], [other]) == [other, base]
    with pytest.raises(ConfigError, match=r"--baseline .*nowhere: not among the folders of the report"):
        write_report([base, other], tmp_path / "page.html", baselines=[tmp_path / "nowhere"])
    said = CliRunner().invoke(app, ["report", str(base), str(other), "--baseline", str(base)])
    assert "--baseline does nothing beside a table" in str(said.exception)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(base), str(other), "--baseline", str(other), "--out", str(page)])
    assert done.exit_code == 0 and "base against other, glue/rte" in Page(page.read_text()).words
