from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED
from nnhal.support.parts import part_of
from nnhal.types import ErrorStatus, ExecutionPreference, Operand, OperandType, OperationType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, CompiledWorkload, Control, DriverOptions, Outcome, PrepareOptions
from nnhal_devices.mlip.driver import Mlip
from nnhal_devices.mlip.workload import SimulatedWorkload
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.simulator.errors import SimulatorInputError
from nnhal_mlip.simulator.simulator import Simulator
from tests.support.agreement import single
from tests.support.mlip_hal import EACH_EXAMPLE, SCALE, TYPES, MlipRecipe, is_taken, mlip_examples, random_inputs
from tests.support.models import memory_of, run_on
from tests.support.npu import SAME

CHECKED = Mlip(DriverOptions(extra={"checked": "true"}))
COMPILER = "nnhal_mlip.compilation.compile_files"


def mlip(**options: str) -> Mlip:
    return Mlip(DriverOptions(extra=options))


def assert_near_the_reference(driver: Mlip, model: ResolvedModel, layers: int = 1) -> None:
    """Floats are within 1 % of the largest; each layer of 8-bit values may be off by one step."""
    values, main = random_inputs(model), model.model.main
    given = zip(main.output_indexes, run_on(driver, model, *values), run_on(CpuRef(), model, *values), strict=True)
    for index, got, expected in given:
        exact = expected.astype(np.float64)
        tolerance = layers if main.operands[index].type in (Q8A, Q8AS) else max(np.abs(exact).max(), 1) / 100
        np.testing.assert_allclose(got.astype(np.float64), exact, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "name"), EACH_EXAMPLE)
def test_results_are_near_those_of_the_reference(code: OperandType, name: str) -> None:
    assert_near_the_reference(CHECKED, mlip_examples(code)[name])


class Blocks(MlipRecipe):
    """A network of convolutions with residuals."""

    def convolved(self, image: int, depth: int, channels: int, side: int = 3, activation: int = 0) -> int:
        weights = [self.weights((channels, side, side, depth)), self.bias(channels)]
        inputs = [image, *weights, *self.integers(SAME, 1, 1, activation)]
        return self.operation(OperationType.CONV_2D, inputs, self.like())

    def added(self, one: int, other: int, scale: float = SCALE) -> int:
        return self.operation(OperationType.ADD, [one, other, *self.integers(1)], self.like(scale))

    def averaged(self, image: int) -> int:
        inputs = [image, self.constant(I32, [1, 2]), *self.integers(0)]
        return self.operation(OperationType.MEAN, inputs, self.like())


def residual_network(code: OperandType, side: int = 16) -> ResolvedModel:
    """A network with two outputs: the features, and the classes."""
    recipe = Blocks(code)
    image = recipe.convolved(recipe.tensor((1, side, side, 8)), 8, 16, activation=3)
    features = recipe.added(image, recipe.convolved(recipe.convolved(image, 16, 16, activation=1), 16, 16))
    inputs = [recipe.averaged(features), recipe.weights((5, 16)), recipe.bias(5), *recipe.integers(0)]
    return recipe.finish(features, recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like()))


def separate_parts(code: OperandType) -> ResolvedModel:
    """Parts that share only an input, and one that does nothing."""
    recipe = Blocks(code)
    image, other = recipe.tensor((1, 6, 6, 8)), recipe.tensor((1, 4))
    clamped = recipe.operation(OperationType.RELU, [other], recipe.like())
    order = recipe.constant(I32, [0, 1])
    idle = recipe.operation(OperationType.TRANSPOSE, [other, order], recipe.like())
    return recipe.finish(recipe.convolved(image, 8, 4), clamped, idle, recipe.convolved(image, 8, 2))


@pytest.mark.slow
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("options", [{}, {"wb_pin_ocm": "true"}, {"tiles": "2"}, {"tiles": "1"}])
def test_a_network(code: OperandType, options: dict[str, str]) -> None:
    assert_near_the_reference(mlip(checked="true", **options), residual_network(code), layers=3)


