"""``import trueneg`` costs nothing, and every module can be the first one imported."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import textwrap

import pytest

import trueneg

HEAVY = {
    "torch",
    "transformers",
    "datasets",
    "numpy",
    "scipy",
    "matplotlib",
    "sklearn",
    "textblob",
    "lemminflect",
}
WITHOUT_TORCH = ("errors", "registry", "config", "tokenizer", "lexicon", "corpus", "reporting", "cli")
MODULES = ["trueneg", *(module.name for module in pkgutil.walk_packages(trueneg.__path__, "trueneg."))]

# A forked child a module: each import starts from the parent's state and no other module's.
IMPORT_EACH = textwrap.dedent("""
    import importlib, os, sys, traceback
    modules, forbidden = (argument.split() for argument in sys.argv[1:])
    failed = False
    for name in modules:
        if child := os.fork():
            failed |= os.waitpid(child, 0)[1] != 0
            continue
        try:
            importlib.import_module(name)
            loaded = [heavy for heavy in forbidden if heavy in sys.modules]
            assert not loaded, f"import {name} loads {loaded}"
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    sys.exit(failed)
""")


def import_each(modules: list[str], forbidden: list[str]) -> subprocess.CompletedProcess[str]:
    arguments = (" ".join(names) for names in (modules, forbidden))
    return subprocess.run([sys.executable, "-c", IMPORT_EACH, *arguments], capture_output=True, text=True)


def is_without_torch(module: str) -> bool:
    return module == "trueneg" or module.split(".")[1] in WITHOUT_TORCH


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import json, sys, trueneg; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name != "trueneg.__main__"])
def test_every_module_imports(name: str) -> None:
    """In any order, as no circle joins them: see ``test_layers.py``."""
    importlib.import_module(name)


def test_light_modules_load_no_torch_through_others() -> None:
    done = import_each([name for name in MODULES if is_without_torch(name)], ["torch", "transformers"])
    assert done.returncode == 0, done.stderr


def test_a_failing_and_a_heavy_import_are_seen() -> None:
    done = import_each(["json", "no_such_module", "scipy"], ["numpy"])
    assert done.returncode == 1
    assert "No module named 'no_such_module'" in done.stderr
    assert "import scipy loads ['numpy']" in done.stderr
    assert "import json" not in done.stderr
