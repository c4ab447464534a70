"""The page of all devices."""

from __future__ import annotations

import pytest

from nnhal.v1 import admin_pb2, supervisor_pb2
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