def test_every_operation_of_a_network_compiles_alone_and_with_the_next() -> None:
    model = residual_network(F32)
    count = len(model.model.main.operations)
    for numbers in [*([number] for number in range(count)), *([number, number + 1] for number in range(count - 1))]:
        part = part_of(model, numbers)
        assert is_taken(part)
        assert CHECKED.prepare(part, PrepareOptions()).simulators


@pytest.mark.parametrize("code", TYPES)
def test_parts_without_a_connection_run_one_after_the_other(code: OperandType) -> None:
    assert_near_the_reference(CHECKED, separate_parts(code))


def test_a_sum_with_zeros_in_another_scale_is_a_sum_all_the_same() -> None:
    recipe = MlipRecipe(Q8AS)
    zeros = recipe.constant(Q8AS, np.zeros((1, 4)), SCALE)
    summed = recipe.operation(OperationType.ADD, [recipe.tensor((1, 4)), zeros, *recipe.integers(0)], recipe.like(0.2))
    assert_near_the_reference(CHECKED, recipe.finish(summed))


def test_a_padding_in_front_of_a_convolution_that_pads_as_well() -> None:
    for code in TYPES:
        recipe = Blocks(code)
        paddings = recipe.constant(I32, [[0, 0], [1, 2], [0, 1], [0, 0]])
        padded = recipe.operation(OperationType.PAD, [recipe.tensor((1, 6, 5, 8)), paddings], recipe.like())
        assert_near_the_reference(CHECKED, recipe.finish(recipe.convolved(padded, 8, 4)))


def outcome_of(driver: Mlip, model: ResolvedModel, control: Control | None = None) -> Outcome:
    main = model.model.main
    outputs = [Argument(np.zeros(1 << 20, np.uint8), main.operands[index].dimensions) for index in main.output_indexes]
    inputs = [memory_of(values) for values in random_inputs(model)]
    return driver.prepare(model, PrepareOptions()).bind(inputs, outputs).run(control or Control())


def test_the_time_of_a_run_is_modelled_and_fewer_tiles_take_longer() -> None:
    model = residual_network(F16, side=64)
    times = [outcome_of(mlip(tiles=tiles), model).time_on_device_ns or 0 for tiles in ("1", "2", "4", "8")]
    assert all(fewer >= more for fewer, more in pairwise(times))
    assert times[0] > 2 * times[-1] > 0


def test_a_run_misses_its_deadline_between_stages() -> None:
    with pytest.raises(HalError) as caught:
        outcome_of(CHECKED, residual_network(F16), Control(deadline_ns=1))
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_a_preparation_that_takes_too_long_misses_its_deadline() -> None:
    with pytest.raises(HalError, match="while the network was compiled") as caught:
        mlip().prepare(residual_network(F16), PrepareOptions(deadline_ns=1))
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_an_omitted_input_is_refused_if_an_operation_reads_it() -> None:
    model = mlip_examples(F16)["RELU"]
    output = Argument(np.zeros(1024, np.uint8), (1, 6, 5, 4))
    with pytest.raises(HalError, match="input 0 is omitted, but an operation reads it") as caught:
        CHECKED.prepare(model, PrepareOptions()).bind([Argument(None, (1, 6, 5, 4))], [output])
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_a_binary_at_fault_fails_the_run_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise SimulatorInputError("a constant makes no sense")

    monkeypatch.setattr(Simulator, "run", fail)
    with pytest.raises(HalError, match="cannot be run: a constant makes no sense") as caught:
        outcome_of(CHECKED, mlip_examples(F16)["RELU"])
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE


def long_row(code: OperandType) -> ResolvedModel:
    """A row that no tile can hold: only its channels could be divided."""
    recipe = MlipRecipe(code)
    inputs = [recipe.tensor((1, 1 << 20)), recipe.weights((1, 1 << 20)), recipe.bias(1), *recipe.integers(0)]
    return recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like()))


def unfit(*_: object) -> None:
    raise MisfitOfTilesError(3 << 20, 1 << 20, "a layer", ("int8 in place of fp16",))


def test_a_network_that_does_not_fit_is_refused_with_the_bytes_that_it_wants() -> None:
    with pytest.raises(HalError, match=r"operation 0 .*: takes \d+ bytes .* expected at most 1048576") as caught:
        CHECKED.prepare(long_row(F16), PrepareOptions())
    assert caught.value.status == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


