"""The drivers that a user lists."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from nnhal_devices.registry import driver_names
from nnhal_tools.up import TopologyError
from nnhal_tools.up.drivers import listed_topology
from tests.support.faulty_drivers import write_faulty_driver


def test_listed_drivers_become_devices_in_their_order_without_any_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "run", start)
    names = [name for name in driver_names() if name != "remote"]
    for order in (names, names[::-1]):
        assert [entry.title for entry in listed_topology(" , ".join(order)).device] == order


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ("cpu_ref,", "got 'cpu_ref,', expected drivers with single commas between"),
        (" ", "got ' ', expected drivers with single commas between"),
        ("cpu_ref,cpu_acc,cpu_ref", "got driver 'cpu_ref' more than once; a topology file has several devices of a"),
        ("cpu_acc,remote", "driver 'remote' needs an address, which only a topology file can give"),
    ],
)
def test_a_list_that_makes_no_devices_is_refused(listed: str, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        listed_topology(listed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nope", "a/b", "../cpu_ref", "faults", "CPU_REF"])
def test_a_driver_that_there_is_not_is_named_with_those_that_there_are(name: str) -> None:
    with pytest.raises(TopologyError) as refused:
        listed_topology(f"cpu_acc,{name}")
    assert str(refused.value) == f"no driver is called {name!r}; there are {', '.join(driver_names())}"


@pytest.mark.slow
def test_drivers_of_files_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_faulty_driver(tmp_path, "Acme")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    assert [entry.driver for entry in listed_topology("Acme,cpu_ref").device] == ["Acme", "cpu_ref"]
    with pytest.raises(TopologyError, match=r"no driver is called 'Acne'; there are Acme, cpu_acc, "):
        listed_topology("Acne")
