"""The picture of what runs where: all that works is in it, and what does not work recedes or stands out."""

from __future__ import annotations

import re
from typing import Any

from nnhal.v1 import admin_pb2, framework_admin_pb2, framework_pb2
from nnhal_pages.operating.snapshot import ObservedProcess
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
)
from tests.support.html import parsed

BUSY = 12


def model(number: int, requests: int, **fields: Any) -> framework_admin_pb2.ServedModelState:
    durations = [0] * 12 + [requests]
    counts = framework_admin_pb2.ModelCounts(
        requests=requests, durations=durations, runs=requests, run_ns=requests * 10**6, duration_ns=requests * 10**6
    )
    given: dict[str, Any] = {"devices": [f"npu{number % 3}"], "state": "READY", "counts": counts}
    return framework_admin_pb2.ServedModelState(name=f"net{number}", version="1", **given | fields)


def device(number: int, ended: int, **fields: Any) -> ObservedProcess:
    state = admin_pb2.GetDeviceResponse(workers=1, executions_ended=ended, busy_ns=ended * 10**6)
    return device_process(f"npu{number}", device=state, **fields)


def shown(models: int = 51, devices: int = 12, **lost: Any) -> PageBrowser:
    """Twelve busy models on three busy devices; all others are idle."""

    def moment(at: float, requests: int) -> None:
        processes = [device(number, requests if number < 3 else 0) for number in range(devices)]
        if lost:
            processes[1] = device(1, 0, **lost)
        states = [model(number, requests * (number + 1) if number < BUSY else 0) for number in range(models)]
        collector.show(*processes, framework_process(), framework=framework_state(models=states), at=at)

    collector = ScriptedCollector()
    moment(1000.0, 10)
    moment(1010.0, 20)
    return PageBrowser(collector)


def test_many_models_and_devices_are_summed() -> None:
    page = shown().page("/")
    wide = page[page.index("picture wide") : page.index("picture narrow")]
    assert "and 39 others, idle" in wide
    assert "and 2 others, " in wide  # of twelve busy models ten are drawn
    names = re.findall(r"class='label flow-name'>([^<]*)<", wide)
    assert [name for name in names if name.startswith("net")] == [f"net{number}" for number in range(11, 1, -1)]
    assert [name for name in names if name.startswith("npu")] == [f"npu{number}" for number in range(12)]
    table = page[page.index("<h2>Models</h2>") :]
    assert "and 39 others" in table


def test_idle_devices_recede_and_a_lost_one_stands_out() -> None:
    page = shown(silence="it has not answered for 9 s").page("/")
    links = [link for link in parsed(page).all("a") if "flow-node" in link.attributes.get("class", "")]
    looks = {link.attributes["href"]: link.attributes["class"] for link in links}
    assert looks["/devices/npu0"] == "flow-node"
    assert looks["/devices/npu1"] == "flow-node lost"
    assert looks["/devices/npu7"] == "flow-node idle"
    assert all(link.attributes["href"].startswith("/") for link in links)


def test_the_picture_is_a_table_too() -> None:
    page = shown(models=2).page("/")
    table = page[page.index("The picture as a table") :]
    rows = re.findall(r'<th scope="row">(\w+)</th><td data-label="To">(\w+)</td><td[^>]*>([^<]*)</td>', table)
    assert rows == [("net1", "npu1", "2/s"), ("net0", "npu0", "1/s")]


def test_the_slowest_and_who_refused_are_told_with_their_pages() -> None:
    browser = shown(models=1)
    refusals = [framework_pb2.DeviceRefusal(device="npu2", reason="DTYPE: got TENSOR_FLOAT32, allowed int8")]
    operations = [framework_pb2.OperationExplanation(operation="CONV_2D", device="npu0", refusals=refusals)] * 173
    explanation = framework_pb2.ModelExplanation(operations=operations)
    answer = framework_admin_pb2.ExplainTargetResponse(explanation=explanation)
    browser.script.answers["framework", "explain"] = answer
    said = parsed(browser.page("/")).all("dd")
    text = " ".join(each.text for each in said)
    assert re.search(r"net0 99 % within [\d.]+ [mµ]s; mean 1 ms, 1 ms on npu0", text)
    assert "npu2 refused 173 of 173: float32" in text
    assert '<a href="/models/net0/plan">npu2</a> refused' in browser.page("/")
