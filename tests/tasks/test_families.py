"""What can be known of every task before it has data: its class, what it is, whether it can be attacked."""

from __future__ import annotations

import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError
from trueneg.tasks import ABOUT, make_task, task_class
from trueneg.tasks.base import Task
from trueneg.tasks.cline import CLINE
from trueneg.tasks.glue import GLUE
from trueneg.tasks.squad import SquadTask


@pytest.mark.parametrize("name", sorted(ABOUT))
def test_every_task_has_a_class_that_says_what_it_is(name: str) -> None:
    found = task_class(name)
    assert issubclass(found, Task) and found.kind in ("text", "squad", "tagging") and found.auto_class
    with pytest.raises(ConfigError, match="--data"):
        make_task(TaskConfig(name=name))


def test_the_tables_of_families_are_all_listed() -> None:
    own = {"squad", "squad/v2.0", "classification", "regression", "tagging"}
    assert own | {f"glue/{name}" for name in GLUE} | CLINE.keys() == ABOUT.keys()
    assert {task_class(name).preset_family for name in ABOUT if task_class(name) is SquadTask} == {"squad"}


@pytest.mark.parametrize(
    ("name", "meant"), [("glue/mprc", "glue/mrpc"), ("squad/v3", "squad/v2.0"), ("imbd", "imdb"), ("glue", "glue/ax")]
)
def test_a_task_that_there_is_not_is_refused_with_the_closest(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"'{meant}'"):
        task_class(name)
