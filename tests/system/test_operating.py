"""The commands for operators, against one testbed with a served model."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnhal.admin import EXIT_STATUS
from nnhal.errors import DeadObjectError, HalError
from nnhal_client import connect
from nnhal_hosting.supervision import Child
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.command import command, nnhal
from tests.support.processes import WARM
from tests.support.waiting import wait_until

DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        repository = Path(directory) / "repository"
        (repository / "digits/1").mkdir(parents=True)
        shutil.copy(DIGITS, repository / "digits/1/model.onnx")
        devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref"))
        options: dict[str, int | str] = {
            "http_port": 0,
            "grpc_port": 0,
            "metrics_port": 0,
            "model_repository": str(repository),
        }
        bed = Testbed(Topology(device=devices, framework={**options}), Path(directory) / "bed", zygote=WARM)
        with controlled(bed):
            yield bed


def asked(testbed: Testbed, *arguments: str, status: int = 0) -> Any:
    done = nnhal(*arguments, "--json", "--directory", str(testbed.directory))
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def refused(testbed: Testbed, *arguments: str) -> str:
    done = nnhal(*arguments, "--directory", str(testbed.directory))
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def shown(testbed: Testbed, *arguments: str) -> str:
    done = nnhal(*arguments, "--directory", str(testbed.directory))
    assert done.returncode == 0, done.stderr
    return done.stdout


def devices_of(testbed: Testbed, name: str) -> list[str]:
    """The devices of a served model's plan."""
    models = {model["name"]: model for model in asked(testbed, "show", "models")["served"]}
    return list(models[name]["devices"])


def infer(testbed: Testbed, name: str) -> None:
    """Have a served model classify zeros, over HTTP."""
    addresses = dict(line.split(": ") for line in testbed.process("framework").describe().addresses)
    url = f"http://{addresses['http']}/v2/models/{name}"
    with urllib.request.urlopen(url) as answer:
        (tensor,) = json.load(answer)["inputs"]
    shape = [max(1, extent) for extent in tensor["shape"]]
    zeros = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": [0.0] * math.prod(shape)}
    with urllib.request.urlopen(f"{url}/infer", json.dumps({"inputs": [zeros]}).encode()) as answer:
        assert json.load(answer)["outputs"]


def test_ps_lists_processes(testbed: Testbed) -> None:
    processes = {process["name"]: process for process in asked(testbed, "ps")["processes"]}
    assert list(processes) == ["cpu_acc", "cpu_ref", "framework"]
    framework = processes["framework"]
    assert framework["supervised"]["state"] == "running"
    assert framework["supervised"]["pid"] == framework["pid"] == testbed.pid("framework")
    assert (framework["supervisor"], framework["is_whole"]) == ("nnhal", True)
    assert framework["usage"]["resident_bytes"] > 0
    assert [line for line in shown(testbed, "ps").splitlines() if "cpu_ref" in line and "running" in line]


def test_what_processes_hold_is_shown_and_kill_ends_a_session(testbed: Testbed) -> None:
    with connect(testbed.framework) as client:
        model = client.load(DIGITS)
        binding = model.bind()
        held = {name: asked(testbed, "show", name) for name in ("sessions", "pools", "models")}
        sessions = [s for s in held["sessions"]["sessions"] if s["process"] == "framework" and not s["is_own"]]
        assert sum(count["count"] for session in sessions for count in session["objects"]) >= 2
        assert {pool["process"] for pool in held["pools"]["pools"]} >= {"cpu_acc"}
        assert [(m["name"], m["state"]) for m in held["models"]["served"]] == [("digits", "READY")]
        mine = next(session for session in sessions if session["objects"])
        shown(testbed, "ctl", "kill", "--session", f"framework/{mine['id']}")
        for call in (model.bind, binding.run):
            with pytest.raises(DeadObjectError):
                call()
    error = refused(testbed, "ctl", "kill", "--session", f"framework/{mine['id']}")
    assert f"there is no session '{mine['id']}'" in error


