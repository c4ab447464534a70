from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus, OperandType
from nnhal_cascade.compiler import CompilerOptions, compile_graph
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.machine.errors import StreamError
from nnhal_cascade.machine.part_program import PartProgram
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_devices.backend import MemoryKind, tensor_handles_of
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.driver import Argument, CompiledWorkload, Control, DriverOptions, PrepareOptions
from nnhal_devices.ethos_u.driver import CascadedWorkload, EthosU
from tests.support.agreement import inputs_of
from tests.support.ethos_u import EACH_EXAMPLE, examples, needs_networks, network, padded_convolution
from tests.support.models import memory_of, run_on
from tests.support.npu import TYPES, VALID, convolution

CHECKED = EthosU(DriverOptions(extra={"checked": "true"}))


def fail(reason: str) -> Array:
    raise StreamError(reason)


def assert_equal_to_the_reference(driver: EthosU, model: ResolvedModel) -> None:
    values = inputs_of(model)
    for got, expected in zip(run_on(driver, model, *values), run_on(CpuRef(), model, *values), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), EACH_EXAMPLE)
def test_results_are_those_of_the_reference(name: str, code: OperandType) -> None:
    assert_equal_to_the_reference(CHECKED, examples(code)[name])


@pytest.mark.parametrize("stride", [4, 300, 2**31 - 1])
def test_any_stride_is_right_along_an_axis_with_one_window(stride: int) -> None:
    model = convolution(Q8A, (3, 3, 3, 2), [VALID, stride, stride, 0], image=(1, 3, 3, 2))
    assert_equal_to_the_reference(EthosU(DriverOptions()), model)


def test_a_padding_that_becomes_the_convolutions_own() -> None:
    model = padded_convolution([[0, 0], [0, 1], [1, 1], [0, 0]])
    assert_equal_to_the_reference(CHECKED, model)
    (substitution,) = CHECKED.backend.optimize(model).substitutions
    assert substitution.operations == (0, 1)


@needs_networks
@pytest.mark.parametrize(
    ("name", "sram", "place"),
    [
        ("two_conv_rfc", "9504", "resident"),
        ("two_conv_rfc", "5184", "streamed"),
        ("ds_cnn_kws", "9000", "resident"),
        ("mobilenet_v1_0.25_96", "30000", "resident"),
        ("mobilenet_v1_0.25_96", "14592", "streamed"),
    ],
)
def test_networks_in_little_memory(name: str, sram: str, place: str) -> None:
    driver = EthosU(DriverOptions(extra={"checked": "true", "sram": sram, "input": place}))
    model = network(name)
    (substitution,) = driver.backend.optimize(model).substitutions
    assert substitution.working_bytes <= int(sram)
    assert_equal_to_the_reference(driver, model)


@needs_networks
def test_a_network_that_does_not_fit_is_refused_with_the_least_size() -> None:
    driver = EthosU(DriverOptions(extra={"sram": "4KiB"}))
    with pytest.raises(HalError) as caught:
        driver.prepare(network("ds_cnn_kws"), PrepareOptions())
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT
    assert re.search(r"4,096 bytes of working memory: the least found is [\d,]+ bytes", caught.value.message)


def test_an_omitted_input_is_refused() -> None:
    workload = CHECKED.prepare(examples(Q8A)["ADD"], PrepareOptions())
    output = Argument(np.zeros(256, np.uint8), (1, 4, 4, 3))
    with pytest.raises(HalError, match="input 0 is omitted, but an operation reads it") as caught:
        workload.bind([Argument(None, (1, 4, 4, 3)), output], [output])
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_a_stream_at_fault_fails_the_run_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    model = examples(Q8A)["CONV_2D SAME"]
    workload = CHECKED.prepare(model, PrepareOptions())
    monkeypatch.setattr(PartProgram, "run", lambda *_: fail("a stripe needs more than it is given"))
    (values,) = inputs_of(model)
    bound = workload.bind([memory_of(values)], [Argument(np.zeros(256, np.uint8), (1, 3, 5, 3))])
    with pytest.raises(HalError, match=r"cannot be run: command .* a stripe needs more than it is given") as caught:
        bound.run(Control())
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE


