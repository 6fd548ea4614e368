"""What ``--set`` changes of a recipe's plan, and what plans share."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from adversarial_squad import adversarial_squad

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset as preset_of
from trueneg.errors import ConfigError, TaskError
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.reproduction import plan_tables


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_data(tmp_path_factory.mktemp("settings") / "data")


@pytest.mark.parametrize("scale", ["tiny", "mini", "paper"])
def test_the_runs_that_table_2_looks_at_are_those_of_table_3(scale: str, data: Path, tmp_path: Path) -> None:
    def runs(recipe: str) -> set[Path]:
        planned = plan_tables(recipe, tmp_path, scale=scale, data=data).workspace
        names = [name for name in planned.plan.jobs if re.fullmatch(r"pretrain-BERT-\w+(-kept)?-s\d", name)]
        return {planned.folder(name) for name in names}

    assert runs("tn-table2") == runs("tn-table3")
    assert len(runs("tn-table2")) == (6 if scale == "paper" else 3)
    few = plan_tables("tn-table3", tmp_path, scale=scale, data=data, settings=["pretrain.train.steps=8"]).workspace
    kept = [name for name in few.plan.jobs if "keep_at" in few.command(name)]
    assert kept == [], "six shares of eight steps are not six steps"


def test_published_adversarial_squad_has_columns_of_its_own(data: Path, tmp_path: Path) -> None:
    files = [adversarial_squad(data, tmp_path / f"{name}.json") for name in ("AddSent", "AddOneSent")]
    settings = [f"adversaries.squad={file}" for file in files]

    def keys(settings: list[str]) -> dict[str, str]:
        return dict(plan_tables("tn-table5", tmp_path, scale="tiny", data=data, settings=settings).workspace.keys)

    before = keys(settings)
    assert len(before) == len(keys([])) + 2 * 3 * 3, "files, rows, seeds"
    files[0].write_text(files[0].read_text().replace("Chicago", "Boston"))
    after = keys(settings)
    assert {name for name in before if before[name] != after[name]} == {n for n in before if "-AddSent-" in n}
    with pytest.raises(TaskError, match=r"dev-v1.1.json' has 'dev-0-0' without its original"):
        keys([f"adversaries.squad={data / 'squad' / 'dev-v1.1.json'}"])
    with pytest.raises(TaskError, match=r"nowhere"):
        keys(["adversaries.squad=nowhere"])
    with pytest.raises(ConfigError, match=r"another is called AddSent, too"):
        keys([settings[0], settings[0]])


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_a_model_may_have_a_text_of_its_own(scale: str, data: Path, tmp_path: Path) -> None:
    """Zhang et al. train small models on OpenWebText and the others on Wikipedia and BooksCorpus."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "a.txt").write_text("the text of the web\n")

    def texts(recipe: str, *settings: str) -> dict[str, set[str]]:
        planned = plan_tables(recipe, tmp_path, scale=scale, data=data, seeds=1, settings=settings)
        jobs = planned.workspace.plan.jobs
        corpora = {
            job.command[job.command.index("--corpus") + 1] for job in jobs.values() if job.command[0] == "pretrain"
        }
        return {one.job: {of.name for of in jobs[one.job].inputs if "encoder" not in of.name} for one in corpora}

    made_up, own = {"corpus/made-up.txt"}, {"text of ELECTRA-small"}
    web = f"text.ELECTRA-small={tmp_path / 'web'}"
    assert all(found == made_up for found in texts("tn-table3").values())
    found = texts("tn-table3", web)
    assert {name: of == own for name, of in found.items()} == {name: "small" in name for name in found}
    assert len(found) > 1 and [*texts("tn-table4", web).values()].count(own) == 1, "that of 512 tokens has it, too"
    jobs = plan_tables("tn-table3", tmp_path, scale=scale, data=data, seeds=1, settings=[web]).workspace.plan.jobs
    assert ("tokenizer-ELECTRA-small" in jobs) == (scale == "tiny")


@pytest.mark.parametrize("recipe", ["cline-table2", "cline-table3", "cline-table5", "cline-table6"])
def test_other_tables_than_clines_fourth_select_a_learning_rate_if_they_are_told_to(
    recipe: str, data: Path, tmp_path: Path
) -> None:
    def tuned(recipe: str, *settings: str) -> dict[str, str]:
        planned = plan_tables(recipe, tmp_path, scale="tiny", data=data, seeds=2, settings=settings).workspace
        names = [name for name in planned.plan.jobs if name.startswith("finetune-") and not name.endswith("-s100")]
        return {str(planned.folder(name).name): planned.command(name) for name in names}

    plain, held_out = tuned(recipe), tuned(recipe, "select=held-out")
    assert len(plain) == len(held_out), "as many as without, but for the model that is attacked"
    assert not any("--sweep" in command for command in plain.values())
    assert all(command.count("--sweep") == 1 and "--select-on held-out" in command for command in held_out.values())
    assert not any("--set optimizer.learning_rate" in command for command in held_out.values())
    contrast = tuned(recipe, "select=contrast-set")
    on = {name: "--select-on contrast-set:" in command for name, command in contrast.items()}
    assert on == {name: "-ag-" not in name and "-mr-" not in name for name in contrast}, "which have no contrast set"
    of_table4 = held_out.keys() & tuned("cline-table4", "select=held-out").keys()
    assert of_table4 == {name for name in held_out if is_of_table4(name)}


def is_of_table4(name: str) -> bool:
    """Whether a fine-tuning is trained plainly, on all examples of a task that Table 4 has, and of a model of it."""
    others = ("FreeLB", "1pct", "10pct", "-ag-", "-mr-", "w-o")
    return not any(other in name for other in others)


@pytest.mark.parametrize("scale", ["tiny", "mini", "paper"])
@pytest.mark.parametrize("name", ["objective.cline.variant", "cline.variant"])
def test_the_released_variant_of_cline_brings_its_views_and_original_and_is_of_clines_runs_alone(
    scale: str, name: str, data: Path, tmp_path: Path
) -> None:
    def runs(*settings: str) -> dict[str, str]:
        planned = plan_tables("cline-table7", tmp_path, scale=scale, data=data, seeds=1, settings=settings).workspace
        return {job: planned.command(job) for job in planned.plan.jobs if job.startswith("pretrain-")}

    plain, released = runs(), runs(f"pretrain.{name}=released")
    of_cline = {job: command for job, command in released.items() if "CLINE" in job}
    assert of_cline and {job: command for job, command in released.items() if job not in of_cline} == {
        job: command for job, command in plain.items() if job not in of_cline
    }, "the control would refuse it"
    for command in of_cline.values():
        cline = configured(command).objective.cline
        assert (cline.variant, cline.original, cline.views.preset) == ("released", "masked", "released")
    own = runs(f"pretrain.{name}=released", "pretrain.cline.views.preset=paper")
    for command in (command for job, command in own.items() if job in of_cline):
        assert configured(command).objective.cline.views.preset == "paper", "what is set besides wins"
    with pytest.raises(ConfigError, match=rf"--set pretrain.{name}=released changes nothing of tn-table4"):
        plan_tables("tn-table4", tmp_path, scale=scale, data=data, seeds=1, settings=[f"pretrain.{name}=released"])


def configured(command: str) -> PretrainConfig:
    """What a command of a plan sets of CLINE."""
    words = shlex.split(command)
    settings = [setting for option, setting in pairwise(words) if option == "--set" and "cline." in setting]
    preset = words[2] if words[2].startswith("cline-") else ""
    return override(preset_of(preset) if preset else PretrainConfig(), settings)
