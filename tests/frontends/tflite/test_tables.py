"""Tables of a flatbuffer whose offsets lead anywhere."""

from __future__ import annotations

import struct
from typing import NamedTuple

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends.tflite.tables import Int32, Reference, numbers_at, places_at, root_at, vector_at


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
    assert root_at(Three, table_of(7, 0, -9)) == Three(7, 6, -9)
    assert root_at(Three, table_of(7)) == Three(7, 6, 0)
    assert root_at(Three, table_of(0, 0, 0, 4)) == Three(5, 6, 0)


def test_fields_lie_in_any_order() -> None:
    content = struct.pack("<I4x5Hxxi3i", 20, 10, 16, 12, 4, 8, 12, 1, 2, 3)
    assert root_at(Three, content) == Three(3, 1, 2)


def test_references_say_where_a_vector_begins() -> None:
    builder = flatbuffers.Builder(0)
    numbers = builder.CreateNumpyVector(np.array([4, -5, 6], np.int32))
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, numbers, 0)
    builder.Finish(builder.EndObject())
    content = bytes(builder.Output())
    found = root_at(Referring, content)
    assert numbers_at(content, *vector_at(content, found.place), "i") == (4, -5, 6)
    assert vector_at(content, root_at(Referring, table_of(0, 3)).place) == (0, 0)


def test_vectors_have_their_numbers() -> None:
    content = struct.pack("<3i2f", 4, -5, 6, 0.5, -2.0)
    assert numbers_at(content, 0, 3, "i") == (4, -5, 6)
    assert numbers_at(content, 12, 2, "f") == (0.5, -2.0)
    assert (numbers_at(content, 0, 0, "i"), places_at(content, 0, 0)) == ((), [])
    with pytest.raises(struct.error):
        numbers_at(content, 0, 6, "i")


def test_offsets_of_fields_before_the_file_are_refused() -> None:
    content = bytearray(table_of(7))
    (root,) = struct.unpack_from("<I", content)
    struct.pack_into("<i", content, root, root + 1)
    with pytest.raises(ValueError, match="lie at -1"):
        root_at(Three, bytes(content))


def test_fields_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="two fields of a table lie at 6"):
        root_at(Three, struct.pack("<I2x4Hi2i", 14, 8, 12, 4, 6, 8, 1, 2))


@given(st.binary(min_size=0, max_size=64))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = numbers_at(content, *vector_at(content, root_at(Referring, content).place), "i")
    except (ValueError, struct.error):
        return
    assert len(found) * 4 <= len(content)
