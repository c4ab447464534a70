"""The drivers that a user lists."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from nnhal_devices.registry import driver_names
from nnhal_tools.up import DeviceEntry, TopologyError
from nnhal_tools.up.drivers import given_device, listed_topology
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
        ("cpu_acc,npu=/nowhere/npu", "/nowhere/npu: no device serves there, since it has no link.sock"),
        ("cpu_acc,remote", "driver 'remote' needs an address, which only a topology file can give"),
    ],
)
def test_a_list_that_makes_no_devices_is_refused(listed: str, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        listed_topology(listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "meant"), [("nope", ""), ("a/b", ""), ("faults", ""), ("CPU_REF", "cpu_ref"), ("gpu_ac", "gpu_acc")]
)
def test_a_driver_that_there_is_not_is_named_with_those_that_there_are(name: str, meant: str) -> None:
    with pytest.raises(TopologyError) as refused:
        listed_topology(f"cpu_acc,{name}")
    question = f"; did you mean {meant!r}?" if meant else ""
    assert str(refused.value) == f"no driver is called {name!r}; there are {', '.join(driver_names())}{question}"


@pytest.mark.slow
def test_drivers_of_files_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_faulty_driver(tmp_path, "Acme")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path))
    assert [entry.driver for entry in listed_topology("Acme,cpu_ref").device] == ["Acme", "cpu_ref"]
    (tmp_path / "Acme_Acne_backend.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    told = r"no driver is called 'Acne'; there are Acme, cpu_acc, .*Acne_backend.py is not loaded: .* by SIGILL"
    with pytest.raises(TopologyError, match=told):
        listed_topology("Acne")


def stand_in(directory: Path) -> Path:
    """A directory that looks as that of a running device."""
    directory.mkdir()
    (directory / "link.sock").touch()
    return directory


def test_a_list_may_name_running_devices_and_give_names(tmp_path: Path) -> None:
    npu = stand_in(tmp_path / "npu")
    listed = listed_topology(f"{npu},other={npu},mine=cpu_acc,cpu_ref").device
    assert [entry.title for entry in listed] == ["npu", "other", "mine", "cpu_ref"]
    assert [entry.directory for entry in listed] == [npu, npu, None, None]
    assert [entry.driver for entry in listed[2:]] == ["cpu_acc", "cpu_ref"]


def test_a_device_is_given_as_a_driver_a_directory_or_one_of_a_topology(tmp_path: Path) -> None:
    file = tmp_path / "testbed.toml"
    file.write_text('[[device]]\nname = "made"\ncommand = ["npu"]\n[[device]]\ndriver = "ethos_n"\nworkers = 2\n')
    assert given_device(f"{file}:made").command == ("npu",)
    assert given_device(f"{file}:ethos_n").workers == 2
    assert given_device(str(stand_in(tmp_path / "npu"))).directory == tmp_path / "npu"
    assert given_device(str(stand_in(tmp_path / "an npu"))).title == "device"
    assert given_device("cpu_ref") == DeviceEntry(driver="cpu_ref")


def test_a_device_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    (tmp_path / "testbed.toml").write_text('[[device]]\ndriver = "ethos_n"\n')
    for text, told in (
        (f"{tmp_path}/testbed.toml:npu", "no device is called 'npu'; there are ethos_n$"),
        (f"{tmp_path}/none", "no device serves there, since it has no link.sock$"),
        ("-x", "device '-x': driver: String should match pattern"),
    ):
        with pytest.raises(TopologyError, match=told):
            given_device(text)
