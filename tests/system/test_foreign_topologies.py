"""Devices that nnhal has not written, in a testbed and in the commands: one that runs already, and two by commands."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_client import connect
from nnhal_tools.up import DeviceEntry, RenewableDevice, Testbed, Topology, read_topology
from nnhal_tools.up.control import controlled
from tests.support.command import nnhal
from tests.support.foreign.process import ForeignDevice
from tests.support.foreign_command import foreign_command
from tests.support.foreign_system import ELEMENTS, doubling_on
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.waiting import wait_until

INPUT = np.arange(ELEMENTS, dtype=np.float32)


@dataclass(frozen=True)
class Bed:
    """A testbed, and the device in it that runs already, which is "npu"."""

    testbed: Testbed
    npu: ForeignDevice

    def asked(self, *words: str) -> Any:
        verb, *rest = words
        done = nnhal(verb, "--json", "--directory", str(self.testbed.directory), *rest)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, *words: str) -> str:
        done = nnhal(*words, "--directory", str(self.testbed.directory))
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    def processes(self) -> dict[str, Any]:
        """Return the lines of ``nnhal ps``, by name."""
        return {process["name"]: process for process in self.asked("ps")["processes"]}

    def await_state(self, name: str, state: str) -> None:
        process = self.testbed.process(name)
        wait_until(
            lambda: process.describe().State.Name(process.describe().state) == f"STATE_{state}", f"{name} {state}"
        )


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        root = Path(directory)
        npu = ForeignDevice(root / "npu")
        try:
            devices = (
                DeviceEntry(driver="foreign", name="spoken", command=foreign_command()),
                DeviceEntry(driver="foreign", name="plain", command=foreign_command("--plain")),
                DeviceEntry(driver="foreign", endpoint=str(root / "npu")),
                DeviceEntry(driver="foreign", endpoint=str(root / "absent")),
                DeviceEntry(driver="cpu_ref"),
            )
            testbed = Testbed(Topology(device=devices), root / "bed", zygote=WARM)
            with controlled(testbed):
                yield Bed(testbed, npu)
            npu.behave()  # it goes on when the testbed has ended, and answers
        finally:
            npu.close()


def test_foreign_devices_are_listed_with_their_processes_and_whether_they_tell_more(bed: Bed) -> None:
    found = bed.processes()
    assert list(found) == ["spoken", "plain", "npu", "absent", "cpu_ref", "framework"]
    assert [found[name]["supervised"]["runs_already"] for name in ("spoken", "plain", "npu")] == [False, False, True]
    assert found["npu"]["supervised"]["pid"] == bed.npu.pid
    assert found["npu"]["supervised"]["directory"] == str(bed.npu.endpoint.directory)
    told = "nnhal.v1.AdminService/GetProcess: UNIMPLEMENTED"
    for name in ("spoken", "plain", "npu"):
        assert found[name]["problem"].startswith("no admin service: ") and told in found[name]["problem"]
    absent = found["absent"]["supervised"]
    assert absent["state"] == "waiting"
    assert absent["waits_for"].startswith("what starts it: no link at ")


def test_models_run_on_foreign_devices(bed: Bed) -> None:
    with connect(bed.testbed.framework) as framework:
        model = doubling_on(framework, "spoken", "npu", "plain")
        (output,) = model.run({model.inputs[0].name: INPUT}).values()
    np.testing.assert_array_equal(output, 8 * INPUT)


def test_a_command_that_is_killed_is_started_again(bed: Bed) -> None:
    for name in ("spoken", "plain"):
        killed = bed.asked("kill", name)["pid"]
        wait_until(lambda name=name, killed=killed: bed.testbed.pid(name) != killed, f"{name} is started again")  # type: ignore[misc]
        bed.await_state(name, "RUNNING")
        assert bed.asked("restart", name)["pid"] == bed.testbed.pid(name)


def test_a_device_that_runs_already_is_killed_but_not_started_or_stopped(bed: Bed) -> None:
    assert bed.asked("kill", "npu")["pid"] == bed.npu.pid
    bed.npu.close()
    bed.await_state("npu", "WAITING")
    why = f"npu serves at {bed.npu.endpoint.directory} and is not this supervisor's: it cannot be "
    assert f"{why}started here; now: " in bed.refused("start", "npu")
    bed.npu.start()
    bed.await_state("npu", "RUNNING")
    assert f"{why}stopped here; 'nnhal ctl drain npu' has models planned without it" in bed.refused("stop", "npu")
    events = [(event["kind"], event["text"]) for event in bed.asked("events")["events"] if event["subject"] == "npu"]
    assert ("started", f"process {bed.npu.pid} serves, which something else has started") in events
    assert bed.processes()["npu"]["supervised"]["restarts"] >= 1
    assert bed.asked("drain", "npu")["idle"] is True
    assert bed.asked("start", "npu")["pid"] == bed.npu.pid


def test_a_device_that_was_not_there_is_used_when_it_comes(bed: Bed) -> None:
    late = ForeignDevice(bed.testbed.endpoint("absent").directory)
    try:
        bed.await_state("absent", "RUNNING")
        with connect(bed.testbed.framework) as framework:
            model = doubling_on(framework, "absent")
            (output,) = model.run({model.inputs[0].name: INPUT}).values()
        np.testing.assert_array_equal(output, 2 * INPUT)
    finally:
        late.close()
    bed.await_state("absent", "WAITING")


def test_devices_are_added_to_a_supervised_testbed_and_removed(bed: Bed) -> None:
    assert bed.asked("devices", "--add", f"late={bed.npu.endpoint.directory}") == {"name": "late", "known": True}
    assert bed.asked("start", "--name", "more", "--", *foreign_command())["name"] == "more"
    found = bed.asked("devices")["devices"]
    standings = {device["name"]: device["standing"] for device in found if device["name"] in ("late", "more")}
    assert [standing["available"] for standing in standings.values()] == [True, True]
    identities = {device["name"]: device["identity"] for device in found}
    assert identities["late"] == identities["more"] != identities["cpu_ref"]
    assert bed.asked("devices", "--remove", "late") == {"name": "late", "known": False}
    assert bed.asked("stop", "more", "--remove")["removed"] is True
    assert not {"late", "more"} & bed.processes().keys()
    assert "no link at " in bed.refused("devices", "--add", "nowhere=/nowhere/npu")
    assert "is in the topology" in bed.refused("devices", "--remove", "npu")


def test_errors_name_the_service_that_a_foreign_device_has_not(bed: Bed, tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\nname = "slow"\nwhat = "delay"\nms = 1\ndevice = "npu"\n')
    for service, words in (
        ("FaultService/ListFaults", ("faults", "list", "--device", "npu")),
        ("FaultService/SetFaults", ("faults", "set", str(faults))),
        ("AdminService/SetLogLevel", ("logs", "npu", "--set-level", "debug")),
        ("AdminService/EndSession", ("kill", "--session", "npu/s1")),
    ):
        assert f"nnhal.v1.{service}: UNIMPLEMENTED" in bed.refused(*words)
    done = nnhal("record", "--device", str(bed.npu.endpoint.directory), "-o", str(tmp_path / "x"), "--seconds", "1")
    assert done.returncode == 1
    assert "nnhal.v1.DeviceRecordingService/StartDeviceRecording: UNIMPLEMENTED" in done.stderr


@pytest.fixture(scope="module")
def topology(bed: Bed) -> Path:
    """A topology file with a command, the device that runs already, and cpu_ref."""
    path = bed.testbed.directory / "foreign.toml"
    words = json.dumps(foreign_command())
    running = bed.npu.endpoint.directory
    path.write_text(
        f'[[device]]\nname = "made"\ncommand = {words}\n\n'
        f'[[device]]\nname = "npu"\nendpoint = "{running}"\n\n[[device]]\ndriver = "cpu_ref"\n'
    )
    return path


def test_a_device_of_a_topology_is_opened_by_commands_and_started_again(topology: Path) -> None:
    with RenewableDevice(f"{topology}:made", "test") as opened:
        first = opened.remote.pid
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: opened.remote.gone, "the device has died")
        assert "was killed by SIGKILL" in opened.end_in_words()
        opened.renew()
        assert opened.remote.pid != first


def saved_doubling(folder: Path) -> Path:
    path = folder / "add.onnx"
    onnx.save(onnx_model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": [ELEMENTS]}, ["y"]), path)
    return path


def test_models_are_run_and_explained_on_foreign_devices(topology: Path, tmp_path: Path) -> None:
    model = saved_doubling(tmp_path)
    values = tmp_path / "x.npy"
    np.save(values, INPUT)
    words = ("-i", str(values), "--topology", str(topology), "--pin", "op:ADD=made", "--json")
    done = nnhal("run", str(model), *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert list(told["outputs"].values()) == [(2 * INPUT).tolist()]
    assert {step["device"] for step in told["steps"]} == {"made"}
    running = read_topology(topology).device[1].endpoint
    done = nnhal("explain", str(model), "--devices", f"mine={running}", "--json", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == ["mine"]


def test_a_foreign_device_is_compared_with_a_reference_by_its_place_in_a_topology(
    topology: Path, tmp_path: Path
) -> None:
    done = nnhal("diff", str(saved_doubling(tmp_path)), "--dut", f"{topology}:made", "--json", "--max-ulp", "0")
    assert done.returncode == 0, done.stderr


def test_what_asks_all_devices_goes_on_without_what_a_foreign_one_has_not(bed: Bed) -> None:
    left_out = nnhal("faults", "list", "--directory", str(bed.testbed.directory))
    assert "npu is left out: it has no FaultService" in left_out.stderr
    assert "spoken is left out: it has no FaultService" in left_out.stderr
    assert nnhal("top", "--once", "--directory", str(bed.testbed.directory)).returncode == 0
    assert [device["name"] for device in bed.asked("devices")["devices"]][:3] == ["spoken", "plain", "npu"]
