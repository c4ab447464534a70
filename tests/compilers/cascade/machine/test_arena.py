from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.machine.arena import ArenaRegion, Buffer, Owner
from nnhal_cascade.machine.errors import OverwrittenError, StreamError
from nnhal_cascade.machine.tags import ByteOwners

SHAPE = Shape(7, 5, 6)
OWNERS = ByteOwners([("image", SHAPE), ("rows", SHAPE)], [])


def buffer_at(region: ArenaRegion, address: int, extents: Shape, owner: int = 0, element: str = "i1") -> Buffer:
    name = ("image", "rows")[owner]
    return Buffer(Owner(owner, name, SHAPE), np.dtype(element), region, address, extents, OWNERS)


def lengths(limit: int) -> st.SearchStrategy[Interval]:
    return st.tuples(st.integers(0, 6), st.integers(1, limit)).map(lambda drawn: Interval(drawn[0], sum(drawn)))


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Shape, Box]:
    """Draw extents of a buffer, and a box that it has room for."""
    extents = Shape(*(draw(st.integers(1, length)) for length in SHAPE))
    starts = [draw(st.integers(0, length - extent)) for length, extent in zip(SHAPE, extents, strict=True)]
    sizes = [draw(st.integers(1, extent)) for extent in extents]
    return extents, Box(*(Interval(start, start + size) for start, size in zip(starts, sizes, strict=True)))


@given(boxes(), st.sampled_from(["i1", "i2"]), st.booleans())
def test_a_box_that_was_written_is_read_wherever_it_wraps(
    drawn: tuple[Shape, Box], element: str, checked: bool
) -> None:
    extents, box = drawn
    buffer = buffer_at(ArenaRegion("sram", 1000, checked), 8, extents, element=element)
    values = np.arange(np.prod(box.shape)).astype(element).reshape(box.shape)
    assert buffer.write(box, values, "writer") == values.nbytes
    np.testing.assert_array_equal(buffer.read(box, "reader"), values)


def test_an_element_lies_at_its_indices_modulo_the_extents() -> None:
    region = ArenaRegion("sram", 100, checked=False)
    box = Box(Interval(4, 5), Interval(3, 4), Interval(5, 6))
    buffer_at(region, 10, Shape(3, 5, 4)).write(box, np.full((1, 1, 1), 9, np.int8), "writer")
    assert np.flatnonzero(region.bytes).tolist() == [10 + (1 * 5 + 3) * 4 + 1]


@pytest.mark.parametrize("columns", [5, 4], ids=["in one piece", "in pieces"])
def test_a_box_that_is_copied_over_itself_arrives_whole(columns: int) -> None:
    region = ArenaRegion("sram", 1000, checked=False)
    source, target = buffer_at(region, 0, Shape(2, 5, 6)), buffer_at(region, 0, Shape(2, 5, 6), owner=1)
    rows, below = (Box(Interval(row, row + 2), Interval(0, columns), Interval(0, 6)) for row in (0, 1))
    values = np.arange(12 * columns, dtype=np.int8).reshape(2, columns, 6)
    source.write(rows, values, "load")
    target.write(below, source.read(rows, "copy"), "copy")
    np.testing.assert_array_equal(target.read(below, "reader"), values)


def test_bytes_come_to_life_once_and_die_once() -> None:
    buffer = buffer_at(ArenaRegion("sram", 1000, checked=True), 0, SHAPE)
    rows = Box(Interval(0, 2), Interval(0, 5), Interval(0, 6))
    values = np.zeros(rows.shape, np.int8)
    assert buffer.write(rows, values, "writer") == 60
    assert buffer.write(rows, values, "writer") == 0
    assert buffer.roll(Axis.ROWS, Interval(1, 7)) == 30
    assert buffer.release() == 30


@given(boxes())
def test_what_was_rolled_past_is_not_read(drawn: tuple[Shape, Box]) -> None:
    extents, box = drawn
    buffer = buffer_at(ArenaRegion("sram", 1000, checked=True), 0, extents)
    buffer.write(box, np.zeros(box.shape, np.int8), "writer")
    buffer.roll(Axis.ROWS, Interval(box.rows.stop - 1, box.rows.stop))
    last = box.along(Axis.ROWS, Interval(box.rows.stop - 1, box.rows.stop))
    with pytest.raises(OverwrittenError, match="is dead"):
        buffer.read(last, "reader")


def test_a_dead_element_may_be_written_over_and_the_new_one_lives_on() -> None:
    region = ArenaRegion("sram", 1000, checked=True)
    image, rows = buffer_at(region, 0, SHAPE), buffer_at(region, 0, SHAPE, owner=1)
    row = Box(Interval(0, 1), Interval(0, 5), Interval(0, 6))
    values = np.ones(row.shape, np.int8)
    image.write(row, values, "load")
    rows.write(row, values * 2, "part")
    image.roll(Axis.ROWS, Interval(0, 1))
    np.testing.assert_array_equal(rows.read(row, "reader"), values * 2)
    with pytest.raises(OverwrittenError, match=r"^reader reads sram\[0x0\]: image\[row 0.* was overwritten by rows\["):
        image.read(row, "reader")


@pytest.mark.parametrize(
    ("address", "extents", "sentence"),
    [
        (900, SHAPE, "image at 0x384 takes 210 bytes of sram, the stream has 1000 of them"),
        (0, Shape(8, 5, 6), "image of 7 x 5 x 6 has a buffer of 8 x 5 x 6"),
        (0, Shape(7, 0, 6), "image of 7 x 5 x 6 has a buffer of 7 x 0 x 6"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(address: int, extents: Shape, sentence: str) -> None:
    with pytest.raises(StreamError) as caught:
        buffer_at(ArenaRegion("sram", 1000, checked=False), address, extents)
    assert str(caught.value) == sentence