def test_rates_say_how_busy_devices_are(testbed: Testbed) -> None:
    answer = asked(testbed, "show", "rates", "--seconds", "0.2")
    assert [device["name"] for device in answer["devices"]] == ["cpu_acc", "cpu_ref"]
    assert all(0 <= device["busy"] <= 1 for device in answer["devices"])
    assert [(model["name"], model["p99_ns"]) for model in answer["models"]] == [("digits", None)]
    assert "digits" in shown(testbed, "show", "rates", "--seconds", "0.1")


def test_devices_say_what_they_are_and_how_they_are_used(testbed: Testbed) -> None:
    listed = {device["name"]: device for device in asked(testbed, "show", "devices")["devices"]}
    assert list(listed) == ["cpu_acc", "cpu_ref"]
    one = asked(testbed, "show", "devices", "cpu_acc")
    assert one["standing"]["models"] == ["digits 1"]
    assert one["identity"] == listed["cpu_acc"]["identity"]
    assert one["identity"]["type"] == "CPU"
    assert {entry["type"] for entry in one["identity"]["capabilities"]["operand_performance"]} >= {"TENSOR_FLOAT32"}
    assert "ashmem" in one["description"]["imports"]
    assert one["device"]["workers"] == 1
    page = shown(testbed, "show", "devices", "cpu_acc")
    assert "ONNX Runtime" in page
    assert "TENSOR_FLOAT32" in page
    assert "framework is a process of kind 'framework', expected a device" in refused(
        testbed, "show", "devices", "framework"
    )


def test_runs_and_events_that_are_over_are_listed(testbed: Testbed) -> None:
    infer(testbed, "digits")
    runs = asked(testbed, "show", "runs", "--model", "digits")["runs"]
    assert (runs[-1]["model"], runs[-1]["devices"], runs[-1]["error"]) == ("digits", ["cpu_acc"], "")
    assert [run["number"] for run in asked(testbed, "show", "runs", "--lines", "1")["runs"]] == [runs[-1]["number"]]
    assert asked(testbed, "show", "runs", "--model", "other")["runs"] == []
    assert "succeeded" in shown(testbed, "show", "runs")
    assert shown(testbed, "show", "runs", "--failed").strip() == "no such runs are kept"
    events = asked(testbed, "show", "events")["events"]
    assert {("cpu_acc", "started"), ("framework", "started")} <= {(e["subject"], e["kind"]) for e in events}
    assert [event["at_ns"] for event in events] == sorted(event["at_ns"] for event in events)
    assert asked(testbed, "show", "events", "--lines", "1")["events"] == events[-1:]
    assert "started" in shown(testbed, "show", "events")


def test_a_slow_run_is_found_after_its_framework_was_killed(testbed: Testbed) -> None:
    infer(testbed, "digits")
    before = testbed.pid("framework")
    kept = asked(testbed, "show", "runs", "--model", "digits", "--sort", "took")["runs"]
    took = [run["ended_ns"] - run["arrived_ns"] for run in kept]
    assert took == sorted(took, reverse=True) != []
    assert all(run["infer_ns"] > 0 and run["devices"] for run in kept)
    os.kill(before, signal.SIGKILL)
    wait_until(
        lambda: testbed.pid("framework") not in (0, before) and testbed.process("framework").is_running, "it is back"
    )
    until = datetime.now(UTC).isoformat()
    again = asked(testbed, "show", "runs", "--model", "digits", "--sort", "took", "--until", until)["runs"]
    assert [run["number"] for run in again] == [run["number"] for run in kept]
    assert asked(testbed, "show", "runs", "--from", "2100-01-01")["runs"] == []
    assert "expected an instant as" in refused(testbed, "show", "runs", "--from", "yesterday")


