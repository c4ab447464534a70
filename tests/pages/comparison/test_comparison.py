"""Two plans beside each other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal_client.explanation import Explanation, Measured
from nnhal_pages.comparison import OperationPair, comparison, comparison_style, pairs_of
from nnhal_pages.comparison.pairing import count, difference
from nnhal_pages.explanation.fragment import style
from nnhal_pages.graph import GraphView, PlanLinks
from nnhal_pages.units import duration
from tests.support.explanations import Placed, chain, explained
from tests.support.html import Page, parsed

LINKS = PlanLinks(lambda number: f"/operations/{number}", lambda number: f"/steps/{number}", lambda _: "?")
NASTY = "<script>alert(1)</script>\"'\n\u202e"
CONV = Placed("conv", "CONV_2D", "npu", ("image",), ("a",))
RELU = Placed("relu", "RELU", "npu", ("a",), ("b",))
SOFTMAX = Placed("softmax", "SOFTMAX", "cpu", ("b",), ("scores",))
OLD = explained([CONV, RELU, SOFTMAX])
NEW = explained([CONV, replace(RELU, device="gpu", pin="name:relu=gpu"), SOFTMAX])


def compared(old: Explanation, new: Explanation, opened: bool = False) -> Page:
    steps = frozenset(range(9)) if opened else frozenset[int]()
    views = GraphView(LINKS, "old", steps), GraphView(LINKS, "new", steps)
    return parsed(comparison(old, new, ("before", "after"), views))


def rows(page: Page, kind: str) -> list[list[str]]:
    found: list[list[str]] = []
    for table in (each for each in page.all("table") if kind in each.attributes["class"].split()):
        for each in page.elements[page.elements.index(table) + 1 :]:
            if each.tag == "table":
                break
            if each.attributes.get("role") == "rowheader":
                found.append([each.text])
            elif each.tag == "td":
                found[-1].append(each.text)
    return found


def test_what_moved_is_said_with_both_places() -> None:
    page = compared(OLD, NEW)
    assert rows(page, "changes")[0] == [
        "relu",
        "RELU",
        "◆ moved",
        "npu, 1.0 µs",
        "gpu, 1.0 µspinned by name:relu=gpu",
        "pinned by name:relu=gpu",
    ]
    assert "1 operation of 3; 2 are the same in both." in page.text
    assert page.all("p")[0].text.startswith("1 operation moved; modelled time: = the same;")


def test_edges_are_compared_by_devices_and_not_by_steps() -> None:
    edges = rows(compared(OLD, NEW), "changes")[1:]
    assert edges == [
        ["a", "stays within a step", "npu to gpu: DirectCompatibility, 4 KiB in place", "= the same"],
        [
            "b",
            "npu to cpu: CopyToTarget, 4 KiB copied",
            "gpu to cpu: CopyToTarget, 4 KiB copied",
            "= the same",
        ],
    ]


def test_figures_have_differences_with_signs() -> None:
    page = compared(OLD, replace(NEW, modelled_ns=OLD.modelled_ns / 2, constant_bytes=10))
    figures = {name: cells for name, *cells in rows(page, "figures")}
    assert figures["Modelled time of a run"] == ["3.5 µs", "1.8 µs", "▼ 1.8 µs less (-50.0%)"]
    assert figures["Steps"] == ["2", "3", "▲ 1 more (+50.0%)"]
    assert figures["Edges that copy"] == ["1", "1", "= the same"]
    assert figures["Bytes of constants"] == ["0", "10", "▲ 10 more"]
    assert "Measured time of a run" not in figures


def test_measured_times_are_compared_if_both_were_measured() -> None:
    old, new = (replace(OLD, measured=Measured(1, ns, (), (), (), 0, ())) for ns in (1e6, 3e6))
    assert ["Measured time of a run", "1.00 ms", "3.00 ms", "▲ 2.00 ms more (+200.0%)"] in rows(
        compared(old, new), "figures"
    )
    assert "Measured time" not in compared(old, NEW).text


def test_devices_have_what_each_does() -> None:
    page = compared(OLD, NEW)
    (gpu,) = [row for row in rows(page, "devices") if row[0] == "gpu"]
    assert gpu == ["gpu", "0", "1", "▲ 1 more", "0.0 µs", "1.0 µs", "▲ 1.0 µs more"]


def test_graphs_mark_what_differs_by_words() -> None:
    page = compared(OLD, NEW, opened=True)
    before, after = page.all("svg")
    assert "◆ moves to gpu" in before.text and "◆ was on npu" in after.text
    assert [each.attributes["aria-label"] for each in page.having("marked")] == [
        "RELU, relu, on npu, 1.0 µs, moves to gpu",
        "RELU, relu, on gpu, 1.0 µs, pinned, was on npu",
    ]
    assert "◆ 1 marked" in compared(OLD, NEW).all("svg")[0].text


def test_a_plan_and_itself_do_not_differ() -> None:
    page = compared(OLD, OLD)
    assert page.all("p")[0].text.startswith("No operation moved; modelled time: = the same")
    assert "None: every operation runs where it ran" in page.text
    assert "None: every value passes" in page.text
    assert not page.having("marked")


def test_two_models_have_operations_that_only_one_has() -> None:
    other = explained([CONV, Placed("tanh", "TANH", "npu", ("a",), ("b",)), SOFTMAX])
    page = compared(OLD, other, opened=True)
    assert [row[:3] for row in rows(page, "changes")] == [
        ["tanh", "TANH", "+ only in the new plan"],
        ["relu", "RELU", "- only in the old plan"],
    ]
    assert "1 operation is only in the old plan; 1 operation is only in the new plan" in page.text
    assert all("◆ only here" in svg.text for svg in page.all("svg"))


def test_another_modelled_time_is_a_difference() -> None:
    slower = replace(OLD.operations[0], modelled_ns=2_000.0)
    page = compared(OLD, replace(OLD, operations=(slower, *OLD.operations[1:])))
    assert rows(page, "changes") == [["conv", "CONV_2D", "◇ another time", "npu, 1.0 µs", "npu, 2.0 µs"]]


def test_another_pin_is_a_difference() -> None:
    page = compared(OLD, explained([replace(CONV, pin="op:CONV_2D=npu"), RELU, SOFTMAX]))
    assert [row[2] for row in rows(page, "changes")] == ["◇ pinned otherwise"]


def test_a_device_looks_the_same_in_both_plans() -> None:
    page = compared(OLD, replace(OLD, devices=OLD.devices[::-1]))
    looks = {(each.text, each.attributes["class"]) for each in page.having("device")}
    assert len(looks) == len(OLD.devices)
    strips = [each.attributes["fill"].partition("-")[2] for each in page.having("strip")]
    assert strips[: len(strips) // 2] == strips[len(strips) // 2 :]


def test_operations_without_names_are_paired_in_their_order() -> None:
    bare = explained([replace(placed, name="") for placed in chain(3)])
    assert pairs_of(bare, bare) == [OperationPair(number, number) for number in range(3)]
    longer = explained([replace(placed, name="") for placed in chain(4)])
    assert pairs_of(bare, longer)[3] == OperationPair(None, 3)
    assert pairs_of(longer, bare)[3] == OperationPair(3, None)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (100, 100, "= the same"),
        (100.0, 100.4, "= the same"),
        (100, 250, "▲ 150 more (+150.0%)"),
        (250, 100, "▼ 150 less (-60.0%)"),
        (0, 5, "▲ 5 more"),
    ],
)
def test_a_difference_has_a_sign_and_a_word(old: float, new: float, text: str) -> None:
    assert difference(old, new, count) == text


def test_times_that_look_alike_are_the_same() -> None:
    assert difference(1_000.0, 1_010.0, duration) == "= the same"


def test_names_and_titles_are_texts() -> None:
    placed = [Placed(NASTY, NASTY, NASTY, (NASTY,), (NASTY + "1",), {}, NASTY)]
    old, new = (
        explained(placed, devices=(NASTY, "cpu")),
        explained([replace(placed[0], device="cpu")], devices=("cpu",)),
    )
    written = comparison(old, new, (NASTY, NASTY), (GraphView(LINKS, "old"), GraphView(LINKS, "new")))
    assert not re.search("<script|\u202e", written)
    assert NASTY.strip("\n\u202e") in parsed(written).text
    assert not any("style" in element.attributes for element in parsed(written).elements)


def test_classes_have_rules_for_comparisons_alone() -> None:
    names = {
        name
        for each in compared(OLD, NEW).elements
        if each.tag in ("div", "section")
        for name in each.attributes.get("class", "").split()
    }
    assert names - set(re.findall(r"\.([a-z][\w-]*)", style() + comparison_style())) == {"comparison"}
    sheet = re.sub(r"/\*.*?\*/", "", comparison_style(), flags=re.DOTALL)
    selectors = [part.strip() for chunk in re.findall(r"([^{}]+)\{", sheet) for part in chunk.split(",")]
    assert [each for each in selectors if not each.startswith((".nnhal-plan", "@media"))] == []
