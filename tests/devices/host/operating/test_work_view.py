"""Names of models for operators."""

from __future__ import annotations

from nnhal.types import ExtensionNameAndPrefix, Model, Operation, OperationType, Subgraph
from nnhal_devices.host.operating.work_view import summary_of


def model_of(*codes: int) -> Model:
    """A model of operations of these types; the prefix 7 is com.example.ops."""
    operations = tuple(Operation(code, (), ()) for code in codes)
    return Model(
        Subgraph((), operations, (), ()), extension_name_to_prefix=(ExtensionNameAndPrefix("com.example.ops", 7),)
    )


def test_the_most_frequent_operations_are_named() -> None:
    relu, add, mul = OperationType.RELU, OperationType.ADD, OperationType.MUL
    assert summary_of(model_of(relu)) == "1 operation: RELU"
    codes = (relu, add, relu, mul, add, relu, OperationType.TANH)
    assert summary_of(model_of(*codes)) == "7 operations: 3 RELU, 2 ADD, 1 MUL and others"


def test_operations_of_extensions_are_named_by_the_extension() -> None:
    assert summary_of(model_of(7 << 16 | 3)) == "1 operation: operation 3 of com.example.ops"