def test_a_process_is_killed_stopped_started_and_restarted(testbed: Testbed) -> None:
    before = testbed.pid("cpu_ref")
    assert asked(testbed, "ctl", "kill", "cpu_ref", "--signal", "term")["pid"] == before
    wait_until(lambda: testbed.pid("cpu_ref") != before and testbed.process("cpu_ref").is_running, "it serves again")
    asked(testbed, "ctl", "stop", "cpu_ref")
    assert testbed.process("cpu_ref").is_stopped
    assert asked(testbed, "ctl", "start", "cpu_ref")["pid"] == testbed.pid("cpu_ref")
    assert asked(testbed, "ctl", "restart", "cpu_ref")["state"] == "running"
    assert "no process is called 'nope'; there are cpu_acc, cpu_ref, framework" in refused(
        testbed, "ctl", "stop", "nope"
    )
    assert "signal 'no', expected a name such as SIGTERM" in refused(
        testbed, "ctl", "kill", "cpu_ref", "--signal", "no"
    )


def test_a_drained_device_is_left_alone_until_it_is_started(testbed: Testbed) -> None:
    drained = asked(testbed, "ctl", "drain", "cpu_acc")
    assert (drained["idle"], drained["executions"], drained["models"]) == (True, 0, [])
    process = asked(testbed, "ps")["processes"][0]
    assert (process["name"], process["supervised"]["state"]) == ("cpu_acc", "drained")
    assert devices_of(testbed, "digits") == ["cpu_ref"]
    asked(testbed, "ctl", "start", "cpu_acc")
    wait_until(lambda: "cpu_acc" in devices_of(testbed, "digits"), "the model uses it again")
    asked(testbed, "ctl", "restart", "cpu_acc", "--drain")
    wait_until(lambda: "cpu_acc" in devices_of(testbed, "digits"), "the model uses it again")


def test_who_has_done_something_is_told(testbed: Testbed) -> None:
    asked(testbed, "ctl", "drain", "cpu_ref")
    asked(testbed, "ctl", "start", "cpu_ref")
    asked(testbed, "ctl", "unload", "digits")
    asked(testbed, "ctl", "load", "digits")
    told = [each for each in asked(testbed, "show", "events")["events"] if each["kind"] == "changed"][-4:]
    assert [(each["subject"], each["before"], each["undo"]) for each in told] == [
        ("cpu_ref", "up", "processes/cpu_ref/start {}"),
        ("cpu_ref", "drained", "processes/cpu_ref/drain {}"),
        ("digits", "READY", "models/digits/load {}"),
        ("digits", "UNAVAILABLE", "models/digits/unload {}"),
    ]
    assert all(f"user {os.getuid()}" in each["who"] and "process " in each["who"] for each in told)
    assert "cpu_ref takes no new work, and has none (by nnhal-admin" in shown(testbed, "show", "logs", "cpu_ref")


def test_a_drain_holds_when_the_framework_dies(testbed: Testbed) -> None:
    asked(testbed, "ctl", "drain", "cpu_acc")
    framework = testbed.process("framework")
    before = framework.pid
    framework.kill(signal.SIGKILL)
    wait_until(lambda: framework.pid != before and framework.is_running, "the framework serves again")
    wait_until(lambda: devices_of(testbed, "digits") == ["cpu_ref"], "the drain holds")
    asked(testbed, "ctl", "start", "cpu_acc")


def test_a_drained_framework_takes_no_requests_until_it_is_started(testbed: Testbed) -> None:
    assert asked(testbed, "ctl", "drain", "framework")["idle"] is True
    with connect(testbed.framework) as client:
        with pytest.raises(HalError, match="drain"):
            client.load(DIGITS)
        asked(testbed, "ctl", "start", "framework")
        client.load(DIGITS)


def test_a_device_is_added_and_removed(testbed: Testbed) -> None:
    added = asked(testbed, "ctl", "start", "--driver", "null", "--name", "extra", "--workers", "2")
    assert (added["name"], added["is_added"], added["state"]) == ("extra", True, "running")
    with connect(testbed.framework) as client:
        assert "extra" in [device.name for device in client.devices()]
    asked(testbed, "ctl", "stop", "extra", "--remove")
    with connect(testbed.framework) as client:
        assert "extra" not in [device.name for device in client.devices()]
    assert [process.name for process in testbed.processes] == ["cpu_acc", "cpu_ref", "framework"]


