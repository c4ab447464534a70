"""Tables of a flatbuffer whose offsets lead anywhere."""

from __future__ import annotations

import struct

import flatbuffers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends.tflite.tables import INT32, Table, integers_at, reals_at, tables_at


def table_of(*fields: int) -> bytes:
    """Return a flatbuffer whose root has these numbers as its fields; a 0 is left out, as a default value is."""
    builder = flatbuffers.Builder(0)
    builder.StartObject(len(fields))
    for number, value in enumerate(fields):
        builder.PrependInt32Slot(number, value, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def test_fields_have_their_values_and_those_that_are_left_out_their_defaults() -> None:
    root = Table.root(table_of(7, 0, -9))
    assert [root.scalar(field, INT32, 5) for field in range(4)] == [7, 5, -9, 5]
    assert [root.has(field) for field in range(4)] == [True, False, True, False]
    assert root.table(1) is None
    assert root.vector(1) == (0, 0)


def test_vectors_have_their_numbers() -> None:
    content = struct.pack("<3i2f", 4, -5, 6, 0.5, -2.0)
    assert integers_at(content, 0, 3, "i") == (4, -5, 6)
    assert reals_at(content, 12, 2) == (0.5, -2.0)
    assert (integers_at(content, 99, 0, "i"), reals_at(content, 99, 0), tables_at(content, 99, 0)) == ((), (), [])
    with pytest.raises(struct.error):
        integers_at(content, 0, 6, "i")


def test_offsets_of_fields_before_the_file_are_refused() -> None:
    content = bytearray(table_of(7))
    (root,) = struct.unpack_from("<I", content)
    struct.pack_into("<i", content, root, root + 1)
    with pytest.raises(ValueError, match="lie at -1"):
        Table.root(bytes(content))


@given(st.binary(min_size=0, max_size=64), st.integers(0, 5))
def test_any_bytes_are_read_or_refused(content: bytes, field: int) -> None:
    try:
        root = Table.root(content)
        found = integers_at(content, *root.vector(field), "i")
        root.scalar(field, INT32)
        root.table(field)
    except (ValueError, struct.error):
        return
    assert len(found) * 4 <= len(content)
