"""The files for Prometheus and Grafana."""

from __future__ import annotations

import json
from pathlib import Path

from nnhal_dashboard.pages.metrics import page as downloads
from tests.support.dashboard import PageBrowser, ScriptedCollector, framework_process, framework_state
from tests.support.promql import grafana_queries, rules_of

FILES = Path(downloads.__file__).with_name("files")


def browser(**addresses: str) -> PageBrowser:
    return PageBrowser(ScriptedCollector(framework_process(), framework=framework_state(addresses=addresses)))


def test_the_page_offers_each_file_and_says_where_metrics_are() -> None:
    text = browser(metrics="127.0.0.1:9002").page("/metrics")
    assert "<code>127.0.0.1:9002/metrics</code>" in text
    for name in downloads.DOWNLOADS:
        assert f'href="/metrics/files/{name}"' in text


def test_all_files_are_offered_and_no_other() -> None:
    assert {file.name for file in FILES.iterdir()} == set(downloads.DOWNLOADS)
    assert "no file &#39;page.py&#39;" in browser().page("/metrics/files/page.py", 404)


def test_the_files_are_those_of_deploy() -> None:
    deploy = Path(__file__).parents[4] / "deploy"
    for file in FILES.iterdir():
        assert file.read_bytes() in [original.read_bytes() for original in deploy.rglob(file.name)]


def test_prometheus_scrapes_the_framework_that_is_shown() -> None:
    answer = browser(metrics="127.0.0.1:9002").get("/metrics/files/prometheus.yml")
    assert answer.headers["content-disposition"] == 'attachment; filename="prometheus.yml"'
    assert "- 127.0.0.1:9002\n" in answer.text
    assert "8002" not in answer.text


def test_without_metrics_the_page_says_what_to_do() -> None:
    pages = browser(http="127.0.0.1:8000")
    assert "start it with <code>--metrics-port</code>" in pages.page("/metrics")
    assert "- 127.0.0.1:8002\n" in pages.get("/metrics/files/prometheus.yml").text


def test_a_dashboard_without_a_framework_offers_the_files_too() -> None:
    pages = PageBrowser(ScriptedCollector())
    assert "does not answer" in pages.page("/metrics")
    assert pages.get("/metrics/files/nnhal_rules.yml").text == (FILES / "nnhal_rules.yml").read_text()


def test_prometheus_takes_the_rules_from_the_other_file() -> None:
    assert "- nnhal_rules.yml\n" in (FILES / "prometheus.yml").read_text()


def test_each_alert_is_explained_and_the_jobs_are_those_that_are_scraped() -> None:
    rules = rules_of((FILES / "nnhal_rules.yml").read_text())
    assert all(rule.summary and rule.description.endswith(".") for rule in rules if rule.is_alert)
    assert 'job="nnhal"' in next(rule.expression for rule in rules if rule.name == "NnhalDown")
    assert "job_name: nnhal\n" in (FILES / "prometheus.yml").read_text()


def test_the_panels_of_grafana_have_places_of_their_own() -> None:
    panels = json.loads((FILES / "nnhal_grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_each_panel_of_grafana_asks_for_something() -> None:
    text = (FILES / "nnhal_grafana.json").read_text()
    panels = [panel for panel in json.loads(text)["panels"] if panel["type"] != "row"]
    assert all(panel["targets"] for panel in panels)
    assert len(grafana_queries(text)) > len(panels)