def test_an_added_device_outlives_a_restart_of_the_framework(testbed: Testbed) -> None:
    asked(testbed, "ctl", "start", "--driver", "null", "--name", "extra")
    asked(testbed, "ctl", "restart", "framework")
    with connect(testbed.framework) as client:
        assert "extra" in [device.name for device in client.devices()]
    asked(testbed, "ctl", "stop", "extra", "--remove")
    asked(testbed, "ctl", "start", "--driver", "null", "--name", "extra")  # the framework was told of it at its start
    asked(testbed, "ctl", "stop", "extra", "--remove")


def test_logs_are_filtered_and_their_level_is_set(testbed: Testbed) -> None:
    asked(testbed, "ctl", "log-level", "cpu_ref", "debug")
    shown(testbed, "ps")  # which opens links
    wait_until(lambda: any("link opened" in line.text for line in testbed.logs.tail("cpu_ref", 0, 0).lines), "a line")
    assert "link opened" in shown(testbed, "show", "logs", "cpu_ref", "--lines", "50")
    assert "link opened" not in shown(testbed, "show", "logs", "cpu_ref", "--level", "warning")
    assert shown(testbed, "show", "logs", "--request", "nobody") == ""
    assert "no process is called 'nope'" in refused(testbed, "show", "logs", "nope")
    asked(testbed, "ctl", "log-level", "cpu_ref", "warning")


def test_logs_follow(testbed: Testbed) -> None:
    follow = ["show", "logs", "cpu_acc", "--follow", "--json", "--directory", str(testbed.directory)]
    with subprocess.Popen(command(follow), stdout=subprocess.PIPE, text=True) as following:
        try:
            testbed.logs.add("cpu_acc", "said just now\n")
            assert following.stdout is not None
            assert any(json.loads(line)["text"] == "said just now" for line in following.stdout)
        finally:
            following.kill()


