"""An explanation in ten lines and as tables, and times that are not known."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from nnhal_client.explanation import Counterfactual, Explanation, ImageLayoutStory
from nnhal_tools.explain import show, with_unknown_times
from tests.support.explanations import COST_NS, Placed, explained


def plan(count: int = 30) -> Explanation:
    """A plan of neighbours on alternating devices, of which each refuses the other's operations."""
    operations = [
        Placed(
            f"node{number}",
            f"KIND_{number % 5}",
            ("npu", "cpu")[number % 2],
            (f"v{number}",),
            (f"v{number + 1}",),
            {("cpu", "npu")[number % 2]: f"reason {number % 3}"},
        )
        for number in range(count)
    ]
    others = (Counterfactual("cpu", 5000.0, ""), Counterfactual("npu", 0.0, "operation 1: reason 1"))
    return replace(explained(operations), counterfactuals=others)


def printed(explanation: Explanation, notes: tuple[str, ...] = (), everything: bool = False) -> list[str]:
    written = StringIO()
    show(explanation, Console(file=written, width=10_000), notes, everything)
    return written.getvalue().splitlines()


def test_a_summary_has_ten_lines_at_most_however_large_the_plan() -> None:
    *lines, hint = printed(plan(), ("not measured: a reason", "open dimensions: x [batch, 4]"))
    assert len(lines) <= 10
    assert lines[0] == "30 operations in 30 steps: 15 on npu, 15 on cpu"
    assert lines[1].endswith("npu 1, cpu 1, npu 1, cpu 1, npu 1, cpu 1 and 24 more")
    assert lines[2].startswith("cpu refuses 15: KIND_0 3, KIND_2 3, KIND_4 3 and 2 more types; 5 since reason ")
    assert lines[-3] == "all on cpu would be 5.0 µs; all on npu is not possible: operation 1: reason 1"
    assert hint.startswith("--all shows")


def test_the_first_line_says_which_device_takes_nothing_of_a_model_that_is_not_relaxed() -> None:
    reason = "DTYPE: got TENSOR_FLOAT32; relax the model's computation to float16 (relaxComputationFloat32toFloat16)"

    def refused(*reasons: str) -> list[Placed]:
        return [
            Placed(f"n{number}", "ADD", "cpu", (f"v{number}",), (f"v{number + 1}",), {"npu": why})
            for number, why in enumerate(reasons)
        ]

    last = Placed("last", "ADD", "npu", ("v2",), ("v3",), {})
    devices = explained([*refused(reason, reason), last]).devices
    none = replace(explained(refused(reason, "OP: got ADD")), devices=devices)
    assert printed(none)[0] == "2 operations in 1 step: 2 on cpu; npu takes none without --relaxed"
    for others in (refused("OP: got ADD"), [*refused(reason, reason), last]):
        assert "takes none" not in printed(replace(explained(others), devices=devices))[0]


def test_nodes_that_became_part_of_another_operation_are_told() -> None:
    first, *others = plan(3).operations
    fused = replace(first, nodes=("conv", "relu"), operation="CONV_2D")
    told = "nodes of the file that are one operation: conv + relu as CONV_2D"
    assert told in printed(replace(plan(3), operations=(fused, *others)))
    assert f"{told}, conv + relu as CONV_2D and 1 more" in printed(replace(plan(3), operations=(fused, fused, fused)))
    assert not any("that are one operation" in line for line in printed(plan(3)))


def test_the_layout_of_images_is_told_once() -> None:
    lines = printed(replace(plan(), image_layout=ImageLayoutStory(True, ("npu",), 3e6, "")))
    assert len([line for line in lines if line.startswith("layout of images: channels last")]) == 1


def test_everything_is_shown_after_the_summary_if_that_is_wanted() -> None:
    lines = printed(plan(3), everything=True)
    assert lines[0].startswith("3 operations in 3 steps")
    assert [title for title in ("Operations", "Edges", "Steps") if title in lines] == ["Operations", "Edges", "Steps"]
    assert any("node2" in line for line in lines) and not any("--all" in line for line in lines)


def test_times_of_open_dimensions_are_unknown_and_so_are_their_sums() -> None:
    first, second, third = plan(3).operations
    story = replace(plan(3), operations=(first, replace(second, has_open_dimensions=True), third))
    told = with_unknown_times(story)
    assert [operation.modelled_ns for operation in told.operations] == [COST_NS, -1, COST_NS]
    assert told.modelled_ns == told.steps[1].modelled_ns == -1
    assert told.steps[0].modelled_ns == story.steps[0].modelled_ns
    lines = printed(told)
    assert "modelled unknown" in lines
    assert "all on npu is not possible: operation 1: reason 1" in lines


def test_times_of_known_dimensions_stay() -> None:
    assert with_unknown_times(plan(3)) == plan(3)
