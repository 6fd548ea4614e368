"""A dose of every fault; ``make faults`` deals out hundreds."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.both import both_all
from faults.disk import fill_all
from faults.flips import KINDS, flip_all
from faults.formats import FORMATS, Place
from faults.kills import SAVING, kill_all
from faults.mutations import as_text, mutated_value
from faults.world import World

SRC = Path(__file__).parents[2] / "src" / "trueneg"
# Of what no other test hurts; training, builds and fine-tuning are killed in tests of their own, too.
KILLED = ("pretrain --from", "corpus build --part", "corpus finish", "corpus annotate", "reproduce planted", "attack")
HELD = ("corpus annotate", "attack")
WRITING = ("detect prototypes", "export sentence-transformers")
FLIPPED = ("corpus: tokens", "arrays of a journal", "fine-tuning: best weights")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("faults") / "world")


@pytest.mark.slow
@pytest.mark.parametrize("verb", KILLED)
def test_killed_at_random_a_command_given_again_ends_as_ever(verb: str, world: World, tmp_path: Path) -> None:
    ((_, tally),) = kill_all(world, tmp_path, 1, 1, (signal.SIGKILL,), [verb])
    assert tally.faults == []
    assert tally.hits == 1 <= tally.same


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["corpus annotate"])
def test_told_to_stop_a_command_saves_and_goes_on(verb: str, world: World, tmp_path: Path) -> None:
    ((_, tally),) = kill_all(world, tmp_path, 1, 2, SAVING, [verb])
    assert tally.faults == []
    assert tally.hits == 1 <= tally.same


@pytest.mark.slow
@pytest.mark.parametrize("verb", HELD)
def test_a_second_process_is_refused_by_name(verb: str, world: World, tmp_path: Path) -> None:
    ((_, tally),) = both_all(world, tmp_path, [verb])
    assert tally.faults == []


@pytest.mark.slow
@pytest.mark.parametrize("verb", WRITING)
def test_a_bad_disk_is_told_in_a_line(verb: str, world: World, tmp_path: Path) -> None:
    ((_, tally),) = fill_all(world, tmp_path, 1, 1, [verb])
    assert tally.faults == []
    assert 0 < tally.refused <= tally.trials == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLIPPED)
def test_a_flipped_byte_is_noticed_or_harmless(kind: str, world: World, tmp_path: Path) -> None:
    ((_, tally),) = flip_all(world, tmp_path, 1, 1, [kind])
    assert tally.faults == []
    assert tally.flips == tally.noticed + tally.harmless + tally.read == 1


@pytest.fixture(scope="module")
def places(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """A file of every format, as the code or its authors made it."""
    root = tmp_path_factory.mktemp("formats")
    return {name: Place(world, format, root / str(number)) for number, (name, format) in enumerate(FORMATS.items())}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_or_refused(name: str, places: dict[str, Place]) -> None:
    place = places[name]
    place.check()

    @settings(
        deadline=None,
        derandomize=True,
        max_examples=max(1, 30 // place.format.cost),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def mutations(choose: random.Random) -> None:
        assert place.read(place.mutated(choose)) in ("accepted", "refused")

    mutations()


def test_every_module_that_decodes_json_has_its_formats_here() -> None:
    decodes = re.compile(r"\bjson\.loads?\(|\b(parse_record|read_record|read_record_lines|read_versioned)\(")
    found = {
        ".".join(path.relative_to(SRC).with_suffix("").parts)
        for path in SRC.rglob("*.py")
        if decodes.search(path.read_text(encoding="utf-8"))
    }
    covered = {module for format in FORMATS.values() for module in format.modules}
    assert found - covered - {"files.records"} == set(), "give each a line in faults/formats.py"
    assert covered <= found, "these decode no JSON any more"


def test_mutations_reach_every_part_of_a_file() -> None:
    """A harness that changes nothing finds nothing."""
    value = {"a": [1, {"b": "x"}], "c": None}
    texts = {as_text(mutated_value(value, random.Random(seed))) for seed in range(500)}
    assert len(texts) > 300
    assert value == {"a": [1, {"b": "x"}], "c": None}
    for sign in (b"NaN", b"1e999", b"[" * 1000, b"9" * 1000, b"../", b"\\ud83d"):
        assert any(sign in text for text in texts)
    assert any(b'"c"' not in text for text in texts) and any(b"unknown" in text for text in texts)


def test_kinds_of_files_have_names_of_their_own() -> None:
    assert len({(kind.copied, kind.files, kind.argv) for kind in KINDS.values()}) == len(KINDS)
