"""Every operation with an open batch on cpu_acc: it is taken as with a fixed one, or what forbids it is named.

NNHAL_CONFORMANCE has the vectors.
"""

from __future__ import annotations

from dataclasses import replace

from nnhal.support import Supported, Unsupported
from nnhal.types import Model, OperandLifeTime, OperationType
from nnhal.types.layout import is_scalar
from nnhal_devices.cpu_acc.support import supported_operations
from nnhal_devices.cpu_acc.table import TABLE
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.registry import registry
from nnhal_tools.cases.case import Case
from tests.conformance.altered_vectors import input_as_constant
from tests.conformance.vectors import NEEDS_VECTORS, smallest_by_form
from tests.support.device_trials import attempt, objection
from tests.support.mutations import with_main

pytestmark = NEEDS_VECTORS
_OPENED = (
    OperandLifeTime.SUBGRAPH_INPUT,
    OperandLifeTime.SUBGRAPH_OUTPUT,
    OperandLifeTime.TEMPORARY_VARIABLE,
)
_REASONS = {"squeeze_b155238914": "input 0 is unknown before execution"}
"""What cpu_acc does not take with an open batch: without axes, those of length 1 are dropped, which it may be."""


def _is_taken(vector: Case) -> bool:
    operations = vector.model.main.operations
    if vector.model.referenced or not all(one.type in TABLE for one in operations):
        return False
    given = ValidModel.of(_with_parameters(vector).model)
    return all(isinstance(answer, Supported) for answer in supported_operations(given.resolved))


def _with_parameters(vector: Case) -> Case:
    """Return a vector whose parameters are constants, as cpu_acc wants them."""
    for operation in vector.model.main.operations:
        for position in TABLE[OperationType(operation.type)].rule.constants:
            index = operation.inputs[position] if position < len(operation.inputs) else -1
            if index in vector.model.main.input_indexes:
                vector = input_as_constant(vector, index)
    return vector


def _opened(model: Model) -> Model:
    """Return a model whose values, other than second inputs such as weights, have a first axis of unknown length."""
    main = model.main
    others = {index for one in main.operations for index in one.inputs}
    others -= {one.inputs[TABLE[OperationType(one.type)].rule.main] for one in main.operations}
    operands = tuple(
        replace(operand, dimensions=(0, *operand.dimensions[1:]))
        if operand.lifetime in _OPENED and index not in others and not is_scalar(operand.type)
        else operand
        for index, operand in enumerate(main.operands)
    )
    return with_main(model, operands=operands)


def _vectors() -> dict[str, Case]:
    return {vector.name: _with_parameters(vector) for vector in smallest_by_form(_is_taken).values()}


def test_all_operations_but_two_are_among_the_vectors() -> None:
    codes = {one.type for vector in _vectors().values() for one in vector.model.main.operations}
    assert TABLE.keys() - codes == {OperationType.LESS, OperationType.RSQRT}


def test_an_open_batch_is_taken_as_a_fixed_one_is_and_computes_the_same() -> None:
    def hosted(driver: str) -> HostedDevice:
        return HostedDevice(registry().create(driver, DriverOptions()), DeviceSettings())

    device, reference, wrong, refused = hosted("cpu_acc"), hosted("cpu_ref"), {}, {}
    for name, vector in _vectors().items():
        opened = replace(vector, model=_opened(vector.model))
        model = ValidModel.of(opened.model)
        answers = supported_operations(model.resolved)
        reasons = [answer.got.split(": ")[-1] for answer in answers if isinstance(answer, Unsupported)]
        if reasons:
            refused[name] = reasons[0]
            continue
        trial = attempt(device, model, opened)
        assert trial.outputs, name
        if message := objection(model, trial, attempt(reference, model, opened), is_extreme=False):
            wrong[name] = message
    assert (wrong, refused) == ({}, _REASONS)
