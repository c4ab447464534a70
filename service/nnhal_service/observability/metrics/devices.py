"""Objects that devices hold and direct runs of clients, asked of the devices at each scrape."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from nnhal.errors import NnhalError
from nnhal.v1.backend_pb2 import GetUsageResponse
from nnhal_service.runtime import Fleet, FleetMember, LoadedModel

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
_WIRE = {"up": "wire_up_bytes", "down": "wire_down_bytes"}
"""The fields of the bytes on networks by their direction."""


class DeviceAnswer:
    """Last answer of a device: the thread that asks it writes, and a scrape reads when its time is up.

    ``usage`` is None until the device has answered. ``has_counted`` says that all direct runs on it are counted.
    """

    def __init__(self) -> None:
        self.usage: tuple[FleetMember, GetUsageResponse] | None = None
        self.has_counted = False


class DeviceQuestions:
    """Asks all devices of a fleet at the same time, each in a thread of its own. For one scrape at a time.

    A device that does not answer in time is down for that scrape. It is not asked again before its answer has come or
    failed, so that questions do not pile up.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._threads = ThreadPoolExecutor(max(1, len(fleet.names)), "device-usage")
        self._asked: dict[str, tuple[Future[None], DeviceAnswer]] = {}

    def ask(self, models: Iterable[LoadedModel], until: float) -> dict[str, DeviceAnswer]:
        """Ask for each device's usage, and for the direct runs of ``models``, whose watchers hear of them.

        ``until`` is an instant of CLOCK_MONOTONIC. Returns the answers by device, whole or not, when all have come or
        the time is up.
        """
        by_device: dict[str, list[LoadedModel]] = {}
        for model in models:
            # The device of the last step counts direct runs. If the model was re-planned, some bindings may still be on
            # the previous device, which is then asked in this device's thread, with the same deadline.
            for step in model.prepared.plan.steps[-1:]:
                by_device.setdefault(step.device, []).append(model)
        for name in self._fleet.names:
            asked = self._asked.get(name)
            if asked is None or asked[0].done():
                answer = DeviceAnswer()
                future = self._threads.submit(self._ask, name, by_device.get(name, ()), until, answer)
                self._asked[name] = future, answer
        ended, _ = wait([future for future, _ in self._asked.values()], max(0.0, until - time.monotonic()))
        for future in ended:
            future.result()  # raises what is a defect
        return {name: answer for name, (_, answer) in self._asked.items()}

    def close(self) -> None:
        """Stop asking. Answers that are outstanding are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, name: str, models: Sequence[LoadedModel], until: float, answer: DeviceAnswer) -> None:
        with suppress(NnhalError):
            member = self._fleet.get(name)
            seconds = until - time.monotonic()
            if seconds > 0:
                answer.usage = member, member.remote.usage(seconds)
                uncounted = [model for model in models if not model.count_direct_runs(until)]
                answer.has_counted = not uncounted


def device_families(answers: Mapping[str, DeviceAnswer]) -> Iterator[Metric]:
    """Yield all metrics of devices. A device that is down has only those that say so."""
    up = GaugeMetricFamily("nnhal_device_up", "Whether the device answers", labels=["device"])
    counted = GaugeMetricFamily(
        "nnhal_device_direct_runs_counted",
        "Whether all direct runs on the device are counted; if not, they count in a later scrape",
        labels=["device"],
    )
    info = InfoMetricFamily("nnhal_device", "What the device is", labels=["device"])
    usages: dict[str, GetUsageResponse] = {}
    for name, answer in answers.items():
        usage = answer.usage
        up.add_metric([name], usage is not None)
        counted.add_metric([name], answer.has_counted)
        if usage is not None:
            member, usages[name] = usage
            info.add_metric([name], {"version": member.version, "type": member.type.name})
    yield from (up, counted, info)
    for field, (metric, text) in _COUNTERS.items():
        counter = CounterMetricFamily(metric, text + " since the device started", labels=["device"])
        for name, response in usages.items():
            counter.add_metric([name], getattr(response, field))
        yield counter
    wire = CounterMetricFamily(
        "nnhal_wire_bytes",
        "Bytes of values that went over a network to the device (up) or came from it (down) since it started",
        labels=["device", "direction"],
    )
    for name, response in usages.items():
        for direction, field in _WIRE.items():
            wire.add_metric([name, direction], getattr(response, field))
    yield wire
    for field, (metric, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(metric, text, labels=["device"])
        for name, response in usages.items():
            gauge.add_metric([name], getattr(response, field))
        yield gauge
