from __future__ import annotations

from nnhal.v1 import framework_pb2
from nnhal_client.explanation import ArenaStory
from nnhal_pages.charts.arena import arena_charts
from tests.support.charts import assert_drawn_well, having, number, texts, titles

DEVICES = ("ethos_u", "cpu_acc", "ethos_u")


def test_each_memory_has_its_arena() -> None:
    values = [
        ArenaStory("a", "ashmem", 0, 4096, 0, 1),
        ArenaStory("b", "ashmem", 4096, 8192, 1, 2),
        ArenaStory("c", "hardware_buffer_blob", 0, 100, 0, 2),
    ]
    first, second = arena_charts(values, DEVICES, "arena")
    picture = assert_drawn_well(first)
    assert first.title == "The arena of ashmem over 3 steps: 2 values in 12 KiB"
    assert titles(picture) == [
        "a: 4 KiB at 0 B, steps 0 to 1, arena of ashmem",
        "b: 8 KiB at 4 KiB, steps 1 to 2, arena of ashmem",
    ]
    a, b = having(picture, "held")
    assert number(b, "y") + number(b, "height") <= number(a, "y") + 0.2
    assert number(b, "x") > number(a, "x")
    assert {"0 ethos_u", "1 cpu_acc", "2 ethos_u"} <= set(texts(picture))
    assert len(having(assert_drawn_well(second), "held")) == 1


def test_values_of_the_wire_are_drawn_as_well() -> None:
    value = framework_pb2.ArenaValue(value="x", memory="ashmem", offset=0, bytes=64, first_step=0, last_step=0)
    (drawing,) = arena_charts([value], ["mlip"], "arena")
    assert len(having(assert_drawn_well(drawing), "held")) == 1


def test_a_plan_of_many_steps_fits_into_the_picture() -> None:
    values = [ArenaStory(f"value {step}", "ashmem", step * 64, 64, step, step + 1) for step in range(399)]
    (drawing,) = arena_charts(values, ["cpu_ref"] * 400, "arena")
    assert drawing.width <= 900
    assert len(having(assert_drawn_well(drawing), "held")) == 399


def test_no_value_has_no_picture() -> None:
    assert arena_charts([], DEVICES, "arena") == []
