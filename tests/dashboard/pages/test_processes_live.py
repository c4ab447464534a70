"""The pages of devices, sessions and memory over a testbed: what they show of it, and what they do to it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from nnhal.errors import DeadObjectError
from nnhal_client import connect
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.settings import DashboardSettings
from nnhal_pages.operating.snapshot import Detail, ObservedProcess
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.dashboard import PageBrowser
from tests.support.html import parsed
from tests.support.processes import WARM
from tests.support.waiting import wait_until

DIGITS = Path(__file__).parents[3] / "tools/nnhal_tools/demo/data/digits.onnx"
_SESSION = re.compile(r"/sessions/framework/(s\d+)")


class _Operated(NamedTuple):
    testbed: Testbed
    collector: Collector
    browser: PageBrowser

    def act(self, command: str, name: str) -> str:
        """Send a form of a process's page, and return the next page."""
        answer = self.browser.post(f"/processes/{command}", f"/devices/{name}", {"process": name})
        return self.browser.page(answer.headers["location"])

    def state(self, name: str) -> str:
        """The state of a device, as its page says it."""
        return parsed(self.browser.page(f"/devices/{name}")).having("state")[0].text


@pytest.fixture(scope="module")
def operated() -> Iterator[_Operated]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref"))
        testbed = Testbed(Topology(device=devices), Path(directory), zygote=WARM)
        with controlled(testbed), Collector(DashboardSettings(directory=Path(directory))) as collector:
            wait_until(lambda: _are_known(collector.look(Detail.SESSIONS).devices), "both devices have answered")
            yield _Operated(testbed, collector, PageBrowser(collector))


def _are_known(devices: Sequence[ObservedProcess]) -> bool:
    return len(devices) == 2 and all(each.process is not None and each.description is not None for each in devices)


def test_a_device_says_what_it_is_and_what_it_can_do(operated: _Operated) -> None:
    text = operated.browser.page("/devices/cpu_acc")
    for expected in ("ONNX Runtime", "TENSOR_FLOAT32", "cpu_acc/import", str(operated.testbed.pid("cpu_acc"))):
        assert expected in text
    assert operated.state("cpu_acc") == "up"


def test_a_client_is_seen_with_what_it_holds_until_an_operator_ends_its_session(operated: _Operated) -> None:
    browser = operated.browser
    with connect(operated.testbed.framework) as framework:
        model = framework.load(DIGITS, pins={"index:0": "cpu_ref", "index:1": "cpu_acc"})
        operated.collector.refresh()
        (session,) = _SESSION.findall(browser.page(f"/sessions?process=framework&text={os.getpid()}&sort=objects"))[:1]
        shown = f"/sessions/framework/{session}"
        page = browser.page(shown)
        assert model.session_name in page and f"<dd>process {os.getpid()}</dd>" in page
        arena = browser.page(f"/memory/arena?model={model.session_name}&session={session}")
        assert "<svg" in arena and "cpu_ref" in arena
        assert "the framework" in browser.page("/sessions?process=cpu_acc")
        assert browser.post("/sessions/end", shown, {"process": "framework", "session": session}).status_code == 303
        wait_until(lambda: browser.get(shown).status_code == 404, "the session is over")
        with pytest.raises(DeadObjectError):
            framework.load(DIGITS)


def test_memory_that_the_framework_shares_with_a_device_is_one_row(operated: _Operated) -> None:
    browser = operated.browser
    with connect(operated.testbed.framework) as framework:
        framework.load(DIGITS)
        operated.collector.refresh()
        rows = [row.text for row in parsed(browser.page("/memory")).all("tr")]
    assert any("constants of prepared model" in row and "ashmem" in row for row in rows)


def test_a_device_drains_and_takes_work_again(operated: _Operated) -> None:
    assert "takes no new work, and has none" in operated.act("drain", "cpu_ref")
    assert operated.state("cpu_ref") == "drained"
    assert "cpu_ref takes work again" in operated.act("undrain", "cpu_ref")
    assert operated.state("cpu_ref") == "up"


def test_a_device_is_stopped_started_and_started_again(operated: _Operated) -> None:
    operated.act("stop", "cpu_ref")
    assert operated.state("cpu_ref") == "stopped"
    operated.act("start", "cpu_ref")
    first = operated.testbed.pid("cpu_ref")
    assert "cpu_ref serves as process" in operated.act("restart", "cpu_ref")
    assert operated.testbed.pid("cpu_ref") != first
    assert operated.state("cpu_ref") == "up"


def test_a_device_that_is_killed_comes_back(operated: _Operated) -> None:
    pid = operated.testbed.pid("cpu_ref")
    assert f"process {pid} was sent SIGKILL" in operated.act("kill", "cpu_ref")
    wait_until(lambda: operated.state("cpu_ref") == "up" and operated.testbed.pid("cpu_ref") != pid, "it is back")
    assert "SIGKILL" in operated.browser.page("/devices/cpu_ref")


def test_another_device_is_started_and_removed(operated: _Operated) -> None:
    browser = operated.browser
    fields = {"driver": "cpu_ref", "name": "third", "workers": "2"}
    answer = browser.post("/devices/start", "/devices", fields)
    assert "third serves" in browser.page(answer.headers["location"])
    assert "0 of 2" in browser.page("/devices/third")
    assert "the framework has forgotten third" in operated.act("remove", "third")
    wait_until(lambda: browser.get("/devices/third").status_code == 404, "the framework has said so too")


def test_what_the_supervisor_refuses_is_told(operated: _Operated) -> None:
    fields = {"driver": "no_such_driver"}
    answer = operated.browser.post("/devices/start", "/devices", fields)
    text = operated.browser.page(answer.headers["location"])
    assert "That failed." in text and "no_such_driver" in text