def test_models_are_unloaded_loaded_uploaded_planned_and_recorded(testbed: Testbed, tmp_path: Path) -> None:
    asked(testbed, "ctl", "unload", "digits")
    assert asked(testbed, "show", "models")["served"][0]["state"] == "UNAVAILABLE"
    asked(testbed, "ctl", "load", "digits")
    asked(testbed, "ctl", "upload", str(DIGITS), "--name", "again")
    assert sorted(model["name"] for model in asked(testbed, "show", "models")["served"]) == ["again", "digits"]
    asked(testbed, "ctl", "unload", "again")
    pins = ("--pin", "name:*=cpu_ref")
    planned = asked(testbed, "ctl", "plan", "digits", *pins)
    assert {operation["device"] for operation in planned["explanation"]["operations"]} == {"cpu_ref"}
    assert devices_of(testbed, "digits") == ["cpu_acc"]
    applied = asked(testbed, "ctl", "plan", "digits", *pins, "--apply")
    assert "cpu_ref" in applied["config_lines"]
    assert devices_of(testbed, "digits") == ["cpu_ref"]
    trace = tmp_path / "trace.json"
    record = ["ctl", "record", "digits", "1", "--out", str(trace), "--directory", str(testbed.directory)]
    with subprocess.Popen(command(record), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as recording:
        while recording.poll() is None:
            infer(testbed, "digits")
    assert recording.returncode == 0
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert names >= {"digits", "step 0", "process_name"}
    kept = asked(testbed, "show", "recordings")["recordings"][-1]
    assert (kept["model"], kept["runs"], kept["left"]) == ("digits", 1, 0)
    again = tmp_path / "again.json"
    assert asked(testbed, "show", "recordings", str(kept["number"]), "--out", str(again))["runs"] == 1
    assert {event["name"] for event in json.loads(again.read_text())["traceEvents"]} == names
    short = asked(testbed, "ctl", "record", "digits", "2", "--out", str(trace), "--seconds", "0.3", status=1)
    assert (short["runs"], short["left"]) == (0, 2)
    assert json.loads(trace.read_text())["traceEvents"] == []


def test_a_supervisor_that_does_not_answer_is_not_taken_for_none(short_path: Path) -> None:
    (short_path / "supervisor").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mute:
        mute.bind(str(short_path / "supervisor/link.sock"))
        mute.listen()
        threading.Thread(target=lambda: mute.accept()[0].close()).start()
        done = nnhal("ps", "--directory", str(short_path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"nnhal: the supervisor of {short_path} cannot be asked: ")


def test_a_process_without_a_supervisor_of_ours_is_shown_with_who_supervises_it(short_path: Path) -> None:
    key_file = short_path / "key"
    key_file.write_text("0123456789abcdef" * 2)
    key_file.chmod(0o600)
    child = Child(
        "nnhal_devices", ["null", "--endpoint", str(short_path / "alone"), "--admin-key", str(key_file)], zygote=WARM
    )
    key = ("--admin-key", str(key_file), "--directory", str(short_path))
    try:
        child.wait_until_ready()
        (process,) = json.loads(nnhal("ps", "--json", *key).stdout)["processes"]
        assert (process["name"], process["supervised"], process["is_whole"]) == ("alone", None, True)
        (process,) = json.loads(nnhal("ps", "--json", "--directory", str(short_path)).stdout)["processes"]
        assert process["is_whole"] is False
        error = nnhal("ctl", "stop", "alone", *key).stderr
        who = "another supervisor of nnhal supervises it\nhint: use that supervisor"
        assert error == f"nnhal: alone cannot be stopped here: {who}\n"
        assert nnhal("ctl", "drain", "alone", *key).returncode == 0
        assert json.loads(nnhal("ps", "--json", *key).stdout)["processes"][0]["draining"] is True
        assert nnhal("ctl", "start", "alone", *key).returncode == 0
        assert "another supervisor of nnhal starts it again" in nnhal("ctl", "restart", "alone", *key).stdout
        assert child.process.wait(30) == EXIT_STATUS
    finally:
        child.stop()
    error = nnhal("ps", *key).stderr
    assert error.startswith(f"nnhal: no process of nnhal serves below {short_path}\nhint: 'nnhal up' starts")


@contextmanager
def _ready(child: Child) -> Iterator[None]:
    """A process that serves, until the context ends."""
    try:
        child.wait_until_ready()
        yield
    finally:
        child.stop()


def test_a_framework_without_a_supervisor_of_ours_is_told_of_one_more_device(short_path: Path) -> None:
    key_file = short_path / "key"
    key_file.write_text("0123456789abcdef" * 2)
    key_file.chmod(0o600)
    key = ("--admin-key", str(key_file))
    at = ("--directory", str(short_path), *key)
    with ExitStack() as children:
        for name in ("first", "second"):
            words = ["null", "--endpoint", str(short_path / name), *key]
            children.enter_context(_ready(Child("nnhal_devices", words, zygote=WARM)))
        words = ["--endpoint", str(short_path / "framework"), "--device", f"first={short_path / 'first'}", *key]
        children.enter_context(_ready(Child("nnhal_service", words, zygote=WARM)))

        def known() -> dict[str, bool]:
            found = json.loads(nnhal("show", "devices", "--json", *at).stdout)["devices"]
            return {device["name"]: device["standing"] is not None for device in found}

        assert known() == {"first": True, "second": False}
        assert nnhal("ctl", "add", "second", *at).stdout == "the framework knows second\n"
        assert known() == {"first": True, "second": True}
        assert nnhal("ctl", "remove", "second", *at).stdout == "the framework has forgotten second\n"
        assert known() == {"first": True, "second": False}
        assert "no process is called 'third'" in nnhal("ctl", "add", "third", *at).stderr
        assert "was there at the start" in nnhal("ctl", "remove", "first", *at).stderr


def test_devices_of_a_supervisor_of_ours_are_added_and_removed_by_it(testbed: Testbed) -> None:
    assert "device name 'cpu_ref': expected another than cpu_acc, cpu_ref" in refused(testbed, "ctl", "add", "cpu_ref")
    assert "cpu_ref is in the topology" in refused(testbed, "ctl", "remove", "cpu_ref")
