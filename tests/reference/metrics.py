"""metrics.md: what the framework reports to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from nnhal_service.observability import Metrics, MetricsOptions
from nnhal_service.runtime import Fleet
from tests.reference.markdown import code, table

_PAGE = """# Metrics

The framework serves these at `http://127.0.0.1:8002/metrics`, in Prometheus' text format. Metrics that begin with `nv_`
have Triton's names and meanings. There are no GPUs and no response cache, and so no `nv_gpu_…` and no `nv_cache_…`.
[operate.md](../operate.md) says how to scrape and what to watch. Metrics of the process itself (`process_…`) are those
of Prometheus' client library.

{metrics}

- Summaries are there with `--metrics-config summary_latencies=true`, histograms with `histogram_latencies=true`. A
  summary has exact quantiles of the model's last {window} requests.
- A device that does not answer within half a second has `nnhal_device_up` 0 and no metrics of what it holds.
- An empty device in `source` or `destination` is the client.
"""


def metrics_page() -> str:
    """Return the page, from a scrape of a framework without models and devices."""
    options = MetricsOptions(summary_latencies=True, histogram_latencies=True)
    metrics = Metrics(tuple, Fleet({}), options)
    try:
        rows = [
            (code(_name(family)), _kind(family), ", ".join(_labels(family)), f"{family.documentation.rstrip('.')}.")
            for family in metrics.collect()
        ]
    finally:
        metrics.close()
    text = table(("metric", "type", "labels", "what it is"), rows)
    return _PAGE.format(metrics=text, window=f"{options.summary_window:,}")


def _name(family: Metric) -> str:
    ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return family.name + ending


def _kind(family: Metric) -> str:
    return "counter" if family.type == "unknown" else family.type


def _labels(family: Metric) -> Iterator[str]:
    yield from map(code, getattr(family, "_labelnames", ()))
