from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nnhal.errors import HalError
from nnhal.types import (
    Capabilities,
    ErrorStatus,
    ExecutionPreference,
    Model,
    Operand,
    OperandPerformance,
    OperandType,
    Operation,
    OperationType,
    PerformanceInfo,
    Subgraph,
)
from nnhal_service.partition import Candidate, Pin, PlacementError
from nnhal_service.partition.assign import best_devices
from nnhal_service.partition.support import CPU, require_pins
from tests.service.planning import device, graph_of
from tests.support.additions import addition_model
from tests.support.subgraphs import I32, branches, counting_loop

F32 = OperandType.TENSOR_FLOAT32
NAMES = [("conv1",), ("bn1", "relu1"), ()]


def info(time: float) -> PerformanceInfo:
    return PerformanceInfo(time, 1.0)


def candidate(
    name: str,
    time: float = 1.0,
    times: dict[OperandType, float] | None = None,
    relaxed: float = 1.0,
    refusals: dict[int, str] | None = None,
) -> Candidate:
    """A device with the figure ``time`` for every type of the first input, except those in ``times``."""
    table = {code: time for code in OperandType if code != OperandType.SUBGRAPH} | (times or {})
    performance = tuple(OperandPerformance(code, info(figure)) for code, figure in sorted(table.items()))
    capabilities = Capabilities(info(relaxed), info(relaxed), performance, info(time), info(time))
    return Candidate(name, capabilities, refusals or {})


def assign(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    pins: Sequence[Pin] = (),
    cpu: str = CPU,
    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
) -> tuple[str, ...]:
    """The device of each operation, after the check of the pins that every plan begins with."""
    require_pins(model, names, candidates, pins)
    return best_devices(model, names, candidates, pins, cpu, preference)


def chain() -> Model:
    """Three additions."""
    return addition_model(operations=3)


def about(code: OperandType) -> Model:
    """One operation whose first input is of a type."""
    return Model(Subgraph((Operand(code), Operand(code)), (Operation(OperationType.CAST, (0,), (1,)),), (0,), (1,)))


@pytest.mark.contract("PT-01")
def test_the_device_of_the_least_cost_takes_everything() -> None:
    assert assign(chain(), NAMES, [candidate("bad", 0.9), candidate("good", 0.5)]) == ("good",) * 3


def test_on_a_tie_the_earlier_device_stays() -> None:
    assert assign(chain(), NAMES, [candidate("first", 0.5), candidate("second", 0.5)]) == ("first",) * 3


@pytest.mark.contract("PT-02")
@pytest.mark.parametrize("order", [1, -1])
def test_the_cpu_wins_a_tie_wherever_it_stands(order: int) -> None:
    candidates = [candidate("worse", 1.1), candidate("same", 1.0), candidate("cpu_ref", 1.0)][::order]
    assert assign(chain(), NAMES, candidates) == ("cpu_ref",) * 3
    assert assign(chain(), NAMES, candidates, cpu="same") == ("same",) * 3


GENERATIONS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 3}
"""The first generation of devices that has each of five operations."""


def generations(ratios: list[float]) -> list[Candidate]:
    """Devices 1.0 to 1.3, each with the operations of its own and earlier generations."""
    return [
        candidate(f"1.{own}", ratio, refusals={n: "newer" for n, first in GENERATIONS.items() if first > own})
        for own, ratio in enumerate(ratios)
    ]


@pytest.mark.contract("PT-04")
def test_the_newest_device_takes_all_if_it_is_the_cheapest() -> None:
    model = graph_of([[0, 1], [0, 1], [0, 1], [2, 3], [2]], inputs=2)
    assert assign(model, [()] * 5, generations([0.9, 0.8, 0.7, 0.6])) == ("1.3",) * 5


@pytest.mark.contract("PT-05")
def test_each_operation_goes_to_the_oldest_device_that_has_it_if_that_is_the_cheapest() -> None:
    model = graph_of([[0, 1], [0, 1], [0, 1], [2, 3], [2]], inputs=2)
    assert assign(model, [()] * 5, generations([0.6, 0.7, 0.8, 0.9])) == ("1.0", "1.0", "1.1", "1.2", "1.3")


@pytest.mark.contract("PT-06")
def test_devices_that_support_nothing_do_no_harm() -> None:
    candidates = [candidate(f"1.{n}", 0.5 + n / 10, refusals={0: "newer"} if n < 3 else None) for n in range(4)]
    assert assign(graph_of([[0]]), [()], candidates) == ("1.3",)


@pytest.mark.contract("PT-12")
def test_a_vendors_operation_goes_to_the_best_of_those_that_have_it_however_cheap_the_others() -> None:
    model = Model(Subgraph((Operand(F32), Operand(F32)), (Operation(0x0007_0001, (0,), (1,)),), (0,), (1,)))
    unknown = {0: "unknown extension"}
    candidates = [
        candidate("bad", 1.5),
        candidate("without", 0.5, refusals=unknown),
        candidate("good", 1.2),
        candidate("cpu_ref", 1.0, refusals=unknown),
    ]
    assert assign(model, [()], candidates) == ("good",)


