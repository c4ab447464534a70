"""Text about one operation, or one step."""

from __future__ import annotations

from dataclasses import replace

from nnhal_client.explanation import Explanation, Measured
from nnhal_pages.explanation.panel import operation_panel, step_panel
from nnhal_pages.graph import PlanLinks
from tests.support.explanations import Placed, explained
from tests.support.html import Page, parsed

LINKS = PlanLinks(lambda number: f"/operations/{number}", lambda number: f"/steps/{number}", lambda _: "?")
PLAN = explained(
    [
        Placed("stem/conv", "CONV_2D", "npu", ("image",), ("a",), {"gpu": "DTYPE: got INT8, allowed FLOAT32"}),
        Placed("stem/relu", "RELU", "npu", ("a", "a"), ("b",), pin="name:stem/relu=npu"),
        Placed("", "SOFTMAX", "cpu", ("b",), ("scores",), {"npu": "OP: got SOFTMAX"}),
    ]
)


def panel(number: int, plan: Explanation = PLAN) -> Page:
    return parsed(operation_panel(plan, number, LINKS))


def cells(page: Page, kind: str) -> list[list[str]]:
    """The rows of a table, the header left out."""
    (table,) = [each for each in page.all("table") if kind in each.attributes["class"].split()]
    inside = page.elements[page.elements.index(table) :]
    following = [each for each in inside[1:] if each.tag == "table"]
    end = inside.index(following[0]) if following else len(inside)
    rows: list[list[str]] = []
    for each in inside[:end]:
        if each.attributes.get("role") == "rowheader":
            rows.append([each.text])
        elif each.tag == "td":
            rows[-1].append(each.text)
    return rows


def terms(page: Page) -> dict[str, str]:
    return dict(zip((each.text for each in page.all("dt")), (each.text for each in page.all("dd")), strict=True))


def test_an_operation_has_the_user_s_name_its_place_and_its_pin() -> None:
    assert terms(panel(1)) == {
        "Operation": "RELU, number 1",
        "Layer": "stem/relu",
        "Runs on": "npu, step 0",
        "Pin": "name:stem/relu=npu",
        "Modelled time": "1.0 µs",
    }
    assert terms(panel(2))["Layer"] == "not named"
    assert terms(panel(2))["Pin"] == "none: the planner chose the device"


def test_every_device_answers() -> None:
    assert cells(panel(0), "answers") == [
        ["npu", "✓ runs it", "1.0 µs", ""],
        ["gpu", "✕ refuses it", "-", "DTYPE: got INT8, allowed FLOAT32"],
        ["cpu", "○ could run it", "2.0 µs", "1.0 µs more than where it runs"],
    ]


def test_a_device_without_a_modelled_time_is_not_compared() -> None:
    bare = replace(PLAN, operations=(replace(PLAN.operations[0], costs={}, modelled_ns=0.0), *PLAN.operations[1:]))
    assert cells(panel(0, bare), "answers")[2] == ["cpu", "○ could run it", "-", "no modelled time to compare"]


def test_a_cheaper_device_is_said_to_be_cheaper() -> None:
    costs = {"npu": 1000.0, "gpu": 1000.0, "cpu": 250.0}
    other = replace(PLAN, operations=(replace(PLAN.operations[0], costs=costs, refusals={}), *PLAN.operations[1:]))
    assert [row[3] for row in cells(panel(0, other), "answers")] == [
        "",
        "as long as where it runs",
        "0.8 µs less than where it runs",
    ]


def test_values_say_whence_they_come_and_who_reads_them() -> None:
    assert cells(panel(0), "values") == [
        ["reads", "image", "4 KiB", "the clientclient to npu (0): in place, DirectCompatibility. both take ashmem"],
        ["writes", "a", "within the step", "stem/relu"],
    ]
    reads, writes = cells(panel(1), "values")
    assert reads == ["reads", "a", "within the step", "stem/conv"]
    copy = "npu (0) to cpu (1): 4 KiB copied, CopyToTarget. the target takes no ashmem"
    assert writes == ["writes", "b", "4 KiB", f"operation 2{copy}"]
    assert [each.attributes["href"] for each in panel(1).all("a")] == ["/operations/0", "/operations/2"]


def test_a_value_of_thousands_of_readers_names_some() -> None:
    readers = [Placed(f"reader_{number}", "RELU", "npu", ("x",), (f"y{number}",)) for number in range(2000)]
    plan = explained([Placed("writer", "CONV_2D", "npu", ("w",), ("x",)), *readers])
    page = panel(0, plan)
    assert "and 1994 more" in page.text and len(page.all("a")) == 6


def test_an_operation_without_known_values_says_so() -> None:
    bare = replace(PLAN, operations=tuple(replace(story, inputs=(), outputs=()) for story in PLAN.operations))
    assert "Nothing is known of its values." in panel(0, bare).text


def test_a_step_has_its_times_its_operations_and_its_edges() -> None:
    measured = Measured(1, 1.0, (3_000.0, -1), (4_000.0, -1), (500.0, -1), 0, ())
    steps = (replace(PLAN.steps[0], optimizations=("fuses 2 operations",)), PLAN.steps[1])
    page = parsed(step_panel(replace(PLAN, measured=measured, steps=steps), 0, LINKS))
    assert terms(page) == {
        "Device": "npu",
        "Modelled time": "2.0 µs",
        "Measured on the device": "3.0 µs",
        "Measured in the driver": "4.0 µs",
        "Of that, copying": "0.5 µs",
        "Optimisations": "fuses 2 operations",
    }
    assert [row[1] for row in cells(page, "edges")] == ["client to npu (0)", "npu (0) to cpu (1)"]
    assert [each.text for each in page.all("li")] == ["stem/conv CONV_2D", "stem/relu RELU"]


def test_a_step_that_was_never_run_has_no_measured_time() -> None:
    measured = Measured(1, 1.0, (3_000.0, -1), (4_000.0, -1), (500.0, -1), 0, ())
    page = parsed(step_panel(replace(PLAN, measured=measured), 1, LINKS))
    assert "Measured" not in page.text
    assert terms(page)["Optimisations"] == "none that the device tells of"
