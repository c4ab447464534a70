"""Faults on purpose, by the command: devices of a testbed are told to misbehave, and the framework goes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal.remote.faults import FaultControl
from tests.support.command import nnhal
from tests.support.waiting import wait_until
from tests.system.test_up import running

pytestmark = pytest.mark.slow
FROM_THE_START = """
[[fault]]
what = "death"
name = "dies"
device = "cpu_acc"
method = "Backend.GetUsage"
nth = 1000000

[[fault]]
what = "error"
name = "fails"
device = "cpu_*"
method = "prepare"
operation = "SOFTMAX"
every_start = true
"""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        directory = Path(name)
        file = directory / "start.toml"
        file.write_text(FROM_THE_START)
        with running(directory, "--no-dashboard", "--faults", str(file)):
            yield directory


def told(testbed: Path, *words: str) -> Any:
    ended = nnhal("faults", *words, "--directory", str(testbed), "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def names(testbed: Path, device: str) -> list[str]:
    return [state["name"] for state in told(testbed, "list", "--device", device)["faults"]]


def test_devices_have_the_faults_of_the_file_that_are_about_them(testbed: Path) -> None:
    assert names(testbed, "cpu_acc") == ["dies", "fails"]
    assert names(testbed, "cpu_ref") == ["fails"]


def test_faults_are_set_listed_and_cleared(testbed: Path) -> None:
    file = testbed / "later.toml"
    file.write_text('[[fault]]\nwhat = "delay"\nname = "late"\nms = 5\ndevice = "cpu_ref"\n')
    assert told(testbed, "set", str(file)) == {"set": {"cpu_ref": ["late"]}}
    assert names(testbed, "cpu_ref") == ["fails", "late"]
    table = nnhal("faults", "list", "--directory", str(testbed))
    assert "ms 5" in table.stdout
    assert told(testbed, "clear", "late") == {"cleared": 1}
    assert names(testbed, "cpu_ref") == ["fails"]
    unknown = nnhal("faults", "clear", "late", "--directory", str(testbed))
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (1, "nnhal: no fault is called 'late'")


def test_a_file_that_is_wrong_or_about_nobody_is_refused(testbed: Path) -> None:
    file = testbed / "wrong.toml"
    file.write_text('[[fault]]\nwhat = "delay"\n')
    wrong = nnhal("faults", "set", str(file), "--directory", str(testbed))
    assert (wrong.returncode, wrong.stderr) == (1, f"nnhal: {file}: fault 1, ms: is missing\n")
    assert nnhal("faults", "check", str(file)).returncode == 1
    file.write_text('[[fault]]\nwhat = "hang"\ndevice = "npu"\n')
    nobody = nnhal("faults", "set", str(file), "--directory", str(testbed))
    assert (nobody.returncode, "none of its 1 faults is about a device here" in nobody.stderr) == (1, True)


def test_a_device_that_died_of_a_fault_is_back_with_those_of_every_start(testbed: Path) -> None:
    endpoint = Endpoint(testbed / "cpu_acc")
    with FaultControl(endpoint) as control:
        control.set({"what": "death", "name": "now", "method": "Backend.Describe"})
    wait_until(lambda: _faults(endpoint) == ["fails"], "cpu_acc is back with its own faults")


def _faults(endpoint: Endpoint) -> list[str]:
    """The names of a device's faults, once it serves; a call that kills it until then."""
    try:
        with FaultControl(endpoint) as control:
            found = [state.name for state in control.faults()]
        if "now" in found:
            with RemoteDevice(endpoint) as device:
                device.describe()
        return found
    except (NnhalError, OSError):
        return []