def test_low_power_takes_two_tiles() -> None:
    def tiles(preference: ExecutionPreference, driver: Mlip) -> int:
        workload = driver.prepare(residual_network(F16, side=64), PrepareOptions(preference))
        return max(simulator.program.tiles for simulator in workload.simulators)

    assert tiles(ExecutionPreference.FAST_SINGLE_ANSWER, mlip()) == 8
    assert tiles(ExecutionPreference.LOW_POWER, mlip()) == 2
    assert tiles(ExecutionPreference.LOW_POWER, mlip(tiles="1")) == 1


def results_of(workload: SimulatedWorkload, model: ResolvedModel) -> list[bytes]:
    """Run a prepared model on random inputs, and return its outputs."""
    main = model.model.main
    memories = [np.zeros(1 << 20, np.uint8) for _ in main.output_indexes]
    outputs = [
        Argument(memory, main.operands[index].dimensions)
        for memory, index in zip(memories, main.output_indexes, strict=True)
    ]
    workload.bind([memory_of(values) for values in random_inputs(model)], outputs).run(Control())
    return [memory.tobytes() for memory in memories]


@pytest.mark.parametrize("model", [residual_network(F16), separate_parts(Q8A)], ids=["connected", "separate"])
def test_a_network_from_a_cache_is_not_compiled(model: ResolvedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = CHECKED.prepare(model, PrepareOptions())
    assert isinstance(workload, CompiledWorkload)
    monkeypatch.setattr(COMPILER, unfit)
    again = mlip(checked="true").prepare(model, PrepareOptions(artifact=workload.artifact()))
    assert results_of(again, model) == results_of(workload, model)
    assert again.artifact() == workload.artifact()


def test_a_network_is_compiled_once_to_be_optimised_and_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, model = mlip(), residual_network(F16)
    driver.backend.optimize(model)
    monkeypatch.setattr(COMPILER, unfit)
    assert driver.prepare(model, PrepareOptions()).simulators


def test_what_was_compiled_of_another_network_or_with_other_options_is_not_used() -> None:
    model, other = mlip_examples(F16)["RELU"], mlip_examples(F16)["RELU6"]
    artifact = CHECKED.prepare(other, PrepareOptions()).artifact()
    right = results_of(CHECKED.prepare(model, PrepareOptions()), model)
    assert results_of(CHECKED.prepare(model, PrepareOptions(artifact=artifact)), model) == right
    network = residual_network(F16, side=64)
    workload = mlip(tiles="1").prepare(
        network, PrepareOptions(artifact=mlip().prepare(network, PrepareOptions()).artifact())
    )
    assert [simulator.program.tiles for simulator in workload.simulators] == [1]


def test_a_damaged_binary_is_never_run() -> None:
    model = mlip_examples(F16)["CONV_2D SAME"]
    workload = CHECKED.prepare(model, PrepareOptions())
    whole, right = workload.artifact(), results_of(workload, model)
    for position in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        again = CHECKED.prepare(model, PrepareOptions(artifact=bytes(damaged)))
        assert results_of(again, model) == right
        assert again.artifact() == whole


def test_a_value_that_passes_as_float16_is_half_the_bytes_and_the_same() -> None:
    recipe = MlipRecipe(F32)
    narrow = recipe.input(F16, (1, 8))
    wide = recipe.operation(OperationType.CAST, [narrow], recipe.like())
    clamped = recipe.operation(OperationType.RELU1, [wide], recipe.like())
    model = recipe.finish(clamped, recipe.operation(OperationType.CAST, [clamped], Operand(F16)))
    (values,) = random_inputs(model)
    expected = np.clip(values, -1, 1)
    for got, element in zip(run_on(CHECKED, model, values), (np.float32, np.float16), strict=True):
        assert got.dtype == element
        np.testing.assert_array_equal(got, expected)
    (factory,) = CHECKED.backend.tensor_handles
    assert factory.relaxed_as_float16


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_a_cast_of_bytes_is_refused(code: OperandType) -> None:
    (answer,) = CHECKED.supported_operations(single(OperationType.CAST, code, [(4,)], [], Operand(code, (), 0.5, 0)))
    assert answer != SUPPORTED