def test_a_preparation_that_takes_too_long_misses_its_deadline() -> None:
    with pytest.raises(HalError, match="while the network was compiled") as caught:
        CHECKED.prepare(examples(Q8A)["CONV_2D SAME"], PrepareOptions(deadline_ns=1))
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_a_network_is_compiled_once_to_be_optimised_and_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[CascaderGraph] = []

    def counted(graph: CascaderGraph, system: System, options: CompilerOptions) -> Schedule:
        compiled.append(graph)
        return compile_graph(graph, system, options)

    monkeypatch.setattr("nnhal_devices.ethos_u.driver.compile_graph", counted)
    driver, model = EthosU(DriverOptions()), examples(Q8A)["CONV_2D SAME"]
    driver.backend.optimize(model)
    driver.prepare(model, PrepareOptions())
    assert len(compiled) == 1


def uncompilable(*_: object) -> Schedule:
    raise AssertionError("a network was compiled")


def outcome_of(workload: CascadedWorkload, model: ResolvedModel) -> tuple[bytes, int | None]:
    output = np.zeros(256, np.uint8)
    bound = workload.bind([memory_of(values) for values in inputs_of(model)], [Argument(output, (1, 3, 5, 3))])
    return output.tobytes(), bound.run(Control()).time_on_device_ns


def test_what_a_cache_has_kept_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = examples(Q8A)["CONV_2D SAME"]
    workload = CHECKED.prepare(model, PrepareOptions())
    assert isinstance(workload, CompiledWorkload)
    expected, times = outcome_of(workload, model), workload.operation_times(Control())
    with monkeypatch.context() as without:
        without.setattr("nnhal_devices.ethos_u.driver.compile_graph", uncompilable)
        driver = EthosU(DriverOptions(extra={"checked": "true"}))
        again = driver.prepare(model, PrepareOptions(artifact=workload.artifact()))
        assert outcome_of(again, model) == expected
        assert again.artifact() == workload.artifact()
        assert again.working_bytes == workload.working_bytes
    assert again.operation_times(Control()) == times
    assert again.figures() == workload.figures()


def test_what_was_compiled_of_another_network_or_for_other_memory_is_not_used() -> None:
    model, other = examples(Q8A)["CONV_2D SAME"], examples(Q8A)["CONV_2D VALID"]
    right = outcome_of(CHECKED.prepare(model, PrepareOptions()), model)
    extras: Sequence[dict[str, str]] = ({"accelerator": "u55-32"}, {"input": "streamed"})
    others = ((EthosU(DriverOptions(extra=extra)), model) for extra in extras)
    for driver, compiled in ((CHECKED, other), *others):
        artifact = driver.prepare(compiled, PrepareOptions()).artifact()
        assert outcome_of(CHECKED.prepare(model, PrepareOptions(artifact=artifact)), model) == right


def test_a_damaged_entry_is_compiled_again() -> None:
    model = examples(Q8A)["CONV_2D SAME"]
    workload = CHECKED.prepare(model, PrepareOptions())
    whole, right = workload.artifact(), outcome_of(workload, model)
    for position in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        again = CHECKED.prepare(model, PrepareOptions(artifact=bytes(damaged)))
        assert outcome_of(again, model) == right
        assert again.artifact() == whole


def test_the_time_of_a_run_is_that_of_its_cycles() -> None:
    model = examples(Q8A)["CONV_2D SAME"]
    (values,) = inputs_of(model)
    times = []
    for accelerator in ("u55-32", "u55-256"):
        driver = EthosU(DriverOptions(extra={"accelerator": accelerator}))
        output = Argument(np.zeros(256, np.uint8), (1, 3, 5, 3))
        outcome = driver.prepare(model, PrepareOptions()).bind([memory_of(values)], [output]).run(Control())
        times.append(outcome.time_on_device_ns or 0)
    assert times[0] > times[1] > 0


def test_speed_is_told_for_8_bit_types_only() -> None:
    entries = {entry.type: entry.info for entry in CHECKED.capabilities.operand_performance}
    assert set(entries) == {*TYPES, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL}
    assert entries[Q8A].exec_time == pytest.approx(REFERENCE.default_macs_per_ns / 64)


def test_memory_is_used_in_place_at_multiples_of_16() -> None:
    (factory,) = tensor_handles_of(CHECKED.name, CHECKED.backend, CHECKED.memory)
    assert factory.imports == {MemoryKind.ASHMEM, MemoryKind.HARDWARE_BUFFER_BLOB}
    assert factory.alignment == 16


@pytest.mark.parametrize("driver", [EthosU, CpuRef])
def test_an_option_that_nobody_knows(driver: type[EthosU | CpuRef]) -> None:
    with pytest.raises(ValueError, match="has no option 'colour', expected"):
        driver(DriverOptions(extra={"colour": "red"}))
