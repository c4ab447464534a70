"""The first page: what is wrong, what there is, and what has happened."""

from __future__ import annotations

from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
)


def test_an_empty_testbed_says_what_to_do() -> None:
    page = PageBrowser(ScriptedCollector()).page("/")
    assert "is nnhal up?" in page
    assert "nnhal up" in page and "--model-repository" in page
    assert "Nothing has happened yet." in page


def test_what_is_wrong_comes_before_all_else() -> None:
    silent = device_process(silence="it has not answered for 9 s")
    page = PageBrowser(ScriptedCollector(silent, framework_process(), framework=framework_state())).page("/")
    assert 0 < page.index("it has not answered for 9 s") < page.index("<h2>What runs where</h2>")
    assert "Nothing is wrong." not in page


def test_devices_models_and_events_are_listed() -> None:
    model = framework_admin_pb2.ServedModelState(name="net", version="3", state="READY", devices=["npu"], queued=7)
    event = supervisor_pb2.ProcessEvent(number=1, at_ns=10**18, subject="npu", kind="died", text="killed by SIGKILL")
    collector = ScriptedCollector(
        device_process(), framework_process(), framework=framework_state(models=[model]), events=(event,)
    )
    page = PageBrowser(collector).page("/")
    assert "Nothing is wrong." in page
    assert 'href="/devices/npu"' in page
    assert 'href="/models/net"' in page
    assert "killed by SIGKILL" in page
