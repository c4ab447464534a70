"""The dashboard in its container, read with a token that may only look."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.support.waiting import wait_until
from tests.testbed.bed import DEVICES, FRAMEWORK, Beside, ContainerBed

pytestmark = pytest.mark.testbed
_FORM_TOKEN = re.compile(r"name='form_token' value='([^']*)'")


@pytest.fixture
def visitor(bed: ContainerBed) -> Iterator[httpx.Client]:
    """Return a browser without script that has signed in with the role view."""
    address = f"http://{bed.address('dashboard', 8003)}"
    with httpx.Client(base_url=address, headers={"accept": "text/html"}, follow_redirects=True, timeout=30) as client:
        answer = client.post("/login", data={"token": bed.tokens["view"], "form_token": form_token(client, "/login")})
        assert answer.status_code == 200, answer.text
        yield client


def form_token(client: httpx.Client, path: str) -> str:
    found = _FORM_TOKEN.search(client.get(path).text)
    assert found is not None
    return found[1]


def test_who_has_not_signed_in_sees_nothing(bed: ContainerBed) -> None:
    answer = httpx.get(f"http://{bed.address('dashboard', 8003)}/devices")
    assert answer.status_code in (303, 401) and "cpu_ref" not in answer.text


@pytest.mark.parametrize("path", ["/", "/devices", "/models", "/runs", "/memory", "/sessions", "/metrics", "/logs"])
def test_every_page_is_shown(visitor: httpx.Client, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 200 and "</html>" in answer.text


def test_all_devices_and_models_are_shown(visitor: httpx.Client) -> None:
    devices, models = visitor.get("/devices").text, visitor.get("/models").text
    assert all(name in devices for name in DEVICES)
    assert all(visitor.get(f"/devices/{name}").status_code == 200 for name in DEVICES)
    assert "digits" in models and "digits_int8" in models
    assert visitor.get("/models/digits/plan").status_code == 200


def test_sessions_of_other_containers_are_shown_with_their_endpoints(bed: ContainerBed, visitor: httpx.Client) -> None:
    with Beside(bed.client, "steady_runs.py", FRAMEWORK, "cpu_ref") as native:
        wait_until(lambda: native.ask()["ran_on"].get("cpu_ref", 0) > 0, "the client runs")
        page = visitor.get("/sessions").text
    assert "another container" in page
    assert "process 0" not in page


def test_a_device_that_was_killed_is_told_of(bed: ContainerBed, visitor: httpx.Client) -> None:
    container = bed.project.container("cpu_acc")
    restarts = container.restarts
    container.kill()
    wait_until(lambda: container.restarts > restarts, "cpu_acc is started again")
    bed.wait_until_whole()
    told = {event["text"] for event in bed.observed()["framework"]["events"] if "cpu_acc" in event["text"]}
    assert told
    wait_until(lambda: any(text in visitor.get("/").text for text in told), "the overview tells of it")


def test_who_may_only_look_changes_nothing(bed: ContainerBed, visitor: httpx.Client) -> None:
    answer = visitor.post("/processes/drain", data={"name": "cpu_acc", "form_token": form_token(visitor, "/devices")})
    assert answer.status_code == 403
    assert not bed.standings()["cpu_acc"]["draining"]
