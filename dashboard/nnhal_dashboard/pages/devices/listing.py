"""All processes: how the devices fare, and what else runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.world.history import HistorySample
from nnhal_dashboard.world.snapshot import ObservedProcess
from nnhal_dashboard.world.standing import state_of
from nnhal_pages.charts.lines import sparkline
from nnhal_pages.charts.measures import SHARE
from nnhal_pages.charts.series import ChartSeries
from nnhal_pages.charts.window import TimeWindow

_SECONDS = 300
"""The time that a small picture shows."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device in the list."""

    process: ObservedProcess
    state: str
    executions: float | None
    """A second; None if it is not known."""
    busy: float | None
    """The share of its workers' time that it computes."""
    staged: float | None
    """Bytes a second."""
    picture: Markup
    """How busy it was."""


def _devices(moment: Moment) -> Mapping[str, Any]:
    samples = moment.collector.history.samples(_SECONDS)
    return {
        "rows": [_row(device, samples, moment) for device in moment.snapshot.devices],
        "has_temperature": any(
            device.device is not None and device.device.HasField("temperature") for device in moment.snapshot.devices
        ),
        "supervisor": moment.snapshot.supervisor,
    }


def _row(device: ObservedProcess, samples: Sequence[HistorySample], moment: Moment) -> DeviceRow:
    last = samples[-1] if samples and device.answers else HistorySample(0.0)
    points = [(sample.at, sample.busy.get(device.name)) for sample in samples]
    window = TimeWindow(samples[-1].at if samples else 0.0, _SECONDS)
    drawing = sparkline(f"busy in the last {_SECONDS // 60} minutes", ChartSeries("", points), SHARE, window)
    return DeviceRow(
        device,
        state_of(device, moment.snapshot),
        last.executions.get(device.name),
        last.busy.get(device.name),
        last.staged_bytes.get(device.name),
        Markup(drawing.embedded()),
    )


def _others(moment: Moment) -> Mapping[str, Any]:
    return {"processes": [process for process in moment.snapshot.processes if process.kind != "device"]}


FRAGMENTS = (
    Fragment("devices.list", "devices/list.html", _devices),
    Fragment("devices.others", "devices/others.html", _others),
)
