"""What devices hold, asked of them when somebody wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from nnhal.errors import NnhalError
from nnhal.v1.backend_pb2 import GetUsageResponse
from nnhal_service.runtime import Fleet, FleetMember

_PATIENCE_SECONDS = 0.5
_COUNTERS = {
    "executions_ended": ("nnhal_device_executions", "Executions that have ended"),
    "staged_bytes": ("nnhal_device_staged_bytes", "Bytes that were staged"),
    "buffer_copied_bytes": ("nnhal_device_copied_bytes", "Bytes that were copied into and out of device buffers"),
}
_GAUGES = {
    "launched": ("nnhal_device_queue", "Executions that were launched and have not ended"),
    "sessions": ("nnhal_device_sessions", "Open links"),
    "prepared_models": ("nnhal_device_prepared_models", "Prepared models"),
    "mappings": ("nnhal_device_mappings", "Mapped pools"),
    "mapped_bytes": ("nnhal_device_mapped_bytes", "Bytes of mapped pools"),
    "buffers": ("nnhal_device_buffers", "Device buffers"),
    "buffer_bytes": ("nnhal_device_buffer_bytes", "Bytes that device buffers occupy"),
}
"""Metrics by the field of the device's answer."""
_Answer = tuple[FleetMember, GetUsageResponse]


class DeviceUsages:
    """Asks all devices of a fleet at the same time. One that does not answer in time costs that time, and is down.

    It is not asked again as long as it has not answered, so that scrapes do not pile up. Not for several threads.
    """

    def __init__(self, fleet: Fleet, patience: float = _PATIENCE_SECONDS) -> None:
        """``patience`` is in seconds."""
        self._fleet = fleet
        self._patience = patience
        self._threads = ThreadPoolExecutor(max(1, len(fleet.names)), "device-usage")
        self._asked: dict[str, Future[_Answer]] = {}

    def families(self) -> Iterator[Metric]:
        """A device that is down has no metric but that."""
        answers = self._answers()
        up = GaugeMetricFamily("nnhal_device_up", "Whether the device answers", labels=["device"])
        info = InfoMetricFamily("nnhal_device", "What the device is", labels=["device"])
        for name in self._fleet.names:
            up.add_metric([name], name in answers)
        for name, (member, _) in answers.items():
            info.add_metric([name], {"version": member.version, "type": member.type.name})
        yield from (up, info)
        for field, (metric, text) in _COUNTERS.items():
            counter = CounterMetricFamily(metric, text + " since the device started", labels=["device"])
            for name, (_, usage) in answers.items():
                counter.add_metric([name], getattr(usage, field))
            yield counter
        for field, (metric, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(metric, text, labels=["device"])
            for name, (_, usage) in answers.items():
                gauge.add_metric([name], getattr(usage, field))
            yield gauge

    def close(self) -> None:
        """Ask no more. What has been asked is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answers(self) -> dict[str, _Answer]:
        for name in self._fleet.names:
            asked = self._asked.get(name)
            if asked is None or asked.done():
                self._asked[name] = self._threads.submit(self._ask, name)
        answered, _ = wait(self._asked.values(), self._patience)
        answers: dict[str, _Answer] = {}
        for name, future in self._asked.items():
            if future in answered:
                with suppress(NnhalError):
                    answers[name] = future.result()
        return answers

    def _ask(self, name: str) -> _Answer:
        member = self._fleet.get(name)
        return member, member.remote.usage(self._patience)
