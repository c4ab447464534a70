"""The pages of runs and metrics over a testbed that serves a model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.pages.metrics import page as downloads
from nnhal_dashboard.settings import DashboardSettings
from nnhal_pages.operating.snapshot import Detail
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.dashboard import PageBrowser
from tests.support.processes import WARM
from tests.support.promql import grafana_queries, labels_in, labels_told, rules_of
from tests.support.waiting import wait_until

DIGITS = Path(__file__).parents[3] / "tools/nnhal_tools/demo/data/digits.onnx"
FILES = Path(downloads.__file__).with_name("files")
OF_PROMETHEUS = {"instance", "job"}
"""Labels that a scrape adds."""
IMAGE = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.0] * 64}


class _Serving(NamedTuple):
    browser: PageBrowser
    collector: Collector

    def address(self, protocol: str) -> str:
        """Return where the framework serves a protocol."""
        framework = self.collector.snapshot.framework
        assert framework is not None
        return f"http://{framework.addresses[protocol]}"

    def request(self, name: str) -> None:
        """Send a request with an id, and have the dashboard look."""
        body = {"id": name, "inputs": [IMAGE]}
        httpx.post(f"{self.address('http')}/v2/models/digits/infer", json=body).raise_for_status()
        self.collector.refresh()

    def run(self, request: str) -> int:
        """The number of the run of a request."""
        finished = self.collector.look(Detail.RUNS).finished
        return next(run.number for run in finished if run.request_id == request)

    def record(self, count: int) -> str:
        """Record runs, and return the path of the recording."""
        answer = self.browser.post("/recordings", "/runs", {"model": "digits", "count": str(count)})
        return answer.headers["location"]


@pytest.fixture(scope="module")
def serving() -> Iterator[_Serving]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        version = Path(directory) / "models/digits/1"
        version.mkdir(parents=True)
        shutil.copy(DIGITS, version / "model.onnx")
        ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
        framework = ports | {
            "model_repository": (str(Path(directory) / "models"),),
            "metrics_config": ("histogram_latencies=true",),
        }
        devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref"))
        testbed = Testbed(Topology(device=devices, framework=framework), Path(directory) / "run", zygote=WARM)
        settings = DashboardSettings(directory=Path(directory) / "run")
        with controlled(testbed), Collector(settings) as collector:
            collector.refresh()
            yield _Serving(PageBrowser(collector), collector)


def test_a_request_is_listed_with_its_id_and_has_a_page(serving: _Serving) -> None:
    serving.request("listed")
    page = f"/runs/{serving.run('listed')}"
    assert page in serving.browser.page("/runs?client=listed")
    text = serving.browser.page(page)
    assert "/devices/cpu_acc" in text
    assert "It was not recorded" in text


def test_a_request_that_fails_is_found_among_the_errors(serving: _Serving) -> None:
    body = {"id": "wrong", "inputs": [IMAGE | {"shape": [64]}]}
    assert httpx.post(f"{serving.address('http')}/v2/models/digits/infer", json=body).status_code == 400
    serving.collector.refresh()
    text = serving.browser.page("/runs?errors=yes&client=wrong")
    assert f"/runs/{serving.run('wrong')}" in text
    assert "unexpected shape" in text


def test_a_recorded_run_has_its_steps_and_went_as_planned(serving: _Serving) -> None:
    recording = serving.record(2)
    assert "No run has come yet." in serving.browser.page(recording)
    serving.request("recorded")
    assert "1 of 2 runs of digits are recorded" in serving.browser.page(recording)
    for page in (f"{recording}/1", f"/runs/{serving.run('recorded')}"):
        text = serving.browser.page(page)
        assert "Ledger and plan" in text
        assert "probabilities" in text
        assert 'class="differs"' not in text
    serving.request("last")
    assert "2 of 2 runs of digits are recorded." in serving.browser.page(recording)
    assert recording in serving.browser.page("/runs")


def test_the_file_of_a_recording_has_the_framework_and_the_device(serving: _Serving) -> None:
    recording = serving.record(1)
    serving.request("traced")
    events = serving.browser.get(f"{recording}/trace.json").json()["traceEvents"]
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {"framework", "cpu_acc"}


@pytest.fixture(scope="module")
def scraped(serving: _Serving) -> dict[str, set[str]]:
    """The labels of each metric, by its name, once a request has been served and all devices have answered a scrape."""
    serving.request("scraped")
    text = ""

    def all_answer() -> bool:
        nonlocal text
        text = httpx.get(f"{serving.address('metrics')}/metrics", timeout=60).text
        return text.count("nnhal_device_sessions{") == 2

    wait_until(all_answer, "both devices answer a scrape")
    labels: dict[str, set[str]] = {"up": set()}
    lines = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    for sample in chain.from_iterable(family.samples for family in text_string_to_metric_families(text)):
        # The parser appends _total to the names of all counters; Prometheus takes them as they are.
        name = sample.name if sample.name in lines else sample.name.removesuffix("_total")
        labels.setdefault(name, set()).update(sample.labels)
    assert lines <= labels.keys()
    return labels


def test_the_rules_name_what_is_scraped(scraped: dict[str, set[str]]) -> None:
    known = dict(scraped)
    for rule in rules_of((FILES / "nnhal_rules.yml").read_text()):
        labels = _check(rule.expression, known)
        assert labels_told(rule.summary) <= labels, rule.name
        if not rule.is_alert:
            known[rule.name] = labels


def test_grafana_asks_for_what_is_scraped(scraped: dict[str, set[str]]) -> None:
    for query in grafana_queries((FILES / "nnhal_grafana.json").read_text()):
        _check(query, scraped)


def test_prometheus_is_told_the_address_that_answers(serving: _Serving) -> None:
    target = serving.address("metrics").removeprefix("http://")
    assert f"- {target}\n" in serving.browser.get("/metrics/files/prometheus.yml").text


def _check(query: str, known: dict[str, set[str]]) -> set[str]:
    """All metrics of a query must be known, and have the labels that it expects. Returns the labels that all have."""
    expected = labels_in(query)
    assert expected, query
    for metric, labels in expected.items():
        assert metric in known, f"{metric} in {query}"
        assert labels <= known[metric] | OF_PROMETHEUS, f"{metric} in {query}"
    return set.intersection(*(known[metric] | OF_PROMETHEUS for metric in expected))