def test_low_power_compares_what_operations_take_of_that() -> None:
    def figures(name: str, time: float, power: float) -> Candidate:
        made = candidate(name)
        entries = tuple(OperandPerformance(code, PerformanceInfo(time, power)) for code in (F32,))
        return replace(made, capabilities=replace(made.capabilities, operand_performance=entries))

    candidates = [figures("fast", 0.5, 2.0), figures("frugal", 2.0, 0.5)]
    for preference in ExecutionPreference:
        wanted = "frugal" if preference == ExecutionPreference.LOW_POWER else "fast"
        assert assign(chain(), NAMES, candidates, preference=preference) == (wanted,) * 3


@pytest.mark.parametrize(
    ("figure", "chosen"),
    [(0.8, "other"), (0.95, "plain")],
)
def test_if_costs_its_own_figure_and_half_of_both_branches(figure: float, chosen: str) -> None:
    """The branches have one and two operations: 1 + 1.5 on the plain device, figure + 1.6 on the other."""
    plain, other = candidate("plain"), candidate("other", times={I32: 1.6 / 1.5})
    other = replace(other, capabilities=replace(other.capabilities, if_performance=info(figure)))
    assert assign(branches(), [()], [plain, other]) == (chosen,)


@pytest.mark.parametrize(("figure", "chosen"), [(0.5, "other"), (0.9, "plain")])
def test_while_costs_its_own_figure_and_one_round(figure: float, chosen: str) -> None:
    """Condition and body have one operation each: 1 + 2 on the plain device, figure + 2.2 on the other."""
    plain, other = candidate("plain"), candidate("other", times={I32: 1.1})
    other = replace(other, capabilities=replace(other.capabilities, while_performance=info(figure)))
    assert assign(counting_loop(), [()], [plain, other]) == (chosen,)


def test_control_flow_of_known_size_goes_to_the_best_device() -> None:
    assert assign(branches(), [()], [device("npu", ratio=0.5), device("cpu_ref")]) == ("npu",)


@pytest.mark.contract("PT-03", "PT-07")
def test_each_operation_goes_to_the_best_of_those_that_take_it() -> None:
    fast = candidate("fast", 0.5, refusals={1: "no"})
    assert assign(chain(), NAMES, [fast, candidate("slow")]) == ("fast", "slow", "fast")


@pytest.mark.contract("PT-15")
@pytest.mark.parametrize(("relaxed", "chosen"), [(False, "first"), (True, "second")])
@pytest.mark.parametrize("code", [OperandType.FLOAT32, OperandType.TENSOR_FLOAT32])
def test_a_relaxed_model_counts_with_the_relaxed_figures(code: OperandType, relaxed: bool, chosen: str) -> None:
    model = replace(about(code), relax_computation_float32_to_float16=relaxed)
    candidates = [candidate("first", 0.8, relaxed=0.9), candidate("second", 0.9, relaxed=0.8)]
    assert assign(model, NAMES[:1], candidates) == (chosen,)


@pytest.mark.contract("PT-15")
def test_a_relaxed_model_counts_with_the_relaxed_figures_for_32_bit_floats_only() -> None:
    model = replace(about(OperandType.TENSOR_FLOAT16), relax_computation_float32_to_float16=True)
    candidates = [candidate("first", 0.8, relaxed=0.9), candidate("second", 0.9, relaxed=0.8)]
    assert assign(model, NAMES[:1], candidates) == ("first",)


@pytest.mark.contract("PT-16")
@pytest.mark.parametrize("code", [code for code in OperandType if code != OperandType.SUBGRAPH])
@pytest.mark.parametrize(("figure", "chosen"), [(0.25, "special"), (0.75, "base")])
def test_what_counts_is_the_figure_for_the_type_of_the_first_input(
    code: OperandType, figure: float, chosen: str
) -> None:
    candidates = [candidate("base", 0.5), candidate("special", 0.5, times={code: figure})]
    assert assign(about(code), NAMES[:1], candidates) == (chosen,)


@pytest.mark.contract("PT-19")
def test_a_type_without_figure_costs_more_than_any_with_one() -> None:
    silent = candidate("silent")
    silent = replace(silent, capabilities=replace(silent.capabilities, operand_performance=()))
    assert assign(chain(), NAMES, [silent, candidate("slow", 1e30)]) == ("slow",) * 3
    assert assign(chain(), NAMES, [silent]) == ("silent",) * 3


def test_a_pin_overrides_the_cost() -> None:
    candidates = [candidate("fast", 0.5), candidate("slow")]
    assert assign(chain(), NAMES, candidates, [Pin("name:bn*", "slow")]) == ("fast", "slow", "fast")
    assert assign(chain(), NAMES, candidates, [Pin("name:relu1", "slow")]) == ("fast", "slow", "fast")
    assert assign(chain(), NAMES, candidates, [Pin("op:add", "slow")]) == ("slow",) * 3


