"""The set-up scripts on machines made of stubs: which Python, and which of the ways to WordNet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


class Machine:
    """A folder that is the whole PATH, with stub commands that write what they are asked to ``log``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "bin", folder / "log"
        self.folder.mkdir()
        self.log.touch()
        self.tool("sh")
        self.tool("env")

    def tool(self, name: str) -> None:
        """Put a real tool of this machine there."""
        (self.folder / name).symlink_to(shutil.which(name, path=os.defpath) or name)

    def command(self, name: str, body: str = "") -> str:
        """Add a stub; its body is shell, its calls are logged."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.log}"\n{body}\n')
        path.chmod(0o755)
        return str(path)

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of ``scripts/`` on this machine."""
        environment = {"PATH": str(self.folder), "HOME": str(self.folder.parent)} | variables
        command = [str(ROOT / "scripts" / script), *arguments]
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def calls(self, name: str) -> list[str]:
        """Give what a stub was asked, call by call."""
        lines = self.log.read_text().splitlines()
        return [line.removeprefix(name).strip() for line in lines if line.split(" ")[0] == name]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def python_with_wordnet(machine: Machine, found: bool = False) -> str:
    """Add a Python that finds WordNet once the file ``wordnet`` exists, and whose fetch makes that file."""
    wordnet = machine.folder.parent / "wordnet"
    if found:
        wordnet.touch()
    return machine.command(
        "python",
        f'case "$*" in *"  fetch_wordnet()"*) [ -z "$OFFLINE" ] && : >"{wordnet}";; *) [ -e "{wordnet}" ];; esac',
    )


def apt_get(machine: Machine, works: bool = True) -> None:
    install = f'case "$*" in *wordnet-base*) : > "{machine.folder.parent / "wordnet"}" ;; esac'
    machine.command("apt-get", install if works else "exit 100")


INSTALL = "install -qq -y --no-install-recommends wordnet-base"


def test_wordnet_that_is_there_is_kept(machine: Machine) -> None:
    apt_get(machine)
    machine.command("id", "echo 0")
    done = machine.run("install-wordnet", python_with_wordnet(machine, found=True))
    assert done.returncode == 0
    assert machine.calls("apt-get") == []
    assert len(machine.calls("python")) == 1


def test_root_installs_the_package(machine: Machine) -> None:
    apt_get(machine)
    machine.command("id", "echo 0")
    done = machine.run("install-wordnet", python_with_wordnet(machine))
    assert done.returncode == 0, done.stderr
    assert machine.calls("apt-get") == ["update -qq", INSTALL]
    assert "fetch_wordnet" not in machine.log.read_text()


def test_a_user_with_sudo_installs_the_package(machine: Machine) -> None:
    apt_get(machine)
    machine.command("id", "echo 1000")
    machine.command("sudo", 'shift\n[ "$1" = true ] || "$@"')
    done = machine.run("install-wordnet", python_with_wordnet(machine))
    assert done.returncode == 0, done.stderr
    assert machine.calls("sudo")[0] == "-n true"
    assert machine.calls("apt-get") == ["update -qq", INSTALL]


@pytest.mark.parametrize("why", ["no sudo", "sudo asks for a password", "no apt-get", "apt-get fails"])
def test_otherwise_it_is_fetched(machine: Machine, why: str) -> None:
    machine.command("id", "echo 0" if why.endswith(("apt-get", "fails")) else "echo 1000")
    if why == "sudo asks for a password":
        machine.command("sudo", "exit 1")
    if why != "no apt-get":
        apt_get(machine, works=why != "apt-get fails")
    done = machine.run("install-wordnet", python_with_wordnet(machine))
    assert done.returncode == 0, done.stderr
    assert (machine.folder.parent / "wordnet").exists()
    assert not any("install" in call for call in machine.calls("apt-get"))


def test_the_library_has_the_names_the_script_asks_for() -> None:
    imports = re.findall(r"from trueneg\S* import \w+", (ROOT / "scripts/install-wordnet").read_text())
    assert len(imports) == 3
    for statement in imports:
        exec(statement, {})


