from __future__ import annotations

import pytest

from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_pages.charts.run import run_chart
from nnhal_pages.charts.run_acts import run_acts
from tests.support.charts import assert_drawn_well, having, number, texts, titles

START = 10**12
US = 1000


def finished(with_report: bool = True) -> framework_admin_pb2.FinishedRun:
    run = framework_admin_pb2.FinishedRun(
        model="net",
        client="10.0.0.7:4123",
        arrived_ns=START,
        ended_ns=START + 1900 * US,
        queue_ns=120 * US,
        input_ns=40 * US,
        infer_ns=1500 * US,
        output_ns=90 * US,
    )
    if with_report:
        run.report.started_ns, run.report.duration_ns = START + 170 * US, 1480 * US
        step(run, 0, "ethos_u", 220, 700)
        second = step(run, 1, "cpu_acc", 740, 1000)
        second.copies.add(bytes=4096, started_ns=START + 740 * US, ended_ns=START + 800 * US)
        step(run, 2, "ethos_u", 1060, 1500)
        for value, source, destination, copied in (
            ("x", -1, 0, 0),
            ("y", 0, 1, 4096),
            ("z", 0, 2, 0),
            ("out", 2, -1, 0),
        ):
            passed(run, value, source, destination, copied)
    return run


def step(
    run: framework_admin_pb2.FinishedRun, number: int, device: str, begin: int, end: int
) -> framework_pb2.StepReport:
    return run.report.steps.add(step=number, device=device, started_ns=START + begin * US, ended_ns=START + end * US)


def passed(run: framework_admin_pb2.FinishedRun, value: str, source: int, destination: int, copied: int = 0) -> None:
    run.report.ledger.add(
        value=value,
        source_step=source,
        destination_step=destination,
        strategy="CopyToTarget" if copied else "ExportToTarget",
        bytes=4096,
        copied_bytes=copied,
    )


def test_client_framework_and_devices_have_lanes() -> None:
    drawing = run_chart(finished(), "r")
    picture = assert_drawn_well(drawing)
    assert {"client", "framework", "ethos_u", "cpu_acc"} <= set(texts(picture))
    assert drawing.title == "A run of net in 1.9 ms, 3 steps"
    told = titles(picture)
    assert "step 0: 480 µs, from 220 µs on" in told
    assert "queue: 120 µs, from 0 ns on" in told
    assert "run: 1.48 ms, from 170 µs on" in told
    assert "copy in of step 1, 4 KiB: 60 µs, from 740 µs on" in told


def test_what_goes_over_a_network_is_told_from_copies() -> None:
    run = finished()
    copied = run.report.steps[1].copies[0]
    copied.is_wire = True
    run.report.ledger[1].wire_up_bytes = 4096
    acts = {act.name: act.kind for act in run_acts(run) if act.is_part}
    assert acts == {"up the wire for step 1, 4 KiB": "wire"}
    picture = assert_drawn_well(run_chart(run, "r"))
    assert "wire" in texts(picture)
    assert any(line.startswith("y: 4 KiB, 4 KiB up the wire") for told in titles(picture) for line in [told])


def test_values_are_arrows_and_copied_ones_look_different() -> None:
    picture = assert_drawn_well(run_chart(finished(), "r"))
    assert len(having(picture, "in-place")) == 3
    (copied,) = having(picture, "copied")
    assert "y: 4 KiB, 4 KiB copied (CopyToTarget)\nhanded over in 40 µs" in titles(copied)


def test_values_that_pass_together_are_one_arrow() -> None:
    run = finished()
    for other in range(20):
        passed(run, f"more {other}", 0, 2)
    picture = assert_drawn_well(run_chart(run, "r"))
    assert len(having(picture, "in-place")) == 3
    (told,) = [title for title in titles(picture) if title.startswith("z:")]
    assert "and 13 more" in told


def test_steps_of_a_device_that_overlap_have_lanes_of_their_own() -> None:
    run = finished()
    step(run, 3, "ethos_u", 400, 1200)
    picture = assert_drawn_well(run_chart(run, "r"))
    assert "ethos_u (2)" in texts(picture)
    tops = {
        title.text.split(":")[0]: number(bar, "y") for bar in having(picture, "span") for title in bar if title.text
    }
    assert tops["step 0"] == tops["step 2"] != tops["step 3"]


def test_without_a_report_there_are_the_stages_of_the_request() -> None:
    lanes = [(act.lane, act.kind, act.begin, act.end) for act in run_acts(finished(with_report=False))]
    assert lanes == [
        ("client", "request", 0, 1900 * US),
        ("framework", "queue", 0, 120 * US),
        ("framework", "input", 120 * US, 160 * US),
        ("framework", "run", 160 * US, 1660 * US),
        ("framework", "output", 1660 * US, 1750 * US),
    ]
    assert having(assert_drawn_well(run_chart(finished(with_report=False), "r")), "passed") == []


def test_a_step_whose_instants_are_unknown_is_left_out_with_its_arrows() -> None:
    run = finished()
    run.report.steps[1].started_ns = -1
    picture = assert_drawn_well(run_chart(run, "r"))
    assert "cpu_acc" not in texts(picture)
    assert having(picture, "copied") == []


@pytest.mark.parametrize("width", [390, 1100, 1440])
def test_words_fit_at_every_width(width: int) -> None:
    assert_drawn_well(run_chart(finished(), "r", width))


def test_names_are_text() -> None:
    run = finished()
    run.model = run.client = run.report.steps[0].device = run.report.ledger[0].value = "<script>alert(1)</script>"
    assert "<script>" not in run_chart(run, "r").embedded()


def test_an_empty_run_can_be_drawn() -> None:
    assert_drawn_well(run_chart(framework_admin_pb2.FinishedRun(), "r"))
