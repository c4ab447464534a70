"""The numbers of fields, beside the accessors that are made from the schema."""

from __future__ import annotations

import importlib

import pytest

from nnhal_frontends.tflite import schema

TABLES = {
    "Model": schema.ModelField,
    "SubGraph": schema.SubgraphField,
    "Buffer": schema.BufferField,
    "OperatorCode": schema.CodeField,
    "Tensor": schema.TensorField,
    "QuantizationParameters": schema.QuantizationField,
    "Operator": schema.OperatorField,
}


class SlotRecorder:
    """Stands for a builder of flatbuffers, and notes into which field something is put."""

    slot = -1

    def __getattr__(self, name: str) -> object:
        def put(slot: int, *_: object) -> None:
            self.slot = slot

        return put


@pytest.mark.parametrize("table", TABLES)
def test_fields_have_the_numbers_of_the_schema(table: str) -> None:
    module = importlib.import_module(f"tflite.{table}")
    fields = {name: number for name, number in vars(TABLES[table]).items() if name.isupper()}
    assert fields
    for name, number in fields.items():
        recorder = SlotRecorder()
        word = name.replace("_2", "2").title().replace("_", "")
        getattr(module, f"{table}Add{word}")(recorder, 0)
        assert (name, recorder.slot) == (name, number)
