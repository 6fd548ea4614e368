"""What a recipe needs is looked for when it is planned, and not once hours have gone by."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.places import CLINE_FOLDERS, CONTRAST_FILES, CONTRAST_FOLDERS, GLUE_FOLDERS, files_needed, place_of
from trueneg.recipes.plan import Input, Job
from trueneg.recipes.reproduction import plan_tables
from trueneg.recipes.setting import GLUE
from trueneg.runs.demo import find_encoder
from trueneg.tasks import make_task
from trueneg.tasks.contrast_sets import read_contrast_set


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_data(tmp_path_factory.mktemp("planned") / "data")


@contextmanager
def without(*files: Path) -> Iterator[None]:
    for path in files:
        path.rename(path.with_name(f".{path.name}.hidden"))
    try:
        yield
    finally:
        for path in files:
            path.with_name(f".{path.name}.hidden").rename(path)


def fails(call: Callable[[], object], error: type[Exception]) -> bool:
    try:
        call()
    except error:
        return True
    return False


@pytest.mark.parametrize("task", [*(f"glue/{name}" for name in GLUE), "squad", *CLINE_FOLDERS])
def test_the_files_that_a_task_reads_are_asked_for(task: str, data: Path) -> None:
    """Whichever file is taken away: what reading would miss is missed when planning, and nothing else."""
    place, parts = place_of(task)
    needed = Input(data / place, place, parts, files=files_needed(place, parts))

    def read() -> None:
        made = make_task(TaskConfig(name=task, data=str(needed.path)))
        for split in (made.train_split, *made.dev_splits):
            made.read(split)

    files = [file for part in parts or ("",) for file in (needed.path / part).rglob("*") if file.is_file()]
    sets = [files] if task == "imdb" else [[], *([file] for file in files)]  # IMDb's are one review each
    found = {}
    for missing in sets:
        with without(*missing):
            found[tuple(missing)] = fails(read, TaskError), fails(needed.check_there, ConfigError)
    assert any(is_read for is_read, _ in found.values())
    assert [missing for missing, (is_read, is_asked_for) in found.items() if is_read != is_asked_for] == []


@pytest.mark.parametrize("task", GLUE)
def test_the_test_files_of_glue_are_asked_for(task: str, data: Path) -> None:
    folder = GLUE_FOLDERS[task]
    needed = Input(data / "glue", "glue", (folder,), files=files_needed("glue", (folder,), is_tested=True))
    made = make_task(TaskConfig(name=f"glue/{task}", data=str(data / "glue")))
    splits = ("test_matched", "test_mismatched") if task == "mnli" else ("test",)
    for missing in [[], *([file] for file in (data / "glue" / folder).iterdir())]:
        with without(*missing):
            is_read = [not fails(partial(made.read, split), TaskError) for split in splits]
            assert fails(needed.check_there, ConfigError) == (not all(is_read)), missing


@pytest.mark.parametrize("task", CONTRAST_FILES)
def test_every_file_of_a_contrast_set_is_asked_for(task: str, data: Path) -> None:
    place = data / "cline_eval" / CONTRAST_FOLDERS[task]
    for pattern in CONTRAST_FILES[task]:
        with without(*(file for name in pattern.split("|") for file in place.glob(name))):
            with pytest.raises(ConfigError, match="below"):
                Input(place, "contrast sets", files=CONTRAST_FILES[task]).check_there()
            with pytest.raises(TaskError):
                read_contrast_set(task, place)


@pytest.mark.parametrize(
    ("recipe", "emptied", "named"),
    [
        ("tn-table3", "glue/CoLA", r"glue: no CoLA/train.tsv below '.*glue': it comes from gluebenchmark.com"),
        ("tn-table4", "squad", r"squad: no train-v1.1.json below '.*squad': it comes from rajpurkar"),
        ("cline-table3", "cline_eval/aclImdb", r"cline_eval/aclImdb: no train/pos/\*.txt below"),
        ("cline-table7", "cline_eval/rt-polaritydata", r"rt-polaritydata: no rt-polarity.pos below"),
        ("corrections", "glue/STS-B", r"glue/STS-B: no dev.tsv below"),
    ],
)
def test_an_empty_folder_is_refused_when_planned(
    recipe: str, emptied: str, named: str, data: Path, tmp_path: Path
) -> None:
    shutil.copytree(data, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / emptied)
    (tmp_path / "data" / emptied).mkdir()
    with pytest.raises(ConfigError, match=named):
        plan_tables(recipe, tmp_path / "repro", scale="tiny", data=tmp_path / "data", seeds=1)


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_missing_test_splits_of_glue_are_refused_when_planned(scale: str, data: Path, tmp_path: Path) -> None:
    def plan(recipe: str, out: Path) -> Mapping[str, Job]:
        return plan_tables(recipe, out, scale=scale, data=data, seeds=1).workspace.plan.jobs

    with without(data / "glue" / "RTE" / "test.tsv"):
        plan("tn-table6", tmp_path)
        with pytest.raises(ConfigError, match=r"glue: no RTE/test.tsv below '.*glue': it comes from gluebenchmark.com"):
            plan("tn-table7", tmp_path)
    tested = {name: job.command for name, job in plan("tn-table7", tmp_path).items() if name.startswith("test-")}
    splits = ("--split", "test_matched", "--split", "test_mismatched")
    of_mnli = [name for name, command in tested.items() if command[-4:] == splits]
    assert {*of_mnli} == {name for name in tested if name.endswith("-mnli")}
    assert len(of_mnli) == (6 if scale == "paper" else 0), "tiny has no MNLI"


def test_an_empty_folder_of_text_is_refused_when_planned(data: Path, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    with pytest.raises(ConfigError, match=r"text: '.*text' is empty: it comes from --set text"):
        plan_tables("tn-table4", tmp_path, scale="tiny", data=data, settings=[f"text={tmp_path / 'text'}"])


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ((), r"holds no model"),
        (("config.json", "tokenizer.json"), r"holds no model.safetensors"),
        (("config.json", "model.safetensors"), r"lacks tokenizer.json"),
        (None, r"there is no checkpoint at"),
    ],
)
def test_an_encoder_that_cannot_be_loaded_is_refused_when_planned(
    files: tuple[str, ...] | None, named: str, data: Path, tmp_path: Path
) -> None:
    encoder = tmp_path / "encoder"
    if files is not None:
        encoder.mkdir()
        for file in files:
            (encoder / file).symlink_to(find_encoder() / file)
    with pytest.raises(ConfigError, match=rf"--set encoder={encoder}: .*{named}"):
        plan_tables("cline-table3", tmp_path, scale="mini", data=data, settings=[f"encoder={encoder}"])


def test_an_encoder_that_neither_the_cache_nor_the_hub_has_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set encoder=runs/bsae: 'runs/bsae' is no folder here, and the .* hub"):
        plan_tables("cline-table3", tmp_path, scale="mini", data=data, settings=["encoder=runs/bsae"])


def test_an_encoder_that_is_there_is_taken(data: Path, tmp_path: Path) -> None:
    encoder = shutil.copytree(find_encoder(), tmp_path / "encoder")
    planned = plan_tables("cline-table3", tmp_path, scale="mini", data=data, seeds=1, settings=[f"encoder={encoder}"])
    assert str(encoder) in planned.workspace.command("finetune-BERT-imdb-s1")
