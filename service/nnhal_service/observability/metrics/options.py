"""Durations that are rendered, and their forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_BUCKETS_US = (10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7)
_FLAGS = ("counter_latencies", "summary_latencies", "histogram_latencies")
_TRUE, _FALSE = ("true", "1", "on"), ("false", "0", "off")


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Durations of requests that are rendered, and their forms."""

    counter_latencies: bool = True
    """Render sums of durations, as counters."""
    summary_latencies: bool = False
    """Render quantiles of durations, as summaries."""
    histogram_latencies: bool = False
    """Render durations by buckets, as histograms."""
    summary_quantiles: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99, 0.999)
    """The quantiles of summaries, between 0 and 1."""
    histogram_buckets_us: tuple[float, ...] = _BUCKETS_US
    """The upper bounds of histograms' buckets, in microseconds."""
    summary_window: int = 1000
    """How many of each model's latest requests summaries are made of."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not all(0 < quantile < 1 for quantile in self.summary_quantiles):
            raise ValueError(f"summary_quantiles {self.summary_quantiles}: expected numbers between 0 and 1")
        bounds = self.histogram_buckets_us
        if not bounds or bounds[0] <= 0 or any(low >= high for low, high in pairwise(bounds)):
            raise ValueError(f"histogram_buckets_us {bounds}: expected numbers above 0, each above the one before")
        if self.summary_window < 1:
            raise ValueError(f"summary_window {self.summary_window}: expected 1 or more")


def metrics_options(settings: Iterable[str]) -> MetricsOptions:
    """Parse Triton's ``--metrics-config`` settings: ``summary_latencies=true``, ``summary_quantiles=0.5:0.05``.

    The error that Triton allows a quantile, after the colon, is ignored: quantiles are exact. Raises ValueError.
    """
    flags: dict[str, bool] = {}
    numbers: dict[str, tuple[float, ...]] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator:
            raise ValueError(f"metrics setting {setting!r}: expected NAME=VALUE")
        if name in _FLAGS:
            flags[name] = _flag(name, text)
        elif name in ("summary_quantiles", "histogram_buckets_us"):
            numbers[name] = tuple(_number(name, part.partition(":")[0]) for part in text.split(","))
        else:
            names = ", ".join((*_FLAGS, "summary_quantiles", "histogram_buckets_us"))
            raise ValueError(f"metrics setting {name!r} is unknown, expected one of {names}")
    return MetricsOptions(**flags, **numbers)  # type: ignore[arg-type]  # the names are those of fields of these types


def _flag(name: str, text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(f"metrics setting {name} is {text!r}, expected true or false")
    return text.lower() in _TRUE


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"metrics setting {name}: {text!r}, expected a number") from None