def test_a_package_that_does_not_help_is_followed_by_a_fetch(machine: Machine) -> None:
    machine.command("apt-get")
    machine.command("id", "echo 0")
    done = machine.run("install-wordnet", python_with_wordnet(machine))
    assert done.returncode == 0, done.stderr
    assert (machine.folder.parent / "wordnet").exists()


def test_a_wrong_folder_in_the_environment_is_not_covered_up(machine: Machine) -> None:
    apt_get(machine)
    machine.command("id", "echo 0")
    done = machine.run("install-wordnet", python_with_wordnet(machine), WNSEARCHDIR="/elsewhere")
    assert done.returncode == 1 and "$WNSEARCHDIR" in done.stderr and "/elsewhere" in done.stderr
    assert machine.calls("apt-get") == []


def test_no_wordnet_at_all_fails(machine: Machine) -> None:
    done = machine.run("install-wordnet", python_with_wordnet(machine), OFFLINE="yes")
    assert done.returncode != 0


def python_stub(machine: Machine, name: str, *, is_new: bool = True, has_venv: bool = True) -> None:
    old, bare = int(not is_new), int(not has_venv)
    machine.command(
        name,
        f'case "$*" in *version_info*) exit {old};; *ensurepip*) exit {bare};; -V) echo Python 3.9.1;; esac',
    )


def test_the_pinned_python_comes_first(machine: Machine) -> None:
    for name in ("python3", "python3.11", "python3.12"):
        python_stub(machine, name)
    assert machine.run("find-python").stdout == "python3.11\n"
    assert machine.run("find-python", PYTHON="python3.12").stdout == "python3.12\n"


def test_a_python_that_is_old_or_cannot_make_a_venv_is_passed_over(machine: Machine) -> None:
    python_stub(machine, "python3", is_new=False)
    python_stub(machine, "python3.11", has_venv=False)
    machine.command("python3.12", "exit 127")  # a version manager's shim for a version that is not active
    python_stub(machine, "python3.14")
    assert machine.run("find-python").stdout == "python3.14\n"


def test_each_lack_has_its_message(machine: Machine) -> None:
    none = machine.run("find-python")
    assert none.returncode == 1 and "3.11 or newer" in none.stderr and "PYTHON=" in none.stderr
    python_stub(machine, "python3", is_new=False)
    old = machine.run("find-python")
    assert old.returncode == 1 and "python3 is Python 3.9.1" in old.stderr
    python_stub(machine, "python3.11", has_venv=False)
    bare = machine.run("find-python")
    assert bare.returncode == 1 and "apt install python3.11-venv" in bare.stderr
    assert all(len(done.stderr.splitlines()) == 1 and done.stdout == "" for done in (none, old, bare))


def test_this_python_is_accepted(machine: Machine) -> None:
    assert machine.run("find-python", PYTHON=sys.executable).stdout == f"{sys.executable}\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the set-up, whose Python is a stub; its pip logs to ``pips`` and can be ``broken``."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    stub = folder / "python-stub"
    stub.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        '"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;\n'
        '"-m pip"*) echo "$*" >>pips; [ ! -e broken ] ;;\n'
        "esac\n"
    )
    stub.chmod(0o755)
    return folder


def make_setup(checkout: Path) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "setup", "PYTHON=./python-stub"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True).returncode


def pips(checkout: Path) -> list[str]:
    return (checkout / "pips").read_text().splitlines()


def test_make_setup_installs_the_pins_once(checkout: Path) -> None:
    assert [make_setup(checkout), make_setup(checkout)] == [0, 0]
    (pip,) = pips(checkout)
    assert "-c constraints.txt -e .[dev,demo]" in pip


@pytest.mark.parametrize("changed", ["constraints.txt", "pyproject.toml"])
def test_make_setup_installs_again_after_a_change(checkout: Path, changed: str) -> None:
    make_setup(checkout)
    later = (checkout / ".venv/installed").stat().st_mtime + 1
    os.utime(checkout / changed, (later, later))
    assert make_setup(checkout) == 0
    assert len(pips(checkout)) == 2


