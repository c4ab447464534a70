"""Devices, their support of operations, and compilations for named devices, through the NDK's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.codec import capabilities_to_wire, extensions_to_wire
from nnhal.endpoint import Endpoint
from nnhal.operations.operand_types import B8, F32, FLOAT32
from nnhal.types import (
    Capabilities,
    DeviceType,
    ErrorStatus,
    ExecutionPreference,
    Extension,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    OperandPerformance,
    Operation,
    OperationType,
    PerformanceInfo,
    Priority,
    Subgraph,
)
from nnhal.types.layout import Dimensions
from nnhal.v1 import device_pb2, types_pb2
from nnhal_native.ndk import (
    Compilation,
    Execution,
    ResultCode,
    devices,
    supported_operations,
)
from tests.native.ndk.support import Floors, framework_over, named, refused
from tests.support.models import Recipe, floor_model
from tests.support.scripted import LAUNCHED, VERSION, Call, Script, ScriptedDevice, notified, preparing
from tests.support.subgraphs import Program

pytestmark = pytest.mark.sdk

FAST = PerformanceInfo(0.5, 0.5)
CAPABILITIES = Capabilities(FAST, FAST, (OperandPerformance(F32, FAST), OperandPerformance(B8, FAST)), FAST, FAST)
CONTROL_FLOW = (OperationType.IF, OperationType.WHILE)
HINTS = Extension("com.acme.hints", ())


def takes(*types: OperationType) -> Script:
    """Return the script of a device that supports these operations only."""
    return answering(lambda code: code in types)


def takes_all_but(*types: OperationType) -> Script:
    """Return the script of a device that supports all other operations."""
    return answering(lambda code: code not in types)


def answering(supports: Callable[[int], bool]) -> Script:
    def supported(request: Any, call: Call) -> device_pb2.GetSupportedOperationsResponse:
        answers = [supports(operation.type) for operation in request.model.main.operations]
        return device_pb2.GetSupportedOperationsResponse(supported=answers)

    capabilities = device_pb2.GetCapabilitiesResponse(capabilities=capabilities_to_wire(CAPABILITIES))
    return {"Device.GetSupportedOperations": supported, "Device.GetCapabilities": capabilities}


Over = Callable[..., None]
"""Starts a framework over cpu_ref and scripted devices, which ``scripted`` has by name."""


@pytest.fixture
def scripted() -> dict[str, ScriptedDevice]:
    return {}


@pytest.fixture
def over(cpu_ref: Endpoint, short_path: Path, scripted: dict[str, ScriptedDevice]) -> Iterator[Over]:
    """Return what starts devices and a framework."""
    with ExitStack() as stack:

        def start(**scripts: Script) -> None:
            endpoints = {"cpu_ref": cpu_ref}
            for name, script in scripts.items():
                device = ScriptedDevice(Endpoint(short_path / name), script)
                scripted[name] = stack.enter_context(device)
                endpoints[name] = scripted[name].endpoint
            stack.enter_context(framework_over(short_path, endpoints))

        yield start


def chain(*types: OperationType) -> Model:
    """Return a chain of operations; those with two inputs get the model's input as the second."""
    recipe = Recipe()
    first = value = recipe.input(F32, (4,))
    (none,) = recipe.integers(0)
    for code in types:
        more = {OperationType.ADD: [first, none], OperationType.MUL: [first, none], OperationType.MAXIMUM: [first]}
        value = recipe.operation(code, [value, *more.get(code, [])], Operand(F32, (4,)))
    return recipe.build(value).model


def backwards(model: Model) -> Model:
    return replace(model, main=replace(model.main, operations=model.main.operations[::-1]))


def with_loops(*shapes: Dimensions) -> Model:
    """Return a RELU, and a WHILE for each shape, whose body repeats on a value of that shape while a flag is set."""
    program = Program()
    main = program.graph()
    outputs = [main.operation(OperationType.RELU, [main.input((4,), F32)], Operand(F32, (4,)))]
    for shape in shapes:
        condition, body = program.graph(), program.graph()
        condition.input(shape, F32)
        condition.returns(
            condition.operation(OperationType.LOGICAL_NOT, [condition.input((1,), B8)], Operand(B8, (1,)))
        )
        rounds, flag = body.input(shape, F32), body.input((1,), B8)
        body.returns(
            body.operation(OperationType.RELU, [rounds], Operand(F32, shape)),
            body.operation(OperationType.LOGICAL_NOT, [flag], Operand(B8, (1,))),
        )
        loop = [main.reference(condition), main.reference(body), main.input(shape, F32), main.input((1,), B8)]
        outputs.append(main.operation(OperationType.WHILE, loop, Operand(F32, shape), Operand(B8, (1,))))
    main.returns(*outputs)
    return program.resolved().model


