"""The graph of a plan: what is drawn, what it says, and where it leads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

import pytest

from nnhal_client.explanation import Explanation, Measured, OperationStory
from nnhal_pages.graph import GraphView, PlanLinks, opened_from, opened_text, plan_graph
from nnhal_pages.patterns import device_lanes
from nnhal_pages.svg import drawing_style
from tests.support.explanations import Placed, branches, chain, explained, inception, residual

NASTY = "<script>alert('1')</script> & \"><img onerror=x>\njavascript:\u202eevil"
LINKS = PlanLinks(
    lambda number: f"/operations/{number}",
    lambda number: f"/steps/{number}",
    lambda opened: f"?open={opened_text(opened, 1000)}",
)
PLAN = explained(
    [
        Placed("stem/conv", "CONV_2D", "npu", ("image",), ("a",)),
        Placed("stem/relu", "RELU", "npu", ("a",), ("b",), pin="name:stem/relu=npu"),
        Placed("head/softmax", "SOFTMAX", "cpu", ("b",), ("scores",)),
    ]
)


def drawn(
    explanation: Explanation,
    open_steps: frozenset[int] = frozenset(),
    name: str = "plan",
    marks: Mapping[int, str] | None = None,
    selected: frozenset[int] = frozenset(),
) -> Element:
    view = GraphView(LINKS, name, open_steps, selected, marks or {})
    return fromstring(plan_graph(explanation, view).embedded())


def everything(explanation: Explanation) -> Element:
    return drawn(explanation, frozenset(range(len(explanation.steps))))


def having(picture: Element, name: str) -> list[Element]:
    return [each for each in picture.iter() if name in each.get("class", "").split()]


def texts(element: Element) -> list[str]:
    return [each.text or "" for each in element.iter("text")]


def titles(element: Element) -> list[str]:
    return [each.text or "" for each in element.iter("title")]


def links(picture: Element) -> dict[str, str]:
    return {each.attrib["href"]: each.attrib["aria-label"] for each in picture.iter("a")}


def test_steps_are_boxes_that_say_how_much_they_are() -> None:
    picture = drawn(PLAN)
    assert [texts(step)[:2] for step in having(picture, "step")] == [
        ["Step 0 on npu", "2 operations"],
        ["Step 1 on cpu", "1 operation"],
    ]
    assert "1 CONV_2D" not in texts(picture)
    assert "CONV_2D, RELU" in texts(picture)
    assert "modelled 2.0 µs" in texts(picture)


def test_measured_times_are_beside_the_modelled_ones() -> None:
    measured = Measured(1, 1.0, (3_000.0, -1), (1.0, -1), (0.0, -1), 0, ())
    assert [text for text in texts(drawn(replace(PLAN, measured=measured))) if "measured" in text] == [
        "measured 3.0 µs"
    ]


def test_a_device_has_a_colour_and_a_pattern_that_is_defined() -> None:
    lanes = device_lanes(device.name for device in PLAN.devices)
    picture = everything(PLAN)
    defined = {f"url(#{each.attrib['id']})" for each in picture.iter("pattern")}
    strips = [strip.attrib["fill"] for strip in having(picture, "strip")]
    assert set(strips) == {lanes["npu"].fill("plan"), lanes["cpu"].fill("plan")} <= defined
    assert [group.attrib["class"] for group in having(picture, "open-step")] == [
        f"open-step {lanes[device].class_}" for device in ("npu", "cpu")
    ]


def test_two_graphs_of_a_page_share_no_id() -> None:
    one, other = ({each.get("id") for each in drawn(PLAN, name=name).iter("pattern")} for name in ("old", "new"))
    assert one.isdisjoint(other)


def test_every_box_is_a_link_that_says_where_it_leads() -> None:
    assert links(drawn(PLAN, frozenset({0}))) == {
        "/steps/0": "Step 0 on npu, 2 operations, modelled 2.0 µs",
        "?open=": "Close step 0",
        "/operations/0": "CONV_2D, stem/conv, on npu, 1.0 µs",
        "/operations/1": "RELU, stem/relu, on npu, 1.0 µs, pinned",
        "/steps/1": "Step 1 on cpu, 1 operation, modelled 1.0 µs",
        "?open=0,1": "Open step 1",
    }


def test_operations_of_a_closed_step_are_not_drawn() -> None:
    assert "stem/conv" not in texts(drawn(PLAN))
    assert "stem/conv" in texts(drawn(PLAN, frozenset({0})))
    assert "head/softmax" not in texts(drawn(PLAN, frozenset({0})))


def test_edges_have_bytes_and_copied_ones_stand_out() -> None:
    picture = drawn(PLAN)
    captions = [texts(each) for each in having(picture, "caption")]
    assert captions == [["image", "4 KiB"], ["b", "4 KiB, copied, 0.5 µs"], ["scores", "4 KiB"]]
    (copied,) = having(picture, "caption")[1:2]
    assert "copied" in copied.attrib["class"].split()
    assert len([each for each in having(picture, "edge") if "copied" in each.attrib["class"].split()]) == 2
    assert "b: 4 KiB, 4 KiB copied, modelled 0.5 µs, npu (0) to cpu (1), CopyToTarget by MemCopy" in titles(picture)


def test_an_open_step_has_its_values_at_its_borders() -> None:
    picture = everything(PLAN)
    assert [texts(pill)[0] for pill in having(picture, "pill")] == [
        "image, 4 KiB",
        "b, 4 KiB",
        "b, 4 KiB, copied",
        "scores, 4 KiB",
        "client: 1 input",
        "client: 1 output",
    ]


def test_values_of_one_name_and_one_way_share_a_line() -> None:
    both = [Placed("split", "SPLIT", "npu", ("x",), ("a", "b")), Placed("add", "ADD", "cpu", ("a", "b"), ("y",))]
    (caption,) = [each for each in having(drawn(explained(both)), "caption") if "2 values" in texts(each)]
    assert texts(caption) == ["2 values", "8 KiB, copied, 1.0 µs"]
    assert len(titles(caption)[0].splitlines()) == 2


def test_many_values_of_a_step_are_put_together_by_their_other_end() -> None:
    values = tuple(f"v{number}" for number in range(30))
    plan = explained([Placed("split", "SPLIT", "npu", ("x",), values), Placed("pack", "PACK", "cpu", values, ("y",))])
    words = [texts(pill)[0] for pill in having(everything(plan), "pill")]
    assert "30 values, 120 KiB" in words and "30 values, 120 KiB, copied" in words


def test_the_longest_operation_has_the_longest_bar() -> None:
    slow = replace(PLAN.operations[0], modelled_ns=4_000.0)
    free = replace(PLAN.operations[2], modelled_ns=0.0)
    picture = everything(replace(PLAN, operations=(slow, PLAN.operations[1], free)))
    first, second = (float(bar.attrib["width"]) for bar in having(picture, "share"))
    assert first == pytest.approx(4 * second, rel=0.01)
    assert "no modelled time" in texts(picture)


def test_marks_and_the_selection_are_words_or_frames_and_not_colours_alone() -> None:
    picture = drawn(PLAN, frozenset({0, 1}), marks={2: "was npu"}, selected=frozenset({0}))
    (marked,) = having(picture, "marked")
    assert "◆ was npu" in texts(marked) and marked.attrib["aria-label"].endswith("was npu")
    (selected,) = having(picture, "selected")
    assert selected.attrib["href"] == "/operations/0"
    (closed,) = having(drawn(PLAN, marks={2: "was npu"}), "marked")
    assert "◆ 1 marked" in texts(closed)


def test_control_flow_of_the_framework_has_boxes_of_its_own() -> None:
    loop = OperationStory(("loop",), "WHILE", "framework", -1, 0.0, {}, inputs=("scores",), outputs=("state",))
    after = OperationStory(("after",), "IF", "framework", -1, 0.0, {}, inputs=("state",), outputs=("scores",))
    plan = replace(PLAN, operations=(*PLAN.operations, loop, after))
    picture = drawn(plan)
    assert links(picture)["/operations/3"] == "WHILE, loop, on framework, no modelled time"
    assert "client: 1 output" not in texts(picture)  # the loop reads it
    assert "state" in titles(picture)


def test_a_plan_of_nothing_is_drawn() -> None:
    empty = replace(PLAN, operations=(), steps=(), edges=())
    picture = drawn(empty)
    assert texts(picture) == [] and picture.attrib["aria-label"].endswith("0 steps and 0 operations")


def test_operations_without_values_and_names_are_drawn() -> None:
    bare = tuple(replace(story, inputs=(), outputs=(), nodes=()) for story in PLAN.operations)
    picture = everything(replace(PLAN, operations=bare))
    assert {"operation 0", "operation 1", "operation 2"} <= set(texts(picture))


def test_values_of_one_name_are_those_written_last() -> None:
    twice = explained([replace(placed, outputs=("v",), inputs=("v",)) for placed in chain(5)])
    heights = [float(y) for y in re.findall(r"translate\([\d.]+ ([\d.]+)\)'><a href='/operations", _text(twice))]
    assert heights == sorted(heights) and len(set(heights)) == 5


def _text(explanation: Explanation) -> str:
    opened = frozenset(range(len(explanation.steps)))
    return plan_graph(explanation, GraphView(LINKS, open=opened)).embedded()


def test_names_are_texts_and_nothing_else() -> None:
    placed = [Placed(NASTY, NASTY, NASTY, (NASTY,), (NASTY + "2",), {"gpu": NASTY}, NASTY)]
    plan = explained(placed, devices=(NASTY, "gpu"))
    for opened in (frozenset[int](), frozenset({0})):
        written = plan_graph(plan, GraphView(LINKS, open=opened, marks={0: NASTY})).embedded()
        picture = fromstring(written)
        assert not re.search(r"<(script|img)|\u202e", written)
        assert {each.tag for each in picture.iter()} <= {
            *("svg", "g", "defs", "pattern", "rect", "path", "circle", "text", "title", "a")
        }
        assert all(re.match(r"/|\?", each.attrib["href"]) for each in picture.iter("a"))
        assert not any(name.startswith("on") or name == "style" for each in picture.iter() for name in each.attrib)
        assert any("\\u202eevil" in text for text in titles(picture))


def test_a_long_name_fits_its_box_and_is_whole_in_its_title() -> None:
    name = "/".join(["layer"] * 60)
    picture = everything(explained([Placed(name, "CONV_2D", "npu", ("x",), ("y",))]))
    assert max(map(len, texts(picture))) < 40
    assert any(name in title for title in titles(picture))


@pytest.mark.parametrize(
    "operations",
    [chain(1000), residual(200), inception(111), branches(1000)],
    ids=["chain", "residual", "inception", "branches"],
)
def test_a_thousand_operations_are_drawn_within_a_screen_s_width_or_two(operations: list[Placed]) -> None:
    drawing = plan_graph(explained(operations), GraphView(LINKS, open=frozenset(range(100))))
    assert len(re.findall("href='/operations/", drawing.content)) == len(operations)
    assert drawing.width < 1500


def test_every_class_of_a_graph_has_a_rule() -> None:
    pictures = (drawn(PLAN, marks={0: "was cpu"}), everything(PLAN))
    names = {name for picture in pictures for each in picture.iter() for name in each.get("class", "").split()}
    ruled = set(re.findall(r"\.([a-z][\w-]*)", drawing_style()))
    assert names - ruled - {"step", "caption", "title", "toggle"} == set()


def test_a_graph_is_a_file_of_its_own_too() -> None:
    document = fromstring(plan_graph(PLAN, GraphView(LINKS)).document())
    assert any(".graph .frame" in (each.text or "") for each in document.iter())


@pytest.mark.parametrize(
    ("text", "opened"),
    [("", set()), ("all", {0, 1, 2}), ("2,0", {0, 2}), ("1,7,99999999999999999", {1}), ("1,,1", {1})],
)
def test_open_steps_are_read_from_an_address(text: str, opened: set[int]) -> None:
    assert opened_from(text, 3) == opened
    assert opened_from(opened_text(opened, 3), 3) == opened


@pytest.mark.parametrize("text", ["x", "-1", "1;2", "²", "all,1"])
def test_other_texts_are_no_steps(text: str) -> None:
    with pytest.raises(ValueError, match="expected numbers with commas"):
        opened_from(text, 3)
