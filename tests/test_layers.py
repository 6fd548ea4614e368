"""The architecture as a test: each package imports only those above it, and the light ones stay light."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trueneg

ORDER = [
    "version",
    "errors",
    "bounded_cache",
    "terminal",
    "workers",
    "files",
    "registry",
    "config",
    "hardware",
    "arithmetic",
    "tokenizer",
    "lexicon",
    "corpus",
    "corruption",
    "models",
    "detectors",
    "objectives",
    "training",
    "tasks",
    "evaluation",
    "reporting",
    "runs",
    "attacks",
    "recipes",
    "cli",
    "integrations",
]
LIGHT = {
    "version",
    "errors",
    "bounded_cache",
    "terminal",
    "workers",
    "files",
    "registry",
    "config",
    "tokenizer",
    "lexicon",
    "corpus",
    "reporting",
    "cli",
    "__init__",
    "__main__",
}
ENTRANCES = {"__init__", "__main__"}  # the public API and the command line, which may name anything
LAZY = re.compile(r"^(\w+(?:\.\w+)+):\w+$")  # an entry of a table of lazy names, "package.module:attribute"
SOURCE = Path(trueneg.__file__).parent


def modules(root: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield (path, layer, syntax tree) of each module; a layer is a top-level package or module."""
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        yield place, place.with_suffix("").parts[0], ast.parse(path.read_text(encoding="utf-8"))


def imported(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Give the dotted names that a statement or a lazy name in ``package`` imports; none for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else ()
        base = ".".join([*above, *([node.module] if node.module else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return LAZY.findall(node.value)
    return []


def upward_imports(root: Path, order: list[str]) -> list[str]:
    """Say which modules under ``root`` import against ``order``; of the root itself only dunder names are free."""
    name, found = root.name, []
    for place, layer, tree in modules(root):
        if layer in ENTRANCES:
            continue
        if layer not in order:
            found.append(f"{place}: the layer '{layer}' has no place in ORDER")
            continue
        for node in ast.walk(tree):
            for target in imported(node, (name, *place.parts[:-1])):
                top, _, rest = target.partition(".")
                layer_of_target = rest.partition(".")[0]
                if top != name or layer_of_target.startswith("__"):
                    continue
                if layer_of_target not in order or order.index(layer_of_target) > order.index(layer):
                    found.append(f"{place}:{node.lineno}: {layer} imports {target}")  # type: ignore[attr-defined]
    return found


def circle_of_modules(root: Path) -> list[str]:
    """Give the modules of one import circle under ``root``, deferred, lazy and type-only imports included; [] for none.

    The root's own ``__init__`` is no part of one: it may name anything.
    """
    trees = {(root.name, *place.with_suffix("").parts): tree for place, _, tree in modules(root)}
    trees = {name[:-1] if name[-1] == "__init__" else name: tree for name, tree in trees.items()}
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for name, tree in trees.items():
        package = name if (root.parent.joinpath(*name) / "__init__.py").is_file() else name[:-1]
        found = {tuple(target.split(".")) for node in ast.walk(tree) for target in imported(node, package)}
        found = {target if target in trees else target[:-1] for target in found}
        # A package around what is imported is imported, too, unless the module is in it itself.
        found |= {target[:end] for target in found for end in range(1, len(target)) if target[:end] != name[:end]}
        graph[name] = {target for target in found if target in trees and len(target) > 1} - {name}
    graph.pop((root.name,), None)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [".".join(name) for name in error.args[1]]
    return []


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs when a module is imported: no function bodies, nothing under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (inner for branch in child.orelse for inner in at_import_time(branch))
            continue
        yield child
        yield from at_import_time(child)


def torch_imports(root: Path) -> list[str]:
    """Say which light modules under ``root`` import torch when they are imported."""
    return [
        f"{place}:{node.lineno}"  # type: ignore[attr-defined]
        for place, layer, tree in modules(root)
        if layer in LIGHT
        for node in at_import_time(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        if any(target.partition(".")[0] == "torch" for target in imported(node, (root.name, *place.parts[:-1])))
    ]


def test_packages_import_only_those_above_them() -> None:
    assert upward_imports(SOURCE, ORDER) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle_of_modules(SOURCE) == []


def test_light_modules_import_no_torch() -> None:
    assert torch_imports(SOURCE) == []


def made_up(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "pkg"


def test_the_order_test_sees_every_kind_of_import(tmp_path: Path) -> None:
    bad = {
        "low/a.py": "from pkg.high import x",
        "low/b.py": "def f():\n    import pkg.high.deep",
        "low/c.py": "from ..high import x",
        "low/d.py": "from pkg import high",
        "low/e.py": "if TYPE_CHECKING:\n    from pkg.high import X",
        "low/f.py": "from pkg import public_name",
        "low/g.py": "TABLE = {'x': 'pkg.high.deep:x'}",
        "stray.py": "",
    }
    good = {
        "__init__.py": "from pkg.high import x",
        "low/__init__.py": "import json\nfrom . import a\nfrom pkg import __version__",
        "high/g.py": "from pkg.low.a import x\nfrom .deep import y\nfrom ..low import a\nimport pkgs.other",
        "high/h.py": "TABLE = {'x': 'pkg.low.a:x', 'y': 'see pkg.other:z'}",
    }
    found = upward_imports(made_up(tmp_path, bad | good), ["low", "high"])
    assert [line.partition(":")[0] for line in found] == sorted(bad)


@pytest.mark.parametrize(
    "back",
    ["from pkg.a import x", "def f():\n    from . import a", "if TYPE_CHECKING:\n    import pkg.a", "X = 'pkg.a:x'"],
)
def test_the_circle_test_sees_every_kind_of_import(tmp_path: Path, back: str) -> None:
    root = made_up(tmp_path, {"__init__.py": "from pkg.c import z", "a.py": "from pkg.b import y", "b.py": back})
    assert set(circle_of_modules(root)) == {"pkg.a", "pkg.b"}
    assert circle_of_modules(made_up(tmp_path / "straight", {"a.py": "from pkg.b import y", "b.py": ""})) == []
    around = {"a.py": "import pkg.b.c", "b/__init__.py": "import pkg.b.d", "b/c.py": "", "b/d.py": "import pkg.a"}
    assert set(circle_of_modules(made_up(tmp_path / "around", around))) == {"pkg.a", "pkg.b", "pkg.b.d"}
    inside = {"b/__init__.py": "from pkg.b.c import x", "b/c.py": "from pkg.b.d import y", "b/d.py": ""}
    assert circle_of_modules(made_up(tmp_path / "inside", inside)) == []


def test_the_torch_test_sees_import_time_only(tmp_path: Path) -> None:
    bad = {
        "config.py": "import torch.nn as nn",
        "corpus/a.py": "try:\n    from torch import Tensor\nexcept ImportError:\n    pass",
        "lexicon/b.py": "class A:\n    import torch",
    }
    good = {
        "corpus/c.py": "def f():\n    import torch",
        "corpus/d.py": "if TYPE_CHECKING:\n    import torch",
        "corpus/torch.py": "from . import torch\nimport torchless",
        "models/e.py": "import torch",
    }
    found = torch_imports(made_up(tmp_path, bad | good))
    assert [line.partition(":")[0] for line in found] == sorted(bad)


def test_each_module_of_tests_has_a_name_of_its_own() -> None:
    """pytest imports them by their file's name alone, so two of one name break the collection of the whole suite."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