@pytest.mark.contract("IC-01")
def test_devices_are_listed_as_registered_with_the_cpu_last(over: Over) -> None:
    over(
        npu={
            "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(
                extensions=extensions_to_wire([HINTS])
            )
        },
        gpu={"Device.GetType": device_pb2.GetTypeResponse(type=types_pb2.DEVICE_TYPE_GPU)},
    )
    npu, gpu, cpu = devices()
    assert (npu.name, npu.version, npu.type, npu.feature_level) == ("npu", VERSION, DeviceType.ACCELERATOR, 8)
    assert (gpu.name, gpu.version, gpu.type, gpu.feature_level) == ("gpu", VERSION, DeviceType.GPU, 8)
    assert (cpu.name, cpu.type, cpu.feature_level) == ("nnapi-reference", DeviceType.CPU, 8)
    assert [device.has_extension(HINTS.name) for device in (npu, gpu)] == [True, False]


@pytest.mark.contract("IC-03", "IC-04")
def test_support_is_reported_in_the_applications_order(over: Over) -> None:
    over(npu=takes_all_but(OperationType.MAXIMUM))
    npu = named("npu")
    model = chain(OperationType.ADD, OperationType.MAXIMUM)
    assert supported_operations(model, npu) == [True, False]
    assert supported_operations(backwards(model), npu) == [False, True]


@pytest.mark.contract("IC-03")
def test_one_of_several_devices_is_enough_to_support_an_operation(over: Over) -> None:
    over(
        npu=takes(OperationType.ADD),
        gpu=takes(OperationType.MUL),
        broken={"Device.GetSupportedOperations": device_pb2.GetSupportedOperationsResponse(supported=[True])},
    )
    model = chain(OperationType.ADD, OperationType.MUL, OperationType.MAXIMUM)
    assert supported_operations(model, named("npu")) == [True, False, False]
    assert supported_operations(model, named("npu", "gpu", "broken")) == [True, True, False]
    assert supported_operations(model, named("nnapi-reference")) == [True] * 3
    assert supported_operations(model, named("broken")) == [False] * 3
    refused(ResultCode.BAD_DATA, lambda: supported_operations(model, []))
    refused(ResultCode.BAD_DATA, lambda: supported_operations(model, named("npu", "npu")))


@pytest.mark.contract("IC-05", "IC-06", "IC-07", "PT-26")
def test_control_flow_is_offered_unless_a_subgraph_is_of_unknown_rank(over: Over) -> None:
    over(npu=takes_all_but(*CONTROL_FLOW), gpu=takes_all_but())
    npu, gpu, cpu = (named(name) for name in ("npu", "gpu", "nnapi-reference"))
    assert supported_operations(with_loops((4,)), npu) == [True, False]
    assert supported_operations(with_loops((4,)), gpu) == [True, True]
    assert supported_operations(with_loops((4,), ()), npu) == [True, False, False]
    assert supported_operations(with_loops((4,), ()), gpu) == [False, False, False]
    assert supported_operations(with_loops((4,), ()), cpu) == [True, True, True]


@pytest.mark.contract("PT-26")
def test_a_model_with_control_flow_of_unknown_rank_runs_on_the_cpu(
    over: Over, scripted: dict[str, ScriptedDevice]
) -> None:
    over(gpu=takes_all_but())
    with Compilation(with_loops((4,))) as offered:
        offered.finish()
    with Compilation(with_loops((4,), ())) as not_offered:
        not_offered.finish()
    assert scripted["gpu"].count("Device.PrepareModelWithConfig") == 1


