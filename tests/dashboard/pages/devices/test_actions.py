"""Actions of the forms on the pages of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal.errors import DeadObjectError
from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_hosting.access import read_tokens
from nnhal_mlip.timing.profile import profile_names
from tests.support.dashboard import PageBrowser, ScriptedCollector, device_process, framework_state, supervised
from tests.support.tokens import token_file

FORMS = [
    ("/processes/restart", {"process": "npu"}),
    ("/processes/kill", {"process": "npu"}),
    ("/devices/start", {"driver": "cpu_ref"}),
    ("/executions/cancel", {"process": "npu", "execution": "e1"}),
]


def _supervised() -> ScriptedCollector:
    supervisor = supervisor_pb2.ListProcessesResponse(drivers=["cpu_ref"])
    collector = ScriptedCollector(device_process(supervised=supervised("npu")), supervisor=supervisor)
    collector.contacts.answers["supervisor", "kill"] = 4711
    collector.contacts.answers["supervisor", "start"] = supervised("npu")
    collector.contacts.answers["supervisor", "restart"] = supervised("npu")
    collector.contacts.answers["supervisor", "drain"] = supervisor_pb2.DrainProcessResponse()
    return collector


@pytest.mark.parametrize(
    ("command", "method", "arguments"),
    [
        ("restart", "restart", ("npu", True)),
        ("restart-cold", "restart", ("npu", False)),
        ("start", "start", ("npu",)),
        ("undrain", "start", ("npu",)),
        ("stop", "stop", ("npu", False)),
        ("kill", "kill", ("npu", 9)),
        ("drain", "drain", ("npu", 10.0)),
        ("remove", "remove_device", ("npu",)),
    ],
)
def test_the_supervisor_does_what_is_asked(command: str, method: str, arguments: tuple[object, ...]) -> None:
    collector = _supervised()
    browser = PageBrowser(collector)
    answer = browser.post(f"/processes/{command}", "/devices/npu", {"process": "npu"})
    assert answer.status_code == 303
    assert collector.contacts.calls == [("supervisor", method, arguments, {})]
    assert "Done." in browser.page(answer.headers["location"])


@pytest.mark.parametrize(
    ("command", "undo"), [("drain", "start"), ("stop", "start"), ("start", ""), ("kill", ""), ("restart", "")]
)
def test_who_has_changed_something_is_kept_with_what_it_was_and_what_undoes_it(
    command: str, undo: str, tmp_path: Path
) -> None:
    collector = _supervised()
    browser = PageBrowser(collector, read_tokens(token_file(tmp_path, boss="admin")))
    browser.sign_in("boss-token")
    browser.post(f"/processes/{command}", "/devices/npu", {"process": "npu"})
    (change,) = collector.contacts.changes
    assert (change.subject, change.before) == ("npu", "up")
    assert change.who == "token boss from 127.0.0.1 by the dashboard"
    assert change.undo == (f"processes/npu/{undo} {{}}" if undo else "")


def test_what_fails_has_changed_nothing() -> None:
    collector = _supervised()
    collector.contacts.answers["supervisor", "kill"] = DeadObjectError("it does not run")
    PageBrowser(collector).post("/processes/kill", "/devices/npu", {"process": "npu"})
    assert collector.contacts.changes == []


def test_a_drain_tells_what_is_left() -> None:
    collector = _supervised()
    left = supervisor_pb2.DrainProcessResponse(executions=3, models=["digits"])
    collector.contacts.answers["supervisor", "drain"] = left
    browser = PageBrowser(collector)
    browser.post("/processes/drain", "/devices/npu", {"process": "npu"})
    assert "3 executions run or wait; these models still use it: digits." in browser.page("/devices/npu")


def test_a_device_without_supervisor_is_drained_and_left_alone_by_the_framework_that_uses_it() -> None:
    framework = framework_state(devices=[{"name": "npu", "available": True}])
    collector = ScriptedCollector(device_process(), framework=framework)
    collector.contacts.answers["framework", "drain_device"] = []
    collector.contacts.answers["npu", "drain"] = 0
    browser = PageBrowser(collector)
    browser.post("/processes/drain", "/devices/npu", {"process": "npu"})
    assert collector.contacts.calls == [("framework", "drain_device", ("npu",), {}), ("npu", "drain", (), {})]
    assert "npu takes no new work, and has none." in browser.page("/devices/npu")


def test_a_device_that_no_framework_uses_is_drained_itself_and_takes_work_again() -> None:
    collector = ScriptedCollector(device_process())
    collector.contacts.answers["npu", "drain"] = 0
    browser = PageBrowser(collector)
    browser.post("/processes/drain", "/devices/npu", {"process": "npu"})
    draining = admin_pb2.GetProcessResponse(name="npu", is_whole=True, draining=True)
    collector.show(device_process(process=draining))
    browser.post("/processes/undrain", "/devices/npu", {"process": "npu"})
    assert collector.contacts.calls == [("npu", "drain", (), {}), ("npu", "drain", (), {"drain": False})]


def test_a_process_exits_for_what_supervises_it() -> None:
    said = admin_pb2.GetProcessResponse(name="npu", is_whole=True, supervisor=admin_pb2.SUPERVISOR_SYSTEMD)
    collector = ScriptedCollector(device_process(process=said))
    PageBrowser(collector).post("/processes/exit", "/devices/npu", {"process": "npu"})
    assert collector.contacts.calls == [("npu", "exit", (), {})]


def test_another_device_is_started_with_its_options() -> None:
    collector = _supervised()
    collector.contacts.answers["supervisor", "start_device"] = supervised("npu1")
    browser = PageBrowser(collector)
    fields = {"driver": "cpu_ref", "name": "npu1", "workers": "2", "threads": "3", "options": "a=1\n\n b = x=y \n"}
    browser.post("/devices/start", "/devices", fields)
    assert collector.contacts.calls == [
        ("supervisor", "start_device", ("cpu_ref", "npu1", 2, 3, {"a": "1", "b": "x=y"}), {})
    ]
    assert "npu1 serves." in browser.page("/devices")


def test_an_option_without_a_value_starts_nothing() -> None:
    collector = _supervised()
    browser = PageBrowser(collector)
    browser.post("/devices/start", "/devices", {"driver": "cpu_ref", "options": "fast"})
    assert collector.contacts.calls == []
    assert "option &#39;fast&#39;, expected NAME=VALUE" in browser.page("/devices")


@pytest.mark.parametrize(
    "option",
    [
        "token_file=secret",
        "tls_ca=ca.pem",
        "tls_key=key.pem",
        "tls_certificate=c.pem",
        "profile=/etc/passwd",
        "profile=bare",
        "profile=cn106.toml",
        "token_file=cn106",
        "memory=bare",
    ],
)
def test_an_option_that_names_a_file_starts_nothing(option: str) -> None:
    collector = _supervised()
    browser = PageBrowser(collector)
    options = f"endpoint=tcp://127.0.0.1:9000\n{option}"
    browser.post("/devices/start", "/devices", {"driver": "remote", "options": options})
    assert collector.contacts.calls == []
    assert "names a file, expected none here" in browser.page("/devices")


@pytest.mark.parametrize("profile", profile_names())
def test_a_profile_that_comes_with_nnhal_is_taken_by_its_name(profile: str) -> None:
    collector = _supervised()
    collector.contacts.answers["supervisor", "start_device"] = supervised("mlip1")
    browser = PageBrowser(collector)
    browser.post("/devices/start", "/devices", {"driver": "mlip", "options": f"profile={profile}"})
    assert collector.contacts.calls == [("supervisor", "start_device", ("mlip", "", 1, 1, {"profile": profile}), {})]


@pytest.mark.parametrize("workers", ["0", "257", "two"])
def test_a_number_of_workers_that_cannot_be_is_refused(workers: str) -> None:
    collector = _supervised()
    answer = PageBrowser(collector).post("/devices/start", "/devices", {"driver": "cpu_ref", "workers": workers})
    assert answer.status_code == 422
    assert collector.contacts.calls == []


@pytest.mark.parametrize(("ended", "words"), [(True, "and has ended."), (False, "ends as soon as")])
def test_an_execution_is_cancelled(ended: bool, words: str) -> None:
    collector = _supervised()
    collector.contacts.answers["npu", "cancel_execution"] = ended
    browser = PageBrowser(collector)
    browser.post("/executions/cancel", "/devices/npu", {"process": "npu", "execution": "e1"})
    assert collector.contacts.calls == [("npu", "cancel_execution", ("e1",), {})]
    assert words in browser.page("/devices/npu")


def test_what_fails_is_told_on_the_next_page() -> None:
    collector = _supervised()
    collector.contacts.answers["supervisor", "connect"] = DeadObjectError("no supervisor of nnhal is there")
    browser = PageBrowser(collector)
    answer = browser.post("/processes/restart", "/devices/npu", {"process": "npu"})
    text = browser.page(answer.headers["location"])
    assert "That failed." in text and "no supervisor of nnhal is there" in text


@pytest.mark.parametrize(("path", "fields"), FORMS)
@pytest.mark.parametrize("token", ["", "another"])
def test_a_form_without_the_token_of_its_page_does_nothing(path: str, fields: dict[str, str], token: str) -> None:
    collector = _supervised()
    browser = PageBrowser(collector)
    browser.page("/devices")
    assert browser.send(path, fields | {"form_token": token}).status_code == 403
    assert collector.contacts.calls == []


@pytest.mark.parametrize(("path", "fields"), FORMS)
@pytest.mark.parametrize("role", ["view", "infer"])
def test_only_an_admin_may_change_something(path: str, fields: dict[str, str], role: str, tmp_path: Path) -> None:
    collector = _supervised()
    browser = PageBrowser(collector, read_tokens(token_file(tmp_path, **{role: role})))
    browser.sign_in(f"{role}-token")
    answer = browser.post(path, "/devices", fields)
    assert answer.status_code == 403 and "expected admin" in answer.text
    assert collector.contacts.calls == []
    assert "disabled" in browser.page("/devices/npu")


@pytest.mark.parametrize("path", ["/processes/explode", "/processes/restart"])
def test_an_unknown_command_or_process_is_not_found(path: str) -> None:
    browser = PageBrowser(ScriptedCollector(supervisor=supervisor_pb2.ListProcessesResponse()))
    assert browser.post(path, "/devices", {"process": "none"}).status_code == 404
