"""The files for Prometheus, Grafana and OpenTelemetry: that they fit together, and what Prometheus' own tool says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def content(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


@needs_promtool
def test_prometheus_takes_the_rules() -> None:
    checked = [str(DEPLOY / "prometheus/nnhal_rules.yml"), "--lint-fatal"]
    done = subprocess.run(["promtool", "check", "rules", *checked], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("name", ["prometheus.yml", "compose.yml", "compose_tls.yml"])
def test_prometheus_takes_each_configuration(name: str, tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus/nnhal_rules.yml", tmp_path)
    text = (DEPLOY / "prometheus" / name).read_text()
    for secret in ("view.token", "ca.pem"):
        (tmp_path / secret).touch()
    (tmp_path / name).write_text(text.replace("/secrets/clients", str(tmp_path)))
    checks = ["promtool", "check", "config", "--syntax-only", str(tmp_path / name)]
    done = subprocess.run(checks, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_with_tls_prometheus_asks_the_same_in_another_way() -> None:
    plain, over_tls = content("prometheus/compose.yml"), content("prometheus/compose_tls.yml")
    job = over_tls["scrape_configs"][0]
    assert (job.pop("scheme"), job.pop("tls_config")) == ("https", {"ca_file": "/secrets/clients/ca.pem"})
    assert over_tls == plain


def test_every_configuration_scrapes_the_job_of_the_rules() -> None:
    rules = (DEPLOY / "prometheus/nnhal_rules.yml").read_text()
    for name in ("prometheus.yml", "compose.yml"):
        configuration = content(f"prometheus/{name}")
        assert configuration["rule_files"] == ["nnhal_rules.yml"]
        job = configuration["scrape_configs"][0]["job_name"]
        assert f'up{{job="{job}"}}' in rules


def test_grafana_finds_its_dashboards_and_the_prometheus_of_the_containers() -> None:
    (provider,) = content("grafana/provisioning/dashboards/nnhal.yml")["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
    (source,) = content("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    dashboards = [json.loads(path.read_text()) for path in (DEPLOY / "grafana/dashboards").glob("*.json")]
    assert [dashboard["uid"] for dashboard in dashboards] == ["nnhal"]


def test_the_collector_has_all_parts_that_its_pipelines_name() -> None:
    configuration = content("otel/collector.yml")
    service = configuration["service"]
    for pipeline in service["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= configuration[kind].keys()
    assert set(service["extensions"]) <= configuration["extensions"].keys()
    assert service["pipelines"]["traces"]["processors"][0] == "memory_limiter"
