"""``nnhal up`` as a process that another one supervises."""

from __future__ import annotations

from pathlib import Path

import psutil

from nnhal_hosting.supervision import Child
from tests.support.waiting import wait_until


def begun(directory: Path) -> Child:
    return Child("nnhal_tools", ["up", "--directory", str(directory), "--no-dashboard"])


def test_it_tells_when_it_serves_and_ends_with_its_supervisor(short_path: Path) -> None:
    child = begun(short_path)
    child.wait_until_ready()
    processes = psutil.Process(child.pid).children()
    assert len(processes) == 3
    assert child.stop() == 0
    assert not any(process.is_running() for process in processes)


def test_it_ends_with_its_supervisor_before_it_serves(short_path: Path) -> None:
    child = begun(short_path)
    wait_until(lambda: bool(psutil.Process(child.pid).children()), "a device has been started")
    processes = psutil.Process(child.pid).children()
    assert child.stop() == 1
    assert not any(process.is_running() for process in processes)


def test_it_gets_the_settings_of_the_one_who_starts_it(short_path: Path) -> None:
    words = ["up", "--directory", str(short_path), "--no-dashboard"]
    child = Child("nnhal_tools", words, variables={"NNHAL_SERVICE_MODEL_REPOSITORY": '["/nowhere"]'})
    try:
        wait_until(lambda: "/nowhere" in child.said(), "the framework has said what is wrong")
    finally:
        child.stop()
