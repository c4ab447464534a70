"""Other hosts: the file that names them, and what their dashboards answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.hosts import SUMMARY, HostList, HostState, HostSummary, HostsWatch
from nnhal_dashboard.monitoring.snapshot import Snapshot
from tests.support.dashboard import device_process, framework_process

PATIENCE = 60.0


def summary(**figures: object) -> HostSummary:
    return HostSummary.of(Snapshot(), History()).model_copy(update=figures)


class OtherDashboard(BaseHTTPRequestHandler):
    """Answers as a dashboard does, or as something else."""

    answers: dict[str, tuple[int, str, bytes]]
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("authorization", ""))
        status, location, content = self.answers.get(self.path, (404, "", b""))
        self.send_response(status)
        if location:
            self.send_header("location", location)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def other() -> Iterator[tuple[str, type[OtherDashboard]]]:
    """The address of another host's dashboard, and what it answers."""
    handler = type("Handler", (OtherDashboard,), {"answers": {}, "seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def listed(folder: Path, *urls: str, more: str = "") -> Path:
    path = folder / "hosts.toml"
    hosts = [f'[[host]]\nname = "h{number}"\nurl = "{url}"\n' for number, url in enumerate(urls)]
    path.write_text(more + "".join(hosts))
    return path


def test_a_host_tells_what_it_does() -> None:
    snapshot = Snapshot(processes=(device_process(), device_process("dsp", silence="it is gone"), framework_process()))
    told = HostSummary.of(snapshot, History())
    assert (told.devices, told.devices_up, told.models, told.worst) == (2, 1, 0, "")


def test_totals_add_up_and_the_latency_is_that_of_all_requests() -> None:
    durations = summary().durations
    first = (90, *durations[1:])
    second = (0,) * 8 + (10, *durations[9:])
    total = HostSummary.total(
        [summary(requests=1.5, models=2, models_ready=1, durations=first), summary(requests=2.0, durations=second)]
    )
    assert (total.requests, total.models, total.models_ready) == (3.5, 2, 1)
    assert total.slowest_ns == summary(durations=(90, *second[1:])).slowest_ns


def test_nobody_else_is_asked_without_a_file() -> None:
    watch = HostsWatch(None)
    assert not watch.is_configured and watch.look(PATIENCE) == ()


def test_a_host_that_answers_is_shown_with_its_figures(other: tuple[str, type[OtherDashboard]], tmp_path: Path) -> None:
    url, dashboard = other
    dashboard.answers[SUMMARY] = 200, "", summary(requests=2.5).model_dump_json().encode()
    (tmp_path / "token").write_text("secret\n")
    watch = HostsWatch(listed(tmp_path, url, more=f'token = "{tmp_path / "token"}"\n'))
    (row,) = watch.look(PATIENCE)
    assert row.summary is not None and (row.summary.requests, row.silence) == (2.5, "")
    assert dashboard.seen == ["Bearer secret"]
    watch.close()


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ((401, "", b""), "does not know the token"),
        ((404, "", b""), "older, or something else"),
        ((403, "", b"you are another user"), "answers with 403: you are another user"),
        ((200, "", b"<html>"), "no dashboard of nnhal"),
        ((200, "", json.dumps({"requests": 1}).encode()), "another version"),
        ((200, "", b"[" * (1 << 17)), "no dashboard of nnhal"),
        ((302, "http://127.0.0.1:1/host.json", b""), "answers with 302"),
    ],
    ids=["token", "older", "user", "page", "version", "long", "elsewhere"],
)
def test_a_host_that_answers_otherwise_says_why(
    other: tuple[str, type[OtherDashboard]], tmp_path: Path, answer: tuple[int, str, bytes], cause: str
) -> None:
    url, dashboard = other
    dashboard.answers[SUMMARY] = answer
    watch = HostsWatch(listed(tmp_path, url))
    (row,) = watch.look(PATIENCE)
    assert row.summary is None and cause in row.silence
    assert len(dashboard.seen) == 1
    watch.close()


def test_a_host_that_cannot_be_reached_says_why_and_leads_to_its_page(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text('[[host]]\nname = "blue"\nurl = "http://127.0.0.1:1"\npage = "https://blue.example/"\n')
    watch = HostsWatch(path)
    assert watch.look(PATIENCE) == [
        HostState("blue", "https://blue.example", silence="it cannot be reached: Connection refused")
    ]
    watch.close()


def test_a_file_that_is_spoilt_later_keeps_what_it_said(tmp_path: Path) -> None:
    path = listed(tmp_path, "http://127.0.0.1:1")
    watch = HostsWatch(path)
    path.write_text("[[host")
    assert [row.name for row in watch.look()] == ["h0"]
    assert "hosts.toml" in watch.trouble
    watch.close()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[[host]]\nname = "a"\nurl = "ftp://a"\n', "expected http://HOST:PORT"),
        ('[[host]]\nname = "a"\nurl = "http://u:p@a"\n', "expected http://HOST:PORT"),
        ('[[host]]\nname = "a"\nurl = "http://a"\n[[host]]\nname = "a"\nurl = "http://b"\n', "are named twice"),
        ("hosts = 3\n", "hosts"),
    ],
    ids=["scheme", "password", "twice", "unknown"],
)
def test_a_malformed_file_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=wrong):
        HostsWatch(path)


def test_the_token_is_read_from_its_file_for_each_list(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" abc \n")
    assert HostList(token=tmp_path / "token").headers == {"Authorization": "Bearer abc"}
