"""The page of one process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.remote import DeviceDescription, DeviceIdentity
from nnhal.types import (
    SLOWEST,
    Capabilities,
    DeviceType,
    NumberOfCacheFiles,
    OperandPerformance,
    OperandType,
    PerformanceInfo,
    TensorHandleFactory,
    TransferCosts,
)
from nnhal.v1 import admin_pb2, supervisor_pb2, types_pb2
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
    supervised,
)
from tests.support.html import parsed

_STATES = supervisor_pb2.SupervisedProcess.State
_CPU = PerformanceInfo(1.0, 1.0)
IDENTITY = DeviceIdentity(
    "npu-1.2.3",
    DeviceType.ACCELERATOR,
    Capabilities(
        _CPU, _CPU, (OperandPerformance(OperandType.TENSOR_QUANT8_ASYMM, PerformanceInfo(0.1, 0.25)),), SLOWEST, _CPU
    ),
    (),
    NumberOfCacheFiles(1, 2),
)
DESCRIPTION = DeviceDescription(
    "npu",
    frozenset({"ashmem"}),
    64,
    True,
    1,
    (TensorHandleFactory("npu/import", frozenset({"ashmem"}), frozenset({"mmap_fd"}), alignment=16),),
    False,
    TransferCosts(),
    "a model of an NPU",
)


def test_a_device_shows_what_it_can_do() -> None:
    limits = [admin_pb2.OperationLimit(operation="CONV_2D", conditions="the kernel is at most 64 by 64")]
    process = device_process(limits=limits, identity=IDENTITY, description=DESCRIPTION)
    text = PageBrowser(ScriptedCollector(process)).page("/devices/npu")
    for expected in (
        "npu-1.2.3",
        "accelerator",
        "a model of an NPU",
        "npu/import",
        "TENSOR_QUANT8_ASYMM",
        "10 times as fast",
        "never preferred",
        "the kernel is at most 64 by 64",
        "1 for models, 2 for data",
    ):
        assert expected in text


def test_a_device_on_another_host_shows_its_network_and_what_went_over_it() -> None:
    remote = replace(
        DESCRIPTION, transfer_costs=TransferCosts(1_260_000, copy_ns_per_byte=10, is_wire=True, round_trip_ns=1_200_000)
    )
    said = admin_pb2.GetDeviceResponse(workers=1, wire_up_bytes=1 << 20, wire_down_bytes=2048)
    process = device_process(identity=IDENTITY, description=remote, device=said)
    text = PageBrowser(ScriptedCollector(process)).page("/devices/npu")
    for expected in ("on another host: a round trip takes 1.20 ms, 100 MB/s", "On the wire", "1 MiB", "2 KiB down"):
        assert expected in text
    here = device_process(identity=IDENTITY, description=DESCRIPTION, device=admin_pb2.GetDeviceResponse(workers=1))
    assert "n the wire" not in PageBrowser(ScriptedCollector(here)).page("/devices/npu")


def test_a_device_that_has_said_nothing_yet_has_a_page() -> None:
    starting = supervised("npu", state=_STATES.STATE_STARTING)
    process = device_process(silence="it has not been asked yet", supervised=starting)
    text = PageBrowser(ScriptedCollector(process)).page("/devices/npu")
    assert "It has not said what it is yet." in text
    assert "it has not been asked yet" in text


def test_figures_of_the_driver_are_shown_with_their_units() -> None:
    figures = [
        admin_pb2.DeviceFigure(name="SRAM in use", value=393216, unit="bytes"),
        admin_pb2.DeviceFigure(name="commands", value=12),
    ]
    device = admin_pb2.GetDeviceResponse(workers=1, figures=figures, temperature=48.0)
    text = PageBrowser(ScriptedCollector(device_process(device=device))).page("/devices/npu")
    assert "384 KiB" in text and "Commands" in text and "48 °C" in text


def test_executions_are_shown_and_those_that_can_be_cancelled_have_a_button() -> None:
    state = admin_pb2.ExecutionState
    runs = state(
        id="e1", what="prepared model 3", phase=state.PHASE_RUNNING, deadline_ns=-1, priority=types_pb2.PRIORITY_HIGH
    )
    waits = state(id="e2", what="prepared model 4", phase=state.PHASE_FENCED, deadline_ns=-1, can_be_cancelled=True)
    process = admin_pb2.GetProcessResponse(name="npu", is_whole=True, executions=[runs, waits])
    page = parsed(PageBrowser(ScriptedCollector(device_process(process=process))).page("/devices/npu"))
    assert "prepared model 3" in page.text and "waiting for fences" in page.text and "high" in page.text
    cancelled = [each.attributes["value"] for each in page.all("input") if each.attributes["name"] == "execution"]
    assert cancelled == ["e2"]


def test_models_of_the_repository_and_of_sessions_are_listed() -> None:
    framework = framework_state(
        models=[{"name": "digits", "version": "2", "devices": ["npu"]}, {"name": "other", "devices": ["cpu"]}],
        session_models=[{"session": "s4", "name": "mine", "devices": ["npu"]}],
    )
    collector = ScriptedCollector(device_process(), framework_process(), framework=framework)
    text = PageBrowser(collector).page("/devices/npu")
    assert "/models/digits" in text and "/models/other" not in text
    assert "/sessions/framework/s4" in text


def test_the_framework_and_the_dashboard_have_pages_of_their_own() -> None:
    collector = ScriptedCollector(
        device_process(),
        framework_process(supervised=supervised("framework", "framework", last_end="exit status 1")),
    )
    browser = PageBrowser(collector)
    assert "exit status 1" in browser.page("/processes/framework")
    assert browser.get("/devices/framework").headers["location"] == "/processes/framework"
    assert browser.get("/processes/npu").headers["location"] == "/devices/npu"


@pytest.mark.parametrize("path", ["/devices/none", "/processes/none"])
def test_an_unknown_process_is_not_found(path: str) -> None:
    assert "no process is called &#39;none&#39;" in PageBrowser(ScriptedCollector()).page(path, 404)


@pytest.mark.parametrize(
    ("state", "offered"),
    [
        (_STATES.STATE_RUNNING, ["drain", "restart", "restart-cold", "stop", "kill"]),
        (_STATES.STATE_DRAINING, ["undrain", "restart", "restart-cold", "stop", "kill"]),
        (_STATES.STATE_DRAINED, ["undrain", "restart", "restart-cold", "stop", "kill"]),
        (_STATES.STATE_STARTING, ["stop", "kill"]),
        (_STATES.STATE_WAITING, ["start", "stop"]),
        (_STATES.STATE_STOPPED, ["start"]),
    ],
)
def test_what_is_offered_depends_on_the_state(
    state: supervisor_pb2.SupervisedProcess.State.ValueType, offered: list[str]
) -> None:
    assert _offered(ScriptedCollector(device_process(supervised=supervised("npu", state=state)))) == offered


def test_a_device_that_was_added_can_be_removed() -> None:
    added = device_process(supervised=supervised("npu", is_added=True))
    assert _offered(ScriptedCollector(added))[-1] == "remove"


def test_a_silent_process_can_be_killed_and_not_drained() -> None:
    silent = device_process(silence="it has not answered for 5 s", supervised=supervised("npu"))
    assert _offered(ScriptedCollector(silent)) == ["restart-cold", "stop", "kill"]


@pytest.mark.parametrize(
    ("supervisor", "words", "offered"),
    [
        (admin_pb2.SUPERVISOR_SYSTEMD, "systemd supervises it", ["drain", "exit"]),
        (admin_pb2.SUPERVISOR_CONTAINER, "It is in a container", ["drain", "exit"]),
        (admin_pb2.SUPERVISOR_NNHAL, "A supervisor of nnhal", ["drain", "exit"]),
        (admin_pb2.SUPERVISOR_UNSPECIFIED, "Nothing that it knows of starts it again", ["drain"]),
    ],
)
def test_without_our_supervisor_the_page_says_who_supervises(
    supervisor: admin_pb2.Supervisor.ValueType, words: str, offered: list[str]
) -> None:
    said = admin_pb2.GetProcessResponse(name="npu", is_whole=True, supervisor=supervisor)
    collector = ScriptedCollector(device_process(process=said))
    assert words in PageBrowser(collector).page("/devices/npu")
    assert _offered(collector) == offered


def test_without_a_key_nothing_is_offered_and_the_page_says_what_is_missing() -> None:
    said = admin_pb2.GetProcessResponse(name="npu", supervisor=admin_pb2.SUPERVISOR_SYSTEMD)
    collector = ScriptedCollector(device_process(process=said))
    assert "--admin-key FILE" in PageBrowser(collector).page("/devices/npu")
    assert _offered(collector) == []


def _offered(collector: ScriptedCollector) -> list[str]:
    page = parsed(PageBrowser(collector).page("/devices/npu"))
    actions = [form.attributes["action"] for form in page.all("form")]
    return [action.removeprefix("/processes/") for action in actions if action.startswith("/processes/")]


def test_each_device_has_a_row_with_what_it_does() -> None:
    busy = admin_pb2.GetDeviceResponse(workers=4, running=3, waiting=7)
    text = PageBrowser(ScriptedCollector(device_process("npu0", device=busy))).page("/devices")
    assert '<a href="/devices/npu0">npu0</a>' in text
    assert "3 of 4" in text and ">7</td>" in text


def test_rates_are_those_of_the_last_second() -> None:
    collector = ScriptedCollector(device_process(device=admin_pb2.GetDeviceResponse(workers=1)))
    later = admin_pb2.GetDeviceResponse(workers=1, executions_ended=40, busy_ns=500_000_000, staged_bytes=2048)
    collector.show(device_process(device=later))
    text = PageBrowser(collector).page("/devices")
    assert "40/s" in text and "2 KiB/s" in text and "50 %" in text


def test_a_device_that_is_silent_says_so_and_shows_no_old_rates() -> None:
    collector = ScriptedCollector(device_process(device=admin_pb2.GetDeviceResponse(workers=1)))
    later = admin_pb2.GetDeviceResponse(workers=1, running=1, executions_ended=40)
    collector.show(device_process(device=later, silence="stopped", supervised=supervised("npu")))
    text = PageBrowser(collector).page("/devices")
    assert 'class="state silent"' in text
    assert "40/s" not in text and "1 of 1" not in text


def test_a_device_that_the_framework_leaves_alone_drains() -> None:
    standing = framework_state(devices=[{"name": "npu", "available": True, "draining": True}])
    text = PageBrowser(ScriptedCollector(device_process(), framework=standing)).page("/devices")
    assert 'class="state draining"' in text


def test_the_temperature_is_a_column_if_a_device_has_one() -> None:
    cool, hot = admin_pb2.GetDeviceResponse(workers=1), admin_pb2.GetDeviceResponse(workers=1, temperature=61.5)
    without = PageBrowser(ScriptedCollector(device_process("a", device=cool))).page("/devices")
    text = PageBrowser(ScriptedCollector(device_process("a", device=cool), device_process("b", device=hot)))
    assert "Temperature" not in without
    assert "61.5 °C" in text.page("/devices")


def test_other_processes_are_listed_with_their_addresses() -> None:
    framework = framework_process(
        supervised=supervised("framework", "framework", addresses=["http: 127.0.0.1:8000"], restarts=2)
    )
    text = PageBrowser(ScriptedCollector(framework)).page("/devices")
    assert "/processes/framework" in text and "http: 127.0.0.1:8000" in text


def test_the_form_offers_the_drivers_that_the_supervisor_has() -> None:
    supervisor = supervisor_pb2.ListProcessesResponse(drivers=["cpu_acc", "ethos_u"])
    page = parsed(PageBrowser(ScriptedCollector(supervisor=supervisor)).page("/devices"))
    assert [option.text for option in page.all("option")] == ["cpu_acc", "ethos_u"]
    assert "No device runs." in page.text


def test_without_a_supervisor_the_page_says_who_starts_devices() -> None:
    text = PageBrowser(ScriptedCollector()).page("/devices")
    assert "No supervisor of nnhal is reached here" in text
    assert 'action="/devices/start"' not in text
    assert "No device is known." in text


@pytest.mark.parametrize("name", ["<b>npu</b>", "'onmouseover='x", "a b", "ü"])
def test_names_are_text(name: str) -> None:
    text = PageBrowser(ScriptedCollector(device_process(name))).page("/devices")
    page = parsed(text)
    assert name in page.text
    assert "b" not in page.counts
    assert not [element for element in page.elements if "onmouseover" in element.attributes]
