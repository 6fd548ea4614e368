"""Names from outside the package: of modules named by ``--plugin``, and of installed packages."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import World, fails, pretrain_options, works

from trueneg import registry

WritePlugin = Callable[..., str]
TOYS = Path(__file__).parents[1] / "data" / "toys.py"


@pytest.fixture
def write_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WritePlugin:
    """Write a module, and return its name; none is loaded before and after the test."""
    monkeypatch.setattr(registry, "_PLUGINS", {})
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def write(name: str, text: str) -> str:
        (folder / f"{name}.py").write_text(text)
        return name

    return write


def install(folder: Path, package: str, points: str) -> None:
    """Leave on the path what an installed package leaves there."""
    info = folder / f"{package}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(points)


DETECTOR = '''
TRUENEG = {"scorers": {"yes": "%s:make_scorer"}}

def make_scorer(leaf, resources):
    """Accepts everything."""
    import numpy as np
    from trueneg.detectors.scorers.base import SubstitutionScorer

    class Yes(SubstitutionScorer):
        def scores(self, substitutions):
            return np.ones(len(substitutions))

    return Yes()
'''


def test_names_are_listed_with_where_they_come_from(write_plugin: WritePlugin, tmp_path: Path) -> None:
    plugin = write_plugin("plugin_listed", DETECTOR % "plugin_listed")
    install(tmp_path / "modules", "toys", "[trueneg.tasks]\ntoy-task = plugin_listed:make_scorer\n")
    detectors = works("--plugin", plugin, "list", "detectors", "--json").data["detectors"]
    assert detectors["yes"] == "Accepts everything. [the plugin 'plugin_listed']"
    assert "plugin" not in detectors["lexical"]
    assert works("list", "tasks", "--json").data["tasks"]["toy-task"].endswith("[the package toys 0.1]")


def test_a_run_names_its_plugins_and_no_file_imports_them(
    world: World, write_plugin: WritePlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, run = write_plugin("plugin_of_a_run", DETECTOR % "plugin_of_a_run"), tmp_path / "run"
    asked = [*pretrain_options(world, run), "--set", "correction.detector=yes", "-q"]
    assert "unknown detector 'yes'" in fails(*asked)
    works("--plugin", plugin, *asked)
    assert json.loads((run / "config.json").read_text())["plugins"] == plugin

    monkeypatch.setattr(registry, "_PLUGINS", {})
    monkeypatch.delitem(sys.modules, plugin)
    for command in (["evaluate", run, "--corpus", world.corpus], ["report", run]):
        said = fails(*command)
        assert f"--plugin {plugin}" in said and "config.json" in said
    assert plugin not in sys.modules
    evaluating = ("evaluate", run, "--corpus", world.corpus, "--rows", 8, "--detector", "yes", "--json")
    assert works("--plugin", plugin, *evaluating).data["readings"]["corrected"] > 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import a_module_that_nobody_has", "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("1 / 0", "ZeroDivisionError"),
        ("", "TRUENEG"),
        ("TRUENEG = {'detector': {}}", "did you mean 'detectors'?"),
        ("TRUENEG = {'detectors': {'x': print}}", "TRUENEG['detectors']['x']"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(write_plugin: WritePlugin, text: str, named: str) -> None:
    plugin = write_plugin(f"plugin_torn_{abs(hash(text))}", text)
    said = fails("--plugin", plugin, "list", "tasks")
    assert f"'{plugin}'" in said and named in said


def test_an_unknown_plugin_is_named_with_the_closest_module(write_plugin: WritePlugin) -> None:
    write_plugin("plugin_of_mine", "TRUENEG = {}")
    assert "did you mean 'plugin_of_mine'?" in fails("--plugin", "plugin_of_mime", "list")


def test_a_plugin_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PLUGINS", {})
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin_next_door.py").write_text("TRUENEG = {}")
    works("--plugin", "plugin_next_door", "list")


def test_one_name_of_two_plugins_is_refused_with_both(write_plugin: WritePlugin, tmp_path: Path) -> None:
    first = write_plugin("plugin_first", 'TRUENEG = {"attacks": {"same": "plugin_first:make"}}')
    second = write_plugin("plugin_second", 'TRUENEG = {"attacks": {"same": "plugin_second:make"}}')
    said = fails("--plugin", first, "--plugin", second, "list", "attacks")
    assert f"'{first}'" in said and f"'{second}'" in said and "'same'" in said
    works("--plugin", first, "list", "objectives")  # another kind is untouched


def test_a_package_named_as_a_plugin_too_is_no_conflict(write_plugin: WritePlugin, tmp_path: Path) -> None:
    plugin = write_plugin("plugin_twice", DETECTOR % "plugin_twice")
    install(tmp_path / "modules", "twice", "[trueneg.scorers]\nyes = plugin_twice:make_scorer\n")
    assert "yes" in works("--plugin", plugin, "list", "detectors", "--json").data["detectors"]


@pytest.mark.parametrize(
    ("group", "name"),
    [("scorers", "lexical"), ("detectors", "contextual"), ("objectives", "mlm"), ("tasks", "glue/mrpc")],
)
def test_a_built_in_name_is_refused(write_plugin: WritePlugin, group: str, name: str) -> None:
    plugin = write_plugin(f"plugin_taking_{group}", f"TRUENEG = {{{group!r}: {{{name!r}: 'x:y'}}}}")
    said = fails("--plugin", plugin, "list", "detectors" if group == "scorers" else group)
    assert f"'{plugin}'" in said and f"'{name}'" in said


def test_a_name_whose_module_fails_to_import_is_named(world: World, write_plugin: WritePlugin, tmp_path: Path) -> None:
    write_plugin("plugin_broken", "raise OSError('no such drive')")
    install(tmp_path / "modules", "broken", "[trueneg.scorers]\nbroken = plugin_broken:make\n")
    assert "no such drive" in works("list", "detectors", "--json").data["detectors"]["broken"]
    said = fails(*pretrain_options(world, tmp_path / "run"), "--set", "correction.detector=broken")
    assert "'broken' of the package broken 0.1" in said and "no such drive" in said


@pytest.mark.parametrize("how", ["plugin", "package"])
def test_one_of_each_kind_from_outside(
    how: str, world: World, write_plugin: WritePlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toy objective, detector, task and attack train, evaluate, fine-tune and attack; no other file knows them."""
    monkeypatch.delitem(sys.modules, "toys", raising=False)
    text = TOYS.read_text()
    write_plugin("toys", text if how == "plugin" else text.replace("TRUENEG =", "GROUPS ="))
    options: list[object] = ["--plugin", "toys"] if how == "plugin" else []
    if how == "package":
        tables = ast.literal_eval(text.partition("TRUENEG = ")[2].partition("\n}\n")[0] + "\n}")
        points = [
            f"[trueneg.{group}]\n" + "".join(f"{name} = {target}\n" for name, target in table.items())
            for group, table in tables.items()
        ]
        install(tmp_path / "modules", "toy-package", "\n".join(points))

    run, results = tmp_path / "run", tmp_path / "results"
    training = [
        *("pretrain", "--from", world.run, "--objective", "toy-objective", "--corpus", world.corpus, "--out", run),
        *("--hard-correction", "toy-detector & toy-scorer", "--steps", 4, "--length", 24, "--batch-size", 4),
        *("--set", "objective.options=weight=0.5", "--set", "save_every=2", "--set", "log_every=1", "-q"),
    ]
    works(*options, *training)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(record["loss/odd"] > 0 for record in records if record["kind"] == "train")
    works(*options, *training, "--resume")
    assert "did you mean 'weight'" in fails(
        *options, *training[:-5], "--set", "objective.options=weigth=1", "--out", tmp_path / "other"
    )

    reading = ("evaluate", run, "--corpus", world.corpus, "--rows", 8, "--detector", "toy-detector", "--json")
    found = works(*options, *reading).data
    assert found["readings"]["corrected"] == 1
    works(*options, *reading, "--over-training")

    tuning = ("--task", "toy-task", "--data", tmp_path, "--seed", 1, "--epochs", 1, "--out", results, "--length", 16)
    works(*options, "finetune", run, *tuning, "-q")
    evaluated = works(*options, "evaluate", results / "toy-task", "--json").data["results"]
    assert [(one["task"], one["num_examples"]) for one in evaluated] == [("toy-task", 12)]
    (attacked,) = works(*options, "attack", results / "toy-task", "--attack", "toy-attack", "--json").data["attacked"]
    assert attacked["counts"]["changed"] == attacked["num_examples"] == 12


WARNING = """
import warnings
from trueneg.errors import TruenegWarning

def warn(message):
    warnings.warn(message, TruenegWarning)

TRUENEG = {}
for _ in range(3):
    warn("mind the gap")
warn("and the door")
"""


def test_the_same_warning_is_shown_once_a_command(write_plugin: WritePlugin) -> None:
    for name in ("plugin_warning", "plugin_warning_too"):
        said = works("--plugin", write_plugin(name, WARNING), "list", "detectors").err
        assert said.splitlines() == ["warning: mind the gap", "warning: and the door"]
