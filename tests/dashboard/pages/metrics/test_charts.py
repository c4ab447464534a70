"""The charts of a range over a history that a test writes."""

from __future__ import annotations

import re

import pytest

from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process, framework_process, framework_state

BEGIN = 1_800_000_000.0


def snapshot(second: int, requests: int, durations: list[int], **fields: object) -> dict[str, object]:
    """Return the fields of a snapshot of a framework that has served so much."""
    counts = framework_admin_pb2.ModelCounts(
        requests=requests, durations=durations, duration_ns=requests * 2_000_000, copied_bytes=requests << 20
    )
    model = framework_admin_pb2.ServedModelState(name="digits", version="1", state="READY", counts=counts)
    return {"at": BEGIN + second, "framework": framework_state(counts=counts, models=[model])} | fields


def busy(second: int) -> admin_pb2.GetDeviceResponse:
    return admin_pb2.GetDeviceResponse(workers=1, busy_ns=second * 500_000_000, executions_ended=10 * second)


def collected(seconds: int = 120, every: int = 1, **fields: object) -> ScriptedCollector:
    """Return a testbed that has served a request every so many seconds."""
    collector = ScriptedCollector()
    for second in range(seconds):
        served = second // every
        collector.show(
            device_process(device=busy(second)),
            framework_process(),
            **snapshot(second, served, [0, 0, 0, served], **fields),
        )
    return collector


def section(page: str, name: str) -> str:
    found = re.search(rf"<section data-live='metrics\.{name}[?'].*?</section>", page, re.DOTALL)
    assert found is not None, name
    return found[0]


def test_charts_have_values_units_and_times() -> None:
    page = PageBrowser(collected()).page("/metrics?range=5m")
    requests = section(page, "requests")
    assert ">UTC</text>" in requests and ">/s</text>" in requests
    assert "aria-label='Requests: all models 1/s'" in requests or "aria-label='Requests: 1/s'" in requests
    assert re.search(r"data-at='\d+'>08:0\d", requests)
    assert ">ms</text>" in section(page, "quantiles")
    assert 'href="/models/digits"' in section(page, "latency")
    assert 'href="/devices/npu"' in section(page, "busy")


def test_a_chart_without_data_says_why_and_has_no_axis() -> None:
    page = PageBrowser(ScriptedCollector()).page("/metrics")
    assert page.count("The dashboard has just begun to collect") >= 11
    assert "<svg" not in page.split("<main", 1)[1]
    idle = PageBrowser(collected(every=10_000)).page("/metrics")
    assert "No request came in this time." in section(idle, "requests")
    assert "No request ended in this time." in section(idle, "quantiles")
    assert "No request failed in this time." in section(idle, "failures")
    assert "<svg" not in section(idle, "requests")
    silent = ScriptedCollector()
    for second in range(3):
        silent.show(at=BEGIN + second)
    assert "The framework did not answer in this time." in section(PageBrowser(silent).page("/metrics"), "requests")


def test_a_slow_rate_is_what_it_is() -> None:
    requests = section(PageBrowser(collected(640, every=5)).page("/metrics?range=5m"), "requests")
    numbers = re.findall(r'<td class="number" data-label="[A-Z][a-z]+">([^<]*)</td>', requests)
    assert numbers == ["0.2/s", "0.2/s", "0.2/s"]


@pytest.mark.parametrize("shown", ["5m", "15m", "1h", "24h"])
def test_what_happened_is_marked_on_every_chart(shown: str) -> None:
    event = supervisor_pb2.ProcessEvent(
        at_ns=round((BEGIN + 60) * 1e9), subject="npu", kind="died", text="killed by SIGKILL"
    )
    page = PageBrowser(collected(events=(event,))).page(f"/metrics?range={shown}")
    for name in ("requests", "quantiles", "durations", "models", "latency", "executions", "busy"):
        assert "killed by SIGKILL" in section(page, name), name
    assert page.count("href='/runs?from=2027-01-15T08%3A00%3A55Z&amp;until=2027-01-15T08%3A01%3A05Z'") >= 7


def test_a_range_keeps_the_unit_of_a_chart() -> None:
    collector = ScriptedCollector()
    copied = 0
    for second in range(1200):
        copied += (50 << 20) if second == 10 else 2000
        counts = framework_admin_pb2.ModelCounts(requests=2 * second, copied_bytes=copied)
        collector.show(framework_process(), at=BEGIN + second, framework=framework_state(counts=counts))
    browser = PageBrowser(collector)
    for shown in ("5m", "15m", "24h"):
        assert ">MiB/s</text>" in section(browser.page(f"/metrics?range={shown}"), "copied"), shown


def test_the_memory_of_the_dashboard_does_not_grow_with_time() -> None:
    collector = collected(10)
    columns = len(collector.history.names("device.busy"))
    for second in range(10, 200):
        collector.show(device_process(device=busy(second)), at=BEGIN + second)
    assert len(collector.history.names("device.busy")) == columns