def test_make_setup_that_failed_starts_again(checkout: Path) -> None:
    (checkout / "broken").touch()
    assert make_setup(checkout) != 0
    (checkout / "broken").unlink()
    assert make_setup(checkout) == 0
    assert len(pips(checkout)) == 2


@pytest.mark.parametrize(("works", "asked"), [(True, ["test", "demo"]), (False, ["test"])])
def test_ci_runs_the_tests_and_then_the_demo(machine: Machine, works: bool, asked: list[str]) -> None:
    for tool in ("bash", "dirname"):
        machine.tool(tool)
    machine.command("make", f'[ "$CI" = true ] && {"true" if works else "false"}')
    done = machine.run("../.ci/run")
    assert (done.returncode == 0) is works, done.stderr
    assert machine.calls("make") == asked


def test_scripts_are_executable() -> None:
    for script in ("scripts/find-python", "scripts/install-wordnet", ".ci/run"):
        assert os.access(ROOT / script, os.X_OK), script


def test_pins_are_plain_and_complete() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["torch"] == "2.13.0"
    assert all("+" not in version and "/" not in version for version in pins.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["dev"] + project["optional-dependencies"]["demo"]
    names = {"".join(c if c.isalnum() or c in "-_." else " " for c in requirement).split()[0] for requirement in asked}
    assert {name.lower() for name in names} <= {name.lower() for name in pins}


def test_nothing_empty_is_kept_in_the_repository() -> None:
    folders = ("", "benchmarks", "docs", "examples", "scripts")
    files = [path for folder in folders for path in (ROOT / folder).iterdir() if path.is_file()]
    assert [path.name for path in files if not path.stat().st_size] == []


def test_tests_run_outside_the_repository() -> None:
    assert not Path.cwd().is_relative_to(ROOT)


def chromium(machine: Machine, works: bool = True) -> None:
    """Let apt-get install a browser."""
    path = machine.folder / "chromium"
    machine.command("apt-get", f'[ "$1" = update ] || {{ : > "{path}"; chmod +x "{path}"; }}' if works else "exit 100")
    machine.tool("chmod")


BROWSER = "install -qq -y --no-install-recommends chromium"


def test_a_browser_that_is_there_is_named(machine: Machine, tmp_path: Path) -> None:
    chromium(machine)
    found = machine.command("google-chrome")
    done = machine.run("install-chromium")
    assert (done.returncode, done.stdout.strip()) == (0, found)
    other = machine.command("browser")
    assert machine.run("install-chromium", CHROMIUM=other).stdout.strip() == other
    wrong = machine.run("install-chromium", CHROMIUM="/elsewhere")
    assert wrong.returncode == 1 and "$CHROMIUM names /elsewhere" in wrong.stderr
    assert machine.calls("apt-get") == []


@pytest.mark.parametrize("user", [0, 1000])
def test_root_and_sudo_install_a_browser(machine: Machine, user: int) -> None:
    chromium(machine)
    machine.command("id", f"echo {user}")
    machine.command("sudo", 'shift\n[ "$1" = true ] || "$@"')
    done = machine.run("install-chromium")
    assert (done.returncode, done.stdout.strip()) == (0, str(machine.folder / "chromium")), done.stderr
    assert machine.calls("apt-get") == ["update -qq", BROWSER]


@pytest.mark.parametrize("why", ["no sudo", "no apt-get", "apt-get fails"])
def test_without_a_browser_it_says_what_to_install(machine: Machine, why: str) -> None:
    machine.command("id", "echo 1000" if why == "no sudo" else "echo 0")
    if why != "no apt-get":
        chromium(machine, works=why != "apt-get fails")
    done = machine.run("install-chromium")
    assert (done.returncode, done.stdout) == (1, "") and "apt-get install chromium" in done.stderr
