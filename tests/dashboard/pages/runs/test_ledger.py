"""The ledger of a run beside its plan."""

from __future__ import annotations

from typing import Any

from nnhal.v1 import framework_pb2
from nnhal_dashboard.pages.runs.ledger import LedgerRow, compared

PASSED: dict[str, Any] = {
    "value": "y",
    "source_step": 0,
    "destination_step": 1,
    "source": "npu",
    "destination": "cpu",
    "bytes": 64,
}


def entry(**fields: Any) -> framework_pb2.LedgerEntry:
    return framework_pb2.LedgerEntry(**PASSED | {"strategy": "ExportToTarget"} | fields)


def edge(**fields: Any) -> framework_pb2.EdgeExplanation:
    return framework_pb2.EdgeExplanation(**PASSED | {"strategy": "ExportToTarget"} | fields)


def only(rows: list[LedgerRow]) -> LedgerRow:
    assert len(rows) == 1
    return rows[0]


def test_what_happened_as_planned_has_no_difference() -> None:
    row = only(compared([entry(reason="it can")], [edge()]))
    assert row.differences == ()
    assert (row.source, row.destination, row.reason) == ("npu (step 0)", "cpu (step 1)", "it can")


def test_the_client_has_no_step_and_is_no_other_device() -> None:
    row = only(
        compared([entry(source_step=-1, source="")], [edge(source_step=-1, source="client")]),
    )
    assert row.source == "client"
    assert row.differences == ()


def test_another_strategy_is_a_difference() -> None:
    row = only(compared([entry(strategy="CopyToTarget", copied_bytes=64)], [edge()]))
    assert row.differences == ("CopyToTarget instead of ExportToTarget",)


def test_another_device_is_a_difference() -> None:
    row = only(compared([entry(destination="cpu_ref")], [edge()]))
    assert row.differences == ("read by cpu_ref instead of cpu",)


def test_more_and_fewer_copies_are_differences() -> None:
    copied = {"strategy": "CopyToTarget", "copied_bytes": 64}
    twice = {"strategy": "CopyToTarget", "copied_bytes": 128}
    assert only(compared([entry(**twice)], [edge(**copied)])).differences == ("more was copied",)
    assert only(compared([entry(**copied)], [edge(**twice)])).differences == ("less was copied",)


def test_a_larger_batch_is_no_difference() -> None:
    planned = edge(strategy="CopyToTarget", copied_bytes=64)
    happened = entry(strategy="CopyToTarget", bytes=256, copied_bytes=256)
    assert only(compared([happened], [planned])).differences == ()


def test_copies_beyond_the_plan_are_not_planned() -> None:
    beyond = entry(value="", source_step=0, destination_step=0, destination="npu", strategy="Unplanned", bytes=0)
    beyond.copied_bytes = 32
    row = compared([entry(), beyond], [edge()])[1]
    assert (row.value, row.planned, row.differences) == ("", None, ("not planned",))
    beyond.copied_bytes = -32
    assert compared([entry(), beyond], [edge()])[1].differences == ("less was copied than planned",)


def test_what_was_planned_and_did_not_happen_comes_last() -> None:
    rows = compared([entry()], [edge(value="z"), edge()])
    assert [(row.value, row.differences) for row in rows] == [("y", ()), ("z", ("did not happen",))]


def test_a_value_that_is_used_twice_is_planned_twice() -> None:
    assert [row.differences for row in compared([entry(), entry()], [edge(), edge()])] == [(), ()]


def test_without_a_plan_nothing_differs() -> None:
    assert only(compared([entry()], [], has_plan=False)).differences == ()
