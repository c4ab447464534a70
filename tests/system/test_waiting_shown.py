"""While a request waits for a device, the overview, the command line and the metrics say so; afterwards they do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from nnhal.remote.admin import FrameworkAdmin
from nnhal_hosting.supervision import Child
from nnhal_pages.operating.resources.models import MODELS
from nnhal_pages.operating.snapshot import Snapshot
from tests.support.front_workers import Connection
from tests.support.held_device import NAME, held_device
from tests.support.model_server import Devices, Served, addresses, model_server
from tests.support.operated import Beside, model_state, operator_of
from tests.support.processes import WARM
from tests.support.repositories import onnx_file, write
from tests.support.scrape import Scrape
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
CONFIG = f'parameters {{ key: "nnhal.placement" value {{ string_value: "name:node={NAME}" }} }}'


@contextmanager
def dashboard(served: Served, directory: Path) -> Iterator[httpx.Client]:
    """Run a dashboard of a framework until the context ends."""
    key = directory / "admin.key"
    key.touch(mode=0o600)
    key.write_text(served.child.admin_key)
    options = ["--directory", str(directory), "--framework", str(served.endpoint.directory), "--port", "0"]
    child = Child("nnhal_dashboard", [*options, "--admin-key", str(key)], zygote=WARM)
    try:
        child.wait_until_ready()
        announced = re.compile(r"^dashboard: (\S+)$", re.MULTILINE)
        wait_until(lambda: bool(announced.search(child.said())), "the dashboard tells its address")
        with httpx.Client(base_url=announced.findall(child.said())[0], timeout=60) as browser:
            yield browser
    finally:
        child.stop()


def seconds(served: Served) -> float:
    text = httpx.get(f"http://{addresses(served.child)['metrics']}/metrics", timeout=30).content
    return Scrape(text).of("nnhal_oldest_request_seconds", {"model": "tanh", "version": "1"})


def waited(operator: FrameworkAdmin) -> int:
    return next(device.awaited_ns for device in operator.framework().devices if device.name == NAME)


@pytest.mark.parametrize("workers", ["1", "2"], ids=["the framework serves", "front workers serve"])
def test_a_request_that_waits_is_told_while_it_waits(workers: str, short_path: Path, tmp_path: Path) -> None:
    write(tmp_path / "repository", "tanh", {"1/model.onnx": onnx_file(shape=(1, 8)), "config.pbtxt": CONFIG})
    with ExitStack() as stack:
        held = stack.enter_context(held_device(short_path))
        over = Devices({NAME: held.endpoint}, {})
        served = stack.enter_context(model_server(over, tmp_path / "repository", "--front-workers", workers))
        browser = stack.enter_context(dashboard(served, short_path))
        operator = stack.enter_context(operator_of(served))
        connection = stack.enter_context(closing(Connection(served.http)))
        request = Beside(connection.infer)
        execution = held.next()
        wait_until(lambda: "READY, requests wait" in browser.get("/").text, "the overview tells it")
        page = browser.get("/").text
        assert re.search(r"Model tanh 1: the oldest request waits \d+ s; .*\bHeld\b", page), page
        assert "READY, requests wait" in browser.get("/models/tanh").text
        framework = operator.framework()
        assert framework.oldest_request_ns > 2 * 10**9
        if workers == "1":  # runs of front workers are direct
            wait_until(lambda: waited(operator) > 0, "the device is waited for")
            wait_until(lambda: f"it waits for {NAME}" in browser.get("/").text, "the overview tells the device")
        (model,) = MODELS.items(Snapshot(framework=framework))
        row = dict(zip(MODELS.heads, MODELS.row(model), strict=True))
        assert row["oldest"] != "-"
        assert seconds(served) > 2
        execution.let_go()
        assert request.result()[0] == 200
        wait_until(lambda: model_state(operator, "tanh").oldest_request_ns == 0, "no request waits")
        wait_until(lambda: waited(operator) == 0, "no device is waited for")
        assert seconds(served) == 0
        wait_until(lambda: "requests wait" not in browser.get("/").text, "the overview tells it no more")
