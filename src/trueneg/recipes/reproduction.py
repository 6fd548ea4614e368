"""``trueneg reproduce``: plans a paper's tables, runs what is missing, and reads the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trueneg.errors import ConfigError, ModelError, unknown_name
from trueneg.evaluation.results.reproduction import ReproducedTable, save_table
from trueneg.files.lock import locked
from trueneg.files.records import read_record
from trueneg.files.whole import write_json, write_whole
from trueneg.models.loading import check_checkpoint
from trueneg.recipes import cline, corrections, true_negatives
from trueneg.recipes.execution import run_jobs
from trueneg.recipes.joining import done_elsewhere
from trueneg.recipes.made_up_data import made_up_data
from trueneg.recipes.places import SOURCES
from trueneg.recipes.plan import Finished, Workspace, changes
from trueneg.recipes.scales import find_scale
from trueneg.recipes.setting import ARMS, Setting, Settings
from trueneg.recipes.tables import Read
from trueneg.reporting.reproduced import markdown, reproduced_tables

TABLES: dict[str, Callable[[Setting, Sequence[str]], Read]] = {
    **true_negatives.RECIPES,
    **cline.RECIPES,
    **corrections.RECIPES,
}
"""Name of a recipe to the function that plans its jobs and returns one that reads their results."""
ALL = "all"
PILOT = (
    "pilot is cline-table2 now: trueneg reproduce cline-table2 --data DIR --set encoder=CHECKPOINT "
    "--set adversaries.imdb=FILE (without it, the examples are made)"
)
PLAN, MARKDOWN, MADE_UP = "plan.json", "table.md", "made-up-data"


@dataclass(frozen=True)
class Planned:
    """Recipes in a folder, before they are run."""

    workspace: Workspace
    readers: dict[str, Read]
    scale: str
    arms: Sequence[str] = ()
    settings: Sequence[str] = ()

    def minutes(self) -> float:
        """Estimate the time of the remaining jobs, run one after another."""
        return sum(self.workspace.plan.jobs[name].minutes for name in self.workspace.missing())


_FURTHER: Mapping[str, tuple[str, ...]] = {
    "tn-table2": (),
    "tn-cost": (),
    "cline-table2": ("SMART",),
    "cline-table3": (),
    "cline-table7": (),
}
"""Recipes whose rows are not ways of pre-training, to the further rows that they support."""


def plan_tables(
    recipe: str,
    out: str | Path,
    *,
    scale: str = "mini",
    data: str | Path = "",
    seeds: int = 3,
    seed: int = 0,
    join: Sequence[str | Path] = (),
    arms: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> Planned:
    """Plan the jobs of one recipe, or of all.

    Args:
        recipe: A name from ``TABLES``, or ``all``.
        out: Folder of all recipes: jobs that they share are run once.
        scale: A name from ``SCALES``.
        data: The folder with corpus/, glue/, squad/, …; ``tiny`` generates its own.
        seeds: Runs of each arm, with seeds 1, 2, …, for both pre-training and fine-tuning.
        seed: Run only this seed; 0 to run ``seeds`` of them.
        join: Folders of the same recipe that other machines wrote, or their ``table.json``: jobs whose
            figures they have are not run again.
        arms: Further ways of pre-training from ``ARMS`` that the paper does not have.
        settings: ``encoder=…``, ``text=…``, ``text.MODEL=…``, ``pretrain.OPTION=…`` and ``finetune.OPTION=…``.

    Raises:
        ConfigError: for unknown names, missing data, a missing encoder, a setting that no job uses, or a table to join
            that is of another plan.
        TaskError: for a table to join that is missing or damaged.
    """
    if recipe not in TABLES and recipe != ALL:
        raise ConfigError(unknown_name("recipe", recipe, [*TABLES, ALL]))
    arms = list(dict.fromkeys(arms))
    for arm in arms:
        if not arm or arm not in ARMS:
            raise ConfigError(unknown_name("arm", arm, [name for name in ARMS if name]))
    if idle := [arm for arm in arms if arm not in _FURTHER.get(recipe, arms)]:
        known = f"it knows {', '.join(_FURTHER[recipe])}" if _FURTHER[recipe] else "it has none: leave --arms out"
        raise ConfigError(f"--arms {idle[0]}: no further row of {recipe}: {known}")
    sizes, folder = find_scale(scale), Path(out)
    if folder.is_file():
        raise ConfigError(f"--out {folder} is a file: name a folder")
    if sizes.is_made_up and not data:
        data = made_up_data(folder / MADE_UP)
    if not data or not Path(data).is_dir():
        given = f"--data {data}: no such folder" if data else f"--scale {scale} reads --data"
        raise ConfigError(f"{given}: name the folder that holds {', '.join(f'{place}/' for place in SOURCES)}")
    for option, number in (("seeds", seeds), ("seed", seed or 1)):
        if number < 1:
            raise ConfigError(f"{option} must be at least 1, got {number}")
    all_seeds = [seed] if seed else range(1, seeds + 1)
    setting = Setting(sizes, Path(data), all_seeds, Settings.parse(settings))
    names = list(TABLES) if recipe == ALL else [recipe]
    readers = {name: TABLES[name](setting, arms) for name in names}
    setting.refuse_idle(settings, f"{recipe} at --scale {scale}")
    _check_encoder(setting.settings.encoder)
    workspace = Workspace.open(folder, setting.plan)
    workspace = replace(workspace, joined_jobs=done_elsewhere(workspace, recipe, join))
    return Planned(workspace, readers, scale, arms, [*map(_without_place, settings)])


def _check_encoder(name: str) -> None:
    """Raise for a checkpoint that no job could load; the scales' own are known to be on the hub."""
    try:
        if name:
            check_checkpoint(name)
    except ModelError as error:
        raise ConfigError(f"--set encoder={name}: {error}") from error