def test_operations_are_pinned_by_their_numbers() -> None:
    candidates = [candidate("fast", 0.5), candidate("slow")]
    assert assign(chain(), NAMES, candidates, [Pin("index:0", "slow")]) == ("slow", "fast", "fast")
    assert assign(chain(), NAMES, candidates, [Pin("index:1-2", "slow")]) == ("fast", "slow", "slow")


def test_the_last_of_the_pins_that_cover_an_operation_counts() -> None:
    pins = [Pin("op:ADD", "slow"), Pin("name:conv1", "fast")]
    assert assign(chain(), NAMES, [candidate("fast", 0.5), candidate("slow")], pins) == ("fast", "slow", "slow")


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (Pin("name:conv1", "npu"), "pin 'name:conv1': no device 'npu'; there are fast, slow"),
        (Pin("name:CONV1", "slow"), "pin 'name:CONV1' matches no node of the model"),
        (Pin("op:MUL", "slow"), "pin 'op:MUL' matches no node of the model"),
        (Pin("conv1", "slow"), "pin 'conv1': expected name:GLOB, op:TYPE, index:N or index:N-M"),
        (Pin("index:3", "slow"), "pin 'index:3' matches no node of the model"),
        (Pin("index:2-1", "slow"), "pin 'index:2-1' matches no node of the model"),
        (Pin("index:-1", "slow"), "pin 'index:-1': expected name:GLOB, op:TYPE, index:N or index:N-M"),
        (Pin("name:", "slow"), "pin 'name:': expected name:GLOB, op:TYPE, index:N or index:N-M"),
        (Pin("node:conv1", "slow"), "pin 'node:conv1': expected name:GLOB, op:TYPE, index:N or index:N-M"),
    ],
)
def test_a_pin_that_cannot_be_kept_is_an_error(pin: Pin, message: str) -> None:
    with pytest.raises(PlacementError) as error:
        assign(chain(), NAMES, [candidate("fast", 0.5), candidate("slow")], [pin])
    assert str(error.value) == message


def test_an_operation_of_an_extension_is_pinned_by_name_only() -> None:
    model = Model(Subgraph((Operand(F32), Operand(F32)), (Operation(0x0007_0001, (0,), (1,)),), (0,), (1,)))
    candidates = [candidate("fast", 0.5), candidate("slow")]
    assert assign(model, NAMES[:1], candidates, [Pin("name:conv1", "slow")]) == ("slow",)
    with pytest.raises(PlacementError, match="matches no node"):
        assign(model, NAMES[:1], candidates, [Pin("op:ADD", "slow")])


@pytest.mark.contract("PT-13")
def test_an_operation_that_no_device_takes_is_an_error_with_what_every_device_said() -> None:
    candidates = [
        candidate("npu", refusals={1: "DTYPE: got TENSOR_FLOAT32, allowed quant8"}),
        candidate("gpu", refusals={1: "RANK: got 5, allowed 4"}),
    ]
    with pytest.raises(PlacementError) as error:
        assign(chain(), NAMES, candidates)
    assert str(error.value) == (
        "no device takes operation 1 (ADD), node bn1 + relu1: "
        "npu: DTYPE: got TENSOR_FLOAT32, allowed quant8; gpu: RANK: got 5, allowed 4"
    )


@pytest.mark.parametrize("status", [ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, ErrorStatus.DEVICE_UNAVAILABLE])
def test_a_device_that_had_no_room_to_answer_or_is_gone_is_not_told_to_refuse(status: ErrorStatus) -> None:
    full = replace(candidate("npu", refusals=dict.fromkeys(range(3), "no descriptors are left")), unanswered=status)
    with pytest.raises(HalError, match=r"no device takes operation 0 .*npu: no descriptors are left") as error:
        assign(chain(), NAMES, [full, candidate("gpu", refusals={0: "RANK: got 5, allowed 4"})])
    assert error.value.status == status
    assert assign(chain(), NAMES, [full, candidate("gpu")]) == ("gpu", "gpu", "gpu")


def test_a_pin_to_a_device_that_refuses_is_an_error_with_what_that_device_said() -> None:
    candidates = [candidate("npu", refusals={0: "KERNEL: got 7, allowed 3"}), candidate("cpu")]
    with pytest.raises(PlacementError) as error:
        assign(chain(), NAMES, candidates, [Pin("name:conv1", "npu")])
    assert str(error.value) == (
        "no device takes operation 0 (ADD), node conv1: npu: KERNEL: got 7, allowed 3; pin 'name:conv1' asks for npu"
    )


def test_without_devices_nothing_is_placed() -> None:
    with pytest.raises(PlacementError, match="there are no devices"):
        assign(chain(), NAMES, [])
