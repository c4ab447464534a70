"""The three figures of copied bytes."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

from nnhal.reports import CopiedBytes, LedgerEntry, copied_by
from nnhal_pages.comparison.pairing import count, difference
from nnhal_pages.copies import copied_words, places, planned_copies, planned_figures
from nnhal_pages.units import size
from tests.pages.explanation.test_fragment import EXPLANATION, edge

PLAN = replace(EXPLANATION, edges=(edge("x", -1, 0, 64), edge("v", 0, 1, 128), edge("y", 1, -1)))


def test_a_plan_tells_copies_between_devices_from_those_of_clients() -> None:
    assert PLAN.copied == CopiedBytes(between=128, clients=64, staged=192)
    assert copied_words(planned_figures(PLAN, size)) == "128 B between devices, 64 B to and from clients, 192 B staged"
    assert places(PLAN, size) == "npu to cpu 128 B, client to npu 64 B"
    assert PLAN.request_bytes == 128


def test_what_depends_on_open_dimensions_is_unknown() -> None:
    image, value, answer = PLAN.edges
    plan = replace(PLAN, edges=(replace(image, bytes=0, copied_bytes=0), value, answer))
    assert planned_figures(plan, size) == ("128 B", "unknown", "unknown")
    assert plan.request_bytes is None
    assert "client to npu unknown" in places(plan, size)
    unknown = planned_copies(plan)[1]
    assert isnan(unknown) and (count(unknown), difference(64, unknown, count)) == ("unknown", "unknown")


def test_what_a_device_copies_beyond_the_plan_is_the_clients() -> None:
    passed = LedgerEntry("v", 0, 1, "npu", "cpu", "CopyToTarget", 128, 128, "")
    beyond = LedgerEntry("", 1, 1, "cpu", "cpu", "Unplanned", 0, 32, "")
    assert copied_by([passed, beyond]) == CopiedBytes(between=128, clients=32, staged=160)
