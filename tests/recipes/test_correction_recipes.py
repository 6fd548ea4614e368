"""The recipe of ways to treat false negatives: what it runs, and how its figures become verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from answered_corrections import answer

from trueneg.errors import ConfigError
from trueneg.recipes.corrections import ONE_HOT
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.reproduction import Planned, plan_tables

SEEDS = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_data(tmp_path_factory.mktemp("corrections") / "made-up-data")


def planned(out: Path, data: Path, *arms: str, scale: str = "tiny", recipe: str = "corrections") -> Planned:
    return plan_tables(recipe, out, scale=scale, data=data, seeds=SEEDS, arms=arms)


@pytest.mark.parametrize(
    ("arm", "given", "not_given"),
    [
        ("", [], ["--hard-correction", "smoothing"]),
        ("HC", ["lexical[forms=retrieved]"], ["correction.use", "smoothing"]),
        ("soft", ["lexical[forms=retrieved]", "correction.use=soft_targets"], ["smoothing"]),
        ("smoothing", ["smoothing.source=uniform"], ["--hard-correction"]),
        ("self", ["smoothing.source=self"], ["--hard-correction", "share"]),
        ("soft in context", ["@0.62 & fits", "correction.use=soft_targets"], ["smoothing"]),
        ("soft in context 0.5", ["@0.5 & fits", "correction.use=soft_targets"], ["smoothing"]),
        ("soft in context vetoed", ["@0.62 & fits & !derived & !proper", "use=soft_targets"], ["smoothing"]),
        ("self in context", ["@0.62 & fits", "use=restrict", "source=self", "share=0.5"], ["soft_targets"]),
    ],
)
def test_an_arm_is_its_options(arm: str, given: list[str], not_given: list[str], data: Path, tmp_path: Path) -> None:
    found = planned(
        tmp_path, data, "soft", "soft in context 0.5", "soft in context vetoed", "self in context", scale="mini"
    ).workspace
    command = found.command("-".join(filter(None, ("pretrain-BERT-base", arm.replace(" ", "-"), "1000-s3"))))
    assert "--steps 1000" in command and "--seed 3" in command
    assert all(one in command for one in given) and not any(one in command for one in not_given)


def test_prototypes_read_online_where_a_scale_reads_little_of_its_text(data: Path, tmp_path: Path) -> None:
    jobs = {scale: planned(tmp_path, data, scale=scale).workspace.plan.jobs.keys() for scale in ("mini", "small")}
    assert "prototypes-BERT-base" in jobs["mini"] & jobs["small"]
    assert "annotate-BERT-base" in jobs["small"] - jobs["mini"]
    odd = planned(tmp_path / "repro (1)", data, scale="small").workspace
    (given,) = [
        word for word in odd.arguments("pretrain-BERT-base-soft-in-context-s1") if word.startswith("annotated:")
    ]
    assert given.startswith('annotated:"') and given.endswith('/notes"') and "repro (1)" in given


MEANS = {"soft-in-context": 0.5, "self": 0.45, "smoothing": 0.45, ONE_HOT: 0.4, "HC": 0.42}


def test_each_link_of_the_claim_is_judged_over_seeds(data: Path, tmp_path: Path) -> None:
    found = planned(tmp_path, data)
    noise = {
        **{"soft-in-context": [0.0, 0.001, 0.002, 0.001], "smoothing": [0.001, 0.0, 0.001, 0.002], "self": [0.0] * 4},
        **{ONE_HOT: [0.002, 0.001, 0.0, 0.001], "HC": [0.0, 0.002, 0.001, 0.001]},
    }
    answer(
        found.workspace,
        {arm: [mean + one for one in noise[arm]] for arm, mean in MEANS.items()},
    )
    table = found.readers["corrections"](found.workspace, "corrections", "mini")
    cells = {column: table.cell("soft in context", column) for column in table.columns}
    assert {column: round(cell.mean or 0, 6) for column, cell in cells.items() if cell} == {
        **{"F10": 10.0, "F10 conceivable": 20.0, "GAP": 50.1, "F10 visible": 10.0, "GAP visible": 50.1},
        **{"STS-B": 40.0, "gold loss": 3.5},
    }
    verdicts = {(claim.row, claim.baseline): claim.verdict for claim in table.claims if claim.column == "GAP"}
    assert verdicts == {
        ("soft in context", "self"): "confirmed",
        ("self", "smoothing"): "not resolved",
        ("smoothing", ONE_HOT): "confirmed",
        (ONE_HOT, "HC"): "contradicted",
        ("soft in context", ONE_HOT): "confirmed",
    }
    assert {claim.verdict for claim in table.claims if claim.column == "F10"} == {"not resolved"}


def test_another_threshold_is_compared_with_self_distillation_too(data: Path, tmp_path: Path) -> None:
    found = planned(tmp_path, data, "soft in context 0.5", "soft")
    answer(found.workspace, {arm: [0.4, 0.5, 0.6, 0.5] for arm in [*MEANS, "soft-in-context-0.5", "soft"]})
    table = found.readers["corrections"](found.workspace, "corrections", "mini")
    further = [(claim.row, claim.baseline) for claim in table.claims if claim.column == "GAP"][5:]
    assert further == [("soft in context 0.5", ONE_HOT), ("soft", ONE_HOT), ("soft in context 0.5", "self")]


@pytest.mark.parametrize("scale", ["tiny", "mini", "small", "paper"])
def test_glue_comes_after_the_same_runs(scale: str, data: Path, tmp_path: Path) -> None:
    names = ("corrections", "corrections-glue")
    first, second = (planned(tmp_path, data, recipe=name, scale=scale).workspace for name in names)
    runs = {name: key for name, key in first.keys.items() if name.startswith("pretrain-")}
    assert len(runs) == 5 * SEEDS and runs.items() <= second.keys.items()
    tasks = {name.split("glue-")[1].rpartition("-")[0] for name in second.plan.jobs if name.startswith("finetune")}
    assert tasks == {"cola", "sst2", "mrpc", "rte"}


def test_judgements_that_are_missing_are_named(data: Path, tmp_path: Path) -> None:
    for place in data.iterdir():
        if place.name != "substitution":
            (tmp_path / place.name).symlink_to(place)
    with pytest.raises(ConfigError, match=r"substitution: .*swords.*comes from github.com/p-lambda/swords"):
        planned(tmp_path / "out", tmp_path)
