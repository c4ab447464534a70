"""Extras of the distribution, and what a program says that lacks one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from nnhal_hosting.extras import MODULES, STARTED, install_command

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / "hal"), str(ROOT / "hosting"), str(ROOT / "tools")]
PROGRAMS = {
    "devices": ("nnhal device", "from nnhal_devices.__main__ import main", "structlog"),
    "service": ("nnhal serve", "from nnhal_service.__main__ import main", "tflite"),
    "tools": ("nnhal", "from nnhal_tools.cli import main", "typer"),
}


def requirements(extra: str) -> set[str]:
    """The distributions of an extra, those of the extras that it builds on included."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = set[str]()
    for requirement in extras[extra]:
        own = re.match(r"nnhal\[(.*)\]", requirement)
        if own:
            found |= set().union(*(requirements(name.strip()) for name in own[1].split(",")))
        else:
            found.add(re.split(r"[<>=\[]", requirement)[0].replace("-", "_").lower())
    return found


OPTIONAL = {"service": {"ngh2"}}
"""What an extra installs, and is done without where it is missing."""


@pytest.mark.parametrize("extra", MODULES)
def test_the_modules_of_an_extra_are_those_of_its_distributions(extra: str) -> None:
    distributions = packages_distributions()
    owners = {distributions[module][0].replace("-", "_").lower() for module in MODULES[extra]}
    assert owners | OPTIONAL.get(extra, set()) == requirements(extra)


def test_all_is_all_of_them() -> None:
    assert requirements("all") == set().union(*(requirements(extra) for extra in MODULES))


def run_without(module: str, program: str) -> subprocess.CompletedProcess[str]:
    hidden = (
        "import importlib.machinery as m, sys\n"
        "find = m.PathFinder.find_spec\n"
        f"m.PathFinder.find_spec = lambda name, *rest: None if name == {module!r} else find(name, *rest)\n"
    )
    return subprocess.run([sys.executable, "-c", hidden + program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("extra", PROGRAMS)
def test_a_program_names_the_extra_that_is_missing(extra: str) -> None:
    program, entry, module = PROGRAMS[extra]
    done = run_without(module, f"{entry}; main()")
    assert done.returncode == 1
    beside = [name for name in ("devices", "service", "dashboard") if extra == "tools" and module in MODULES[name]]
    assert done.stderr == f"{program}: the module {module} is missing: {install_command(extra, *beside)}\n"


def test_all_that_is_missing_is_named_at_once() -> None:
    program = "from nnhal_tools.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {SOURCES}; {program}", "run"],
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.fullmatch(r"nnhal: the modules (.+) are missing: .*\[tools,devices,service,dashboard\]'\n", done.stderr)
    assert told is not None, done.stderr
    assert set(told[1].split(", ")) == set().union(*(MODULES[extra] for extra in ("tools", *STARTED)))


def test_a_clone_is_told_the_line_that_works_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nnhal is in no index of packages."""
    clone, information = tmp_path / "clone", tmp_path / "packages/nnhal-1.0.dist-info"
    clone.mkdir()
    information.mkdir(parents=True)
    (clone / "pyproject.toml").touch()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: nnhal\nVersion: 1.0\n")
    origin = {"url": f"file://{clone}", "dir_info": {"editable": True}}
    (information / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(information.parent))
    monkeypatch.setattr(sys, "prefix", str(clone / ".venv"))
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/pip").touch()
    monkeypatch.chdir(clone)
    assert install_command("litert") == ".venv/bin/pip install -e '.[litert]'"
    assert install_command(folder="native") == ".venv/bin/pip install -e ./native"
    monkeypatch.chdir(tmp_path / "packages")
    assert install_command("litert") == f"{clone}/.venv/bin/pip install -e '{clone}[litert]'"
    (clone / "pyproject.toml").unlink()
    assert install_command("litert") == "pip install 'nnhal[litert]'"


@pytest.mark.parametrize("command", ["device", "serve"])
def test_devices_and_the_framework_need_no_extra_of_the_command(command: str) -> None:
    program = f"from nnhal_tools.cli import main; sys.argv = ['nnhal', {command!r}, '--help']; main()"
    done = run_without("typer", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: nnhal {command} ")