def _without_place(setting: str) -> str:
    key, equals, value = setting.partition("=")
    return f"{key}{equals}{Path(value).name if Path(value).exists() else value}"


def run_tables(
    planned: Planned, workers: int = 1, say: Callable[[str], None] = lambda message: None
) -> dict[str, ReproducedTable]:
    """Run the remaining jobs, and write each recipe's ``table.json`` and ``table.md``.

    Raises:
        JobError: if jobs failed, naming the first.
        TaskError: for results that are damaged.
        Interrupted: after Ctrl-C; what is done is kept.
    """
    workspace = planned.workspace
    with locked(workspace.root, "reproduce"), _noted(workspace, say):
        total, missing = len(workspace.plan.jobs), len(workspace.missing())
        say(f"{total} jobs, {total - missing} of them done before{' or elsewhere' if workspace.joined_jobs else ''}")
        run_jobs(workspace, workers, say)
        found = {}
        for name, read in planned.readers.items():
            table = read(workspace, name, planned.scale)
            found[name] = replace(table, arms=[*planned.arms], settings=[*planned.settings])
            save_table(found[name], workspace.root / name)
            write_whole(workspace.root / name / MARKDOWN, markdown(reproduced_tables(found[name])))
        return found


def read_plan(root: Path) -> dict[str, Finished]:
    """Read the jobs of all recipes that were ever run in a folder, by name, as last planned.

    Raises:
        ConfigError: for a damaged ``plan.json``.
    """
    path = root / PLAN
    return read_record(dict[str, Finished], path, ConfigError, f"remove '{path}'") if path.is_file() else {}


@contextmanager
def _noted(workspace: Workspace, say: Callable[[str], None]) -> Iterator[None]:
    """Report what changed since the last plan, and save the current one."""
    before = read_plan(workspace.root)
    for change in changes(before, workspace):
        say(f"{change}: it and what needs it are done again")
    workspace.root.mkdir(parents=True, exist_ok=True)
    plan = before | {name: workspace.finished(name) for name in workspace.plan.jobs}
    write_json(workspace.root / PLAN, {name: asdict(job) for name, job in plan.items()})
    yield


def listed() -> list[tuple[str, str, str]]:
    """List the recipes: name, source and title."""
    from trueneg.recipes import papers

    printed = {name: getattr(papers, name.upper().replace("-", "_")) for name in TABLES}
    return [(name, table.source, table.title) for name, table in printed.items()]
