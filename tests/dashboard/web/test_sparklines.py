from __future__ import annotations

from nnhal.v1 import admin_pb2
from nnhal_dashboard.web.sparklines import spark
from tests.support.dashboard import ScriptedCollector, device_process


def busy(busy_ns: int) -> admin_pb2.GetDeviceResponse:
    return admin_pb2.GetDeviceResponse(workers=1, busy_ns=busy_ns)


def test_a_sparkline_says_what_it_shows() -> None:
    collector = ScriptedCollector(device_process(device=busy(0)))
    collector.show(device_process(device=busy(750_000_000)), at=1.7e9 + 2)
    collector.show(device_process(device=busy(2_250_000_000)), at=1.7e9 + 8)
    collector.show(device_process(device=busy(2_500_000_000)), at=1.7e9 + 9)
    assert "aria-label='busy in the last 5 minutes: 25 %, at most 75 %'" in spark(
        collector.history, "device.busy", "npu", 300
    )


def test_what_is_not_known_is_a_line_without_values() -> None:
    drawn = spark(ScriptedCollector().history, "model.latency", "unheard of")
    assert "latency in the last 15 minutes: unknown" in drawn
    assert "class='series" not in drawn
