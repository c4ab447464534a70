"""The tables, beside the accessors that are made from the schema."""

from __future__ import annotations

import importlib
from typing import Any, get_type_hints

import pytest

from nnhal_frontends.tflite import schema, tables

KINDS = [kind for kind in vars(schema).values() if isinstance(kind, type) and kind.__module__ == schema.__name__]
TYPES: dict[str, Any] = {
    "Bool": tables.Bool,
    "Int8": tables.Int8,
    "Int32": tables.Int32,
    "UOffsetTRelative": tables.Reference,
    "Uint8": tables.UInt8,
    "Uint32": tables.UInt32,
    "Uint64": tables.UInt64,
}
"""The types of fields by the methods of a builder that put them into a table."""
LOST = {("SignatureDef", "deprecated_tag")}
"""Fields that the schema has no longer."""


class SlotRecorder:
    """Stands for a builder of flatbuffers, and notes what is put into which field, and its default."""

    found: tuple[str, int, int]

    def __getattr__(self, name: str) -> object:
        def put(slot: int, _: object, default: int) -> None:
            self.found = name.removeprefix("Prepend").removesuffix("Slot"), slot, default

        return put


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_fields_have_the_numbers_types_and_defaults_of_the_schema(kind: Any) -> None:
    table = kind.__name__.removesuffix("Table")
    module = importlib.import_module(f"tflite.{table}")
    hints = get_type_hints(kind, include_extras=True)
    for number, name in enumerate(kind._fields):
        if (table, name) in LOST:
            continue
        recorder = SlotRecorder()
        word = name.replace("_2", "2").title().replace("_", "")
        getattr(module, f"{table}Add{word}")(recorder, 0)
        type_name, slot, default = recorder.found
        assert (name, slot, default) == (name, number, kind._field_defaults[name])
        assert hints[name] == TYPES[type_name], name
