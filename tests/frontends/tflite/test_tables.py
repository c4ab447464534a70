"""Tables of a flatbuffer whose offsets lead anywhere."""

from __future__ import annotations

import struct
from typing import NamedTuple

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends.tflite.tables import Int32, Reference, Tables


class Three(NamedTuple):
    """A table of three numbers."""

    first: Int32 = 5
    second: Int32 = 6
    third: Int32 = 0


class Referring(NamedTuple):
    """A table that refers to a vector or table, and has a number."""

    place: Reference = 0
    number: Int32 = 0


def table_of(*fields: int) -> bytes:
    """Return a flatbuffer whose root has these numbers as its fields; a 0 is left out, as a default value is."""
    builder = flatbuffers.Builder(0)
    builder.StartObject(len(fields))
    for number, value in enumerate(fields):
        builder.PrependInt32Slot(number, value, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def test_fields_have_their_values_and_those_that_are_left_out_their_defaults() -> None:
    assert Tables(table_of(7, 0, -9)).root(Three) == Three(7, 6, -9)
    assert Tables(table_of(7)).root(Three) == Three(7, 6, 0)
    assert Tables(table_of(0, 0, 0, 4)).root(Three) == Three(5, 6, 0)


def test_fields_lie_in_any_order() -> None:
    content = struct.pack("<I4x5Hxxi3i", 20, 10, 16, 12, 4, 8, 12, 1, 2, 3)
    assert Tables(content).root(Three) == Three(3, 1, 2)


def test_references_say_where_a_vector_begins() -> None:
    builder = flatbuffers.Builder(0)
    numbers = builder.CreateNumpyVector(np.array([4, -5, 6], np.int32))
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, numbers, 0)
    builder.Finish(builder.EndObject())
    content = bytes(builder.Output())
    file = Tables(content)
    found = file.root(Referring)
    assert file.numbers(found.place, "i") == (4, -5, 6)
    assert file.vector(Tables(table_of(0, 3)).root(Referring).place) == (0, 0)


def test_vectors_have_their_numbers() -> None:
    file = Tables(struct.pack("<4xI3iI2fI", 3, 4, -5, 6, 2, 0.5, -2.0, 9))
    assert (file.numbers(4, "i"), file.numbers(20, "f")) == ((4, -5, 6), (0.5, -2.0))
    assert (file.numbers(0, "i"), file.places(0), file.vector(0)) == ((), [], (0, 0))
    assert (file.places(4), file.vector(4)) == ([8 + 4, 12 - 5 + 2**32, 16 + 6], (8, 3))
    with pytest.raises(struct.error):
        file.numbers(32, "i")


def test_offsets_of_fields_before_the_file_are_refused() -> None:
    content = bytearray(table_of(7))
    (root,) = struct.unpack_from("<I", content)
    struct.pack_into("<i", content, root, root + 1)
    with pytest.raises(ValueError, match="lie at -1"):
        Tables(bytes(content)).root(Three)


def test_fields_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="two fields of a table lie at 6"):
        Tables(struct.pack("<I2x4Hi2i", 14, 8, 12, 4, 6, 8, 1, 2)).root(Three)


@given(st.binary(min_size=0, max_size=64))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        file = Tables(content)
        found = file.numbers(file.root(Referring).place, "i")
    except (ValueError, struct.error):
        return
    assert len(found) * 4 <= len(content)