def test_operations_may_be_listed_in_any_order(over: Over) -> None:
    over()
    result = np.zeros(4, np.float32)
    model = backwards(chain(OperationType.ADD, OperationType.MUL, OperationType.FLOOR))
    with Compilation(model) as compilation:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_input(0, np.array([0.5, 1.0, 1.5, 2.0], np.float32))
            execution.set_output(0, result)
            execution.compute()
    np.testing.assert_array_equal(result, [0, 2, 4, 8])


@pytest.mark.contract("IC-08", "FB-10")
def test_a_named_device_that_lacks_an_operation_gets_no_fallback(
    over: Over, scripted: dict[str, ScriptedDevice]
) -> None:
    over(npu=takes(OperationType.ADD))
    with Compilation(chain(OperationType.ADD, OperationType.MUL), named("npu")) as compilation:
        refused(ResultCode.BAD_DATA, compilation.finish, "MUL")
        refused(ResultCode.BAD_STATE, compilation.finish)
        refused(ResultCode.BAD_STATE, lambda: Execution(compilation))
    assert scripted["npu"].count("Device.PrepareModelWithConfig") == 0


@pytest.mark.contract("IC-09")
def test_named_devices_share_a_model(over: Over, scripted: dict[str, ScriptedDevice]) -> None:
    over(npu=takes(OperationType.ADD), gpu=takes(OperationType.MUL))
    both = named("npu", "gpu")
    with Compilation(chain(OperationType.ADD, OperationType.MUL), both) as compilation:
        compilation.finish()
    assert [scripted[name].count("Device.PrepareModelWithConfig") for name in ("npu", "gpu")] == [1, 1]


@pytest.mark.contract("IC-13")
@pytest.mark.parametrize("count", [None, 2], ids=["none named", "two named"])
def test_timing_timeouts_and_hints_are_for_one_named_device(over: Over, count: int | None) -> None:
    over(npu=answering(lambda _: True), gpu=answering(lambda _: True))
    chosen = named("npu", "gpu") if count else None
    with Compilation(floor_model(), chosen) as compilation:
        refused(ResultCode.BAD_DATA, lambda: compilation.set_timeout(1))
        refused(ResultCode.BAD_DATA, lambda: compilation.add_extension_attribute(HINTS.name, 1, b""))
        compilation.finish()
        with Execution(compilation) as execution:
            refused(ResultCode.BAD_DATA, lambda: execution.set_measure_timing(True))
            refused(ResultCode.BAD_DATA, lambda: execution.set_timeout(1))
            refused(ResultCode.BAD_DATA, lambda: execution.add_extension_attribute(HINTS.name, 1, b""))
            execution.set_input(0, np.zeros(1, np.float32))
            execution.set_output(0, np.zeros(1, np.float32))
            refused(ResultCode.BAD_DATA, lambda: execution.start_compute_with_dependencies(duration_ns=1))
    refused(ResultCode.BAD_DATA, lambda: Compilation(floor_model(), []))


def test_settings_reach_the_device(over: Over, scripted: dict[str, ScriptedDevice]) -> None:
    floors = Floors()
    extensions = device_pb2.GetSupportedExtensionsResponse(extensions=extensions_to_wire([HINTS]))
    over(npu={**floors.script, "Device.GetSupportedExtensions": extensions})
    with Compilation(floor_model(), named("npu")) as compilation:
        compilation.set_preference(ExecutionPreference.LOW_POWER)
        compilation.set_priority(Priority.HIGH)
        compilation.set_timeout(10**13)
        compilation.add_extension_attribute(HINTS.name, 7, b"seven")
        refused(ResultCode.BAD_DATA, lambda: compilation.set_timeout(-1))
        refused(ResultCode.BAD_DATA, lambda: compilation.add_extension_attribute(HINTS.name, 7, b"again"))
        refused(ResultCode.BAD_DATA, lambda: compilation.add_extension_attribute(HINTS.name, 1 << 16, b""))
        refused(ResultCode.BAD_DATA, lambda: compilation.add_extension_attribute("com.acme.others", 7, b""))
        compilation.finish()
        refused(ResultCode.BAD_STATE, lambda: compilation.set_priority(Priority.LOW))
        refused(ResultCode.BAD_STATE, lambda: compilation.add_extension_attribute(HINTS.name, 8, b""))
        with Execution(compilation) as execution:
            execution.add_extension_attribute(HINTS.name, 9, b"nine")
            execution.set_input(0, np.zeros(1, np.float32))
            execution.set_output(0, np.zeros(1, np.float32))
            execution.compute()
    (prepared,) = scripted["npu"].requests("Device.PrepareModelWithConfig")
    config = prepared.config
    assert (config.preference, config.priority) == (ExecutionPreference.LOW_POWER, Priority.HIGH)
    assert config.deadline_ns > 0
    assert [(hint.token, hint.value) for hint in config.compilation_hints] == [(0x10007, b"seven")]
    assert [(entry.name, entry.prefix) for entry in config.extension_name_to_prefix] == [(HINTS.name, 1)]
    (created,) = scripted["npu"].requests("PreparedModel.CreateReusableExecution")
    assert [(hint.token, hint.value) for hint in created.config.execution_hints] == [(0x10009, b"nine")]
    assert [(entry.name, entry.prefix) for entry in created.config.extension_name_to_prefix] == [(HINTS.name, 1)]


