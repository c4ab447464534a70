"""The list of the commands, which imports none of them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnhal_hosting.extras import install_command
from nnhal_tools.cli.app import COMMANDS, app
from nnhal_tools.cli.former_names import present_words


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_itself_says(name: str) -> None:
    command = COMMANDS[name].load(name)
    (first, *_) = inspect.cleandoc(command.help).split("\n\n")
    assert (command.name, " ".join(first.split())) == (name, COMMANDS[name].help)


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("top --once --seconds 2", "show rates --seconds 2"),
        ("top --json", "show rates --follow --json"),
        ("events --lines 3", "show events --lines 3"),
        ("recordings 3 --out a.json", "show recordings 3 --out a.json"),
        ("logs npu --follow", "show logs npu --follow"),
        ("logs npu --set-level debug --json", "ctl log-level npu --json debug"),
        ("devices npu", "show devices npu"),
        ("devices --add npu=/run/npu --json", "ctl add --json npu=/run/npu"),
        ("devices --json --remove=npu", "ctl remove --json npu"),
        ("models --json", "show models --json"),
        ("models show digits", "show models digits"),
        ("models record digits 1 --out a.json", "ctl record digits 1 --out a.json"),
        ("start --name npu -- ./npu", "ctl start --name npu -- ./npu"),
        ("kill --session npu/s3", "ctl kill --session npu/s3"),
        ("ps --sessions", "show sessions"),
        ("ps --models --json", "show models --json"),
        ("ps --json", "ps --json"),
        ("run model.onnx", "run model.onnx"),
    ],
)
def test_names_of_the_release_before_are_those_of_now(former: str, present: str) -> None:
    assert present_words(former.split()) == present.split()


@pytest.mark.parametrize("words", ["stop", "models load", "devices --remove", "logs --follow"])
def test_a_former_name_runs_the_present_command(words: str) -> None:
    told = CliRunner().invoke(app, [*words.split(), "--no-such-option"], prog_name="nnhal")
    assert told.exit_code == 2 and "No such option: --no-such-option" in told.output
    assert re.search(r"Usage: nnhal (ctl|show) ", told.output)


def nnhal(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command while a folder with other people's packages is installed."""
    program = f"import sys; sys.path.append({str(packages)!r}); from nnhal_tools.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that has a compiler with a command, and one whose command cannot be imported."""
    folder = tmp_path_factory.mktemp("packages")
    information = folder / "vendor-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[nnhal.commands]\nvendor = vendor_compiler:compile_for\nlost = vendor_missing:app\nrun = vendor_compiler:lie\n"
    )
    (folder / "vendor_compiler.py").write_text(
        'def compile_for(parts: int = 1) -> None:\n    """Compile for a vendor."""\n    print(f"{parts} parts")\n'
    )
    return folder


@pytest.mark.parametrize(("door", "folder"), [("native", "native"), ("ort", "frontends/ort_ep")])
def test_a_door_that_is_not_installed_says_what_installs_it(door: str, folder: str) -> None:
    program = "import sys, nnhal_tools.cli.app as app; app.plug_ins = dict; app.main()"
    words = [sys.executable, "-c", program, door, "run", "--", "python", "app.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"nnhal: 'nnhal {door}' is not installed")
    assert done.stderr.endswith(f", {install_command(door.replace('ort', 'onnxruntime'), folder=folder)}\n")
    assert "g++" in done.stderr


def test_a_package_adds_a_command(packages: Path) -> None:
    done = nnhal(packages, "vendor", "--parts", "3")
    assert (done.returncode, done.stdout) == (0, "3 parts\n"), done.stderr


def test_the_list_has_the_commands_of_packages(packages: Path) -> None:
    done = nnhal(packages, "--help")
    assert done.returncode == 0
    assert "Compile for a vendor." in done.stdout
    assert "Compile an 8-bit network for an Ethos-U" in done.stdout
    assert "Cannot be imported: ModuleNotFoundError" in done.stdout


def test_the_list_groups_the_commands_and_leaves_out_those_for_scripts(packages: Path) -> None:
    told = nnhal(packages, "--help").stdout
    groups = re.findall(r"^╭─ (.*?) ─", told, re.MULTILINE)
    assert groups == ["Options", "Run and look", "Build and test a driver", "Operate", "Compilers and other packages"]
    listed = set(re.findall(r"^│ ([a-z]+) ", told, re.MULTILINE))
    assert {*COMMANDS} - listed == {name for name, command in COMMANDS.items() if not command.is_listed}
    assert "watched" in COMMANDS and "watched" not in listed
    assert nnhal(packages, "watched", "--help").returncode == 0


def test_a_command_that_cannot_be_imported_says_so(packages: Path) -> None:
    done = nnhal(packages, "lost", "--any", "thing")
    assert done.returncode == 1
    assert done.stderr == (
        "nnhal: command 'lost' of vendor_missing:app cannot be imported: "
        "ModuleNotFoundError: No module named 'vendor_missing'\n"
    )


def test_a_package_does_not_take_the_name_of_our_command(packages: Path) -> None:
    assert "Run one inference" in nnhal(packages, "run", "--help").stdout