@pytest.mark.contract("IC-14")
def test_a_timeout_of_0_means_no_timeout(over: Over, scripted: dict[str, ScriptedDevice]) -> None:
    over(npu={})
    with Compilation(floor_model(), named("npu")) as compilation:
        compilation.set_timeout(0)
        compilation.finish()
    (prepared,) = scripted["npu"].requests("Device.PrepareModelWithConfig")
    assert prepared.config.deadline_ns == -1


@pytest.mark.contract("IC-16")
@pytest.mark.parametrize(("axis", "seen"), [(-1, 2), (0, 3)])
def test_trailing_default_inputs_are_removed_before_devices_see_them(
    over: Over, scripted: dict[str, ScriptedDevice], axis: int, seen: int
) -> None:
    recipe = Recipe()
    inputs = [recipe.input(F32, (2, 2)), recipe.constant(FLOAT32, 1.0), *recipe.integers(axis)]
    model = recipe.build(recipe.operation(OperationType.SOFTMAX, inputs, Operand(F32, (2, 2)))).model
    over(npu={})
    npu = named("npu")
    assert supported_operations(model, npu) == [True]
    with Compilation(model, npu) as compilation:
        compilation.finish()
    for method in ("Device.GetSupportedOperations", "Device.PrepareModelWithConfig"):
        for request in scripted["npu"].requests(method):
            assert [len(operation.inputs) for operation in request.model.main.operations] == [seen]


VENDOR: Script = {
    "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(
        extensions=extensions_to_wire([Extension("com.acme.vendor", ())])
    )
}
"""The script of a device that knows the extension of the model."""


def vendor_model() -> Model:
    operands = (
        Operand(F32, (4,), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
        Operand(F32, (4,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
    )
    graph = Subgraph(operands, (Operation(0x10001, (0,), (1,)),), (0,), (1,))
    return Model(graph, extension_name_to_prefix=(ExtensionNameAndPrefix("com.acme.vendor", 1),))


@pytest.mark.contract("PT-14", "FB-11")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ErrorStatus.GENERAL_FAILURE, ResultCode.OP_FAILED),
        (ErrorStatus.DEVICE_UNAVAILABLE, ResultCode.UNAVAILABLE_DEVICE),
    ],
)
def test_a_vendor_operation_that_cannot_be_prepared_is_an_error(
    over: Over, scripted: dict[str, ScriptedDevice], status: ErrorStatus, code: ResultCode
) -> None:
    over(npu={**VENDOR, "Device.PrepareModelWithConfig": preparing(LAUNCHED, notified(status, message="on demand"))})
    with Compilation(vendor_model()) as compilation:
        refused(code, compilation.finish, "on demand")
        refused(ResultCode.BAD_STATE, lambda: Execution(compilation))
    assert scripted["npu"].count("Device.PrepareModelWithConfig") == 1


@pytest.mark.contract("PT-13")
def test_a_vendor_operation_that_no_device_has_is_bad_data(over: Over) -> None:
    over(npu={**VENDOR, **answering(lambda _: False)})
    with Compilation(vendor_model()) as compilation:
        refused(ResultCode.BAD_DATA, compilation.finish)
