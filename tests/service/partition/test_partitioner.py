from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from nnhal.types import Model, Operand, OperandType, Operation, OperationType, Subgraph
from nnhal_service.partition import (
    Candidate,
    Fallback,
    Options,
    Partitioning,
    Pin,
    PlacementError,
    StepError,
    Strategy,
    Task,
    may_fall_back,
    partition,
)
from tests.service.exhaustion import all_assignments_ns
from tests.service.planning import (
    chain_of,
    device,
    figures_of,
    free,
    graph_of,
    made_up,
    random_graph,
    repeated_block,
    task_of,
)
from tests.support.subgraphs import B8, I32, Program, branches

NNAPI = Options(strategy=Strategy.NNAPI)


def layout(partitioning: Partitioning) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.device, step.operations) for step in partitioning.plan.steps]


def expensive(source: str | None, destination: str | None, size: int) -> float:
    """Edges between devices cost 100 ns, edges from and to the client nothing."""
    return 100.0 if source and destination else 0.0


CPU = device("cpu_ref", [10] * 6)
"""The six operations take 60 ns on it."""


def test_operations_leave_the_best_device_if_edges_cost_more_than_that_saves() -> None:
    npu = device("npu", [1, 1, None, None, 1, 1], ratio=0.1, refusals={2: "no", 3: "no"})
    by_rule = [("npu", (0, 1)), ("cpu_ref", (2, 3)), ("npu", (4, 5))]
    assert layout(partition(task_of(chain_of(6), free), [npu, CPU], NNAPI)) == by_rule
    assert layout(partition(task_of(chain_of(6), free), [npu, CPU], Options())) == by_rule
    assert layout(partition(task_of(chain_of(6), expensive), [npu, CPU], Options())) == [("cpu_ref", tuple(range(6)))]


def test_launches_count_for_each_step_and_not_for_each_operation() -> None:
    task = task_of(chain_of(6), free)
    whole = device("npu", [1] * 6, hop_ns=20, sync_ns=20)
    assert layout(partition(task, [whole, CPU], Options())) == [("npu", tuple(range(6)))]
    half = device("npu", [1, 1, 1, 10, 10, 10], hop_ns=20, sync_ns=20)
    assert layout(partition(task, [half, CPU], Options())) == [("cpu_ref", tuple(range(6)))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_it_is_never_worse_than_nnapis_rule_or_a_single_device(seed: int) -> None:
    random = Random(seed)
    task, candidates = made_up(random, random_graph(random, 40), devices=3)
    report = partition(task, candidates, Options(cpu="d0")).report
    assert report is not None
    assert report.nnapi_ns is not None
    assert report.cost.total_ns <= min(report.nnapi_ns, *report.whole_model_ns.values())
    assert report.lower_bound_ns <= report.cost.total_ns


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_twelve_operations_on_three_devices_are_placed_as_exhaustion_places_them(seed: int) -> None:
    """All 531,441 assignments, each in its best order of steps."""
    random = Random(seed)
    task, candidates = made_up(random, random_graph(random, 12), devices=3)
    report = partition(task, candidates, Options(cpu="d0")).report
    assert report is not None
    best = float(all_assignments_ns(figures_of(task, candidates)).min())
    assert report.cost.total_ns == pytest.approx(best)
    assert report.lower_bound_ns == pytest.approx(best)


def test_its_steps_have_what_nothing_else_gives_them() -> None:
    task, candidates = made_up(Random(2), random_graph(Random(2), 30), devices=3)
    partitioning = partition(task, candidates, Options(cpu="d0"))
    given = set(task.model.main.input_indexes)
    for step in partitioning.plan.steps:
        assert given.issuperset(step.inputs)
        given.update(step.outputs)
    assert given.issuperset(task.model.main.output_indexes)


@pytest.mark.parametrize("strategy", [Strategy.LEAST_TIME, Strategy.NNAPI])
@pytest.mark.parametrize("pin", [Pin("name:op3", "cpu_ref"), Pin("op:CONCATENATION", "cpu_ref")])
def test_pins_are_kept_at_any_price(strategy: Strategy, pin: Pin) -> None:
    task = task_of(chain_of(6), expensive)
    npu = device("npu", [1] * 6, ratio=0.1)
    partitioning = partition(task, [npu, CPU], Options(strategy, pins=(pin,)))
    placed = {number: name for name, numbers in layout(partitioning) for number in numbers}
    pinned = [3] if pin.match.startswith("name") else range(6)
    assert {placed[number] for number in pinned} == {"cpu_ref"}


def test_a_pin_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(PlacementError, match="matches no node"):
        partition(task_of(chain_of(6), free), [CPU], Options(pins=(Pin("name:op9", "cpu_ref"),)))


def test_small_partitions_are_merged_but_pins_win() -> None:
    task = task_of(chain_of(6), free)
    npu = device("npu", [1, 1, None, 1, None, None], ratio=0.1, refusals=dict.fromkeys((2, 4, 5), "no"))
    assert layout(partition(task, [npu, CPU], Options())) == [
        ("npu", (0, 1)),
        ("cpu_ref", (2,)),
        ("npu", (3,)),
        ("cpu_ref", (4, 5)),
    ]
    merged = [("npu", (0, 1)), ("cpu_ref", (2, 3, 4, 5))]
    for strategy in (Strategy.LEAST_TIME, Strategy.NNAPI):
        options = Options(strategy, min_nodes_per_partition=2)
        assert layout(partition(task, [npu, CPU], options)) == merged
        pinned = replace(options, pins=(Pin("name:op3", "npu"),))
        assert ("npu", (3,)) in layout(partition(task, [npu, CPU], pinned))


@pytest.mark.parametrize("fallback", Fallback)
def test_the_plan_carries_what_to_do_when_a_device_fails(fallback: Fallback) -> None:
    assert partition(task_of(chain_of(6), free), [CPU], Options(fallback=fallback)).plan.fallback == fallback


def test_a_device_without_figures_gets_nothing_if_they_count_and_is_named() -> None:
    task, silent = task_of(chain_of(6), free), device("silent", ratio=0.1)
    assert layout(partition(task, [silent, CPU], Options())) == [("cpu_ref", tuple(range(6)))]
    by_rule = partition(task, [silent, CPU], NNAPI)
    assert layout(by_rule) == [("silent", tuple(range(6)))]
    assert by_rule.report is None
    with pytest.raises(PlacementError, match="silent: supported, but it gives no modelled time"):
        partition(task, [silent], Options())


def test_what_cannot_be_passed_stays_together() -> None:
    def closed(source: str | None, destination: str | None, size: int) -> float:
        return inf if source and destination and source != destination else 0.0

    npu = device("npu", [1] * 5 + [None])
    assert layout(partition(task_of(chain_of(6), closed), [npu, CPU], Options())) == [("cpu_ref", tuple(range(6)))]
    last = device("last", [None] * 5 + [1])
    with pytest.raises(PlacementError, match="no plan has a finite modelled time"):
        partition(task_of(chain_of(6), closed), [npu, last], Options())


def in_pieces() -> tuple[Task, list[Candidate]]:
    """A model of which the npu would get a step without outputs."""
    model = graph_of([[0], [0]])
    model = Model(Subgraph(model.main.operands, model.main.operations, (0,), (2,)))
    return task_of(model, free), [
        device("npu", [1, 1], ratio=0.1, refusals={1: "no"}),
        device("cpu_ref", [10, 10]),
    ]


@pytest.mark.contract("PT-08")
def test_without_partitioning_all_is_on_the_cpu() -> None:
    task, candidates = in_pieces()
    assert layout(partition(task, candidates, Options(Strategy.CPU_ONLY))) == [("cpu_ref", (0, 1))]


@pytest.mark.contract("PT-09", "PT-18")
@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.WARN])
def test_where_a_step_cannot_be_made_the_whole_model_goes_to_the_cpu(fallback: Fallback) -> None:
    task, candidates = in_pieces()
    (step,) = partition(task, candidates, replace(NNAPI, fallback=fallback)).plan.steps
    assert (step.device, step.model) == ("cpu_ref", task.model)


@pytest.mark.contract("PT-17")
def test_a_step_of_constants_only_sends_the_whole_model_to_the_cpu() -> None:
    task = task_of(graph_of([[], [0, 1]]), free)
    candidates = [device("npu", [1, 1], ratio=0.1, refusals={1: "no"}), device("cpu_ref", [10, 10])]
    (step,) = partition(task, candidates, NNAPI).plan.steps
    assert (step.device, step.model) == ("cpu_ref", task.model)


@pytest.mark.contract("PT-10")
def test_where_a_step_cannot_be_made_and_fallback_is_denied_there_is_no_plan() -> None:
    task, candidates = in_pieces()
    with pytest.raises(StepError, match="has no outputs"):
        partition(task, candidates, replace(NNAPI, fallback=Fallback.DENY))
    with pytest.raises(StepError, match="has no outputs"):
        partition(task, candidates, replace(NNAPI, pins=(Pin("name:op0", "npu"),)))


def test_the_plan_of_least_time_avoids_steps_that_cannot_be_made() -> None:
    partitioning = partition(*in_pieces(), Options())
    assert layout(partitioning) == [("cpu_ref", (0, 1))]
    assert partitioning.report is not None
    assert partitioning.report.nnapi_ns is None


def test_an_extensions_operations_do_not_fall_back() -> None:
    code = OperandType.TENSOR_FLOAT32
    extended = Model(Subgraph((Operand(code), Operand(code)), (Operation(0x0007_0001, (0,), (1,)),), (0,), (1,)))
    assert not may_fall_back(extended, Options())
    assert may_fall_back(chain_of(1), Options())
    assert not may_fall_back(replace(chain_of(1), referenced=(extended.main,)), Options())


@pytest.mark.contract("PT-23")
@pytest.mark.parametrize("strategy", [Strategy.LEAST_TIME, Strategy.NNAPI])
@pytest.mark.parametrize("place", ["then", "otherwise", "inner", "result"])
def test_an_if_with_anything_of_unknown_size_is_for_the_cpu(strategy: Strategy, place: str) -> None:
    candidates = [device("npu", [1], ratio=0.1), device("cpu_ref", [10])]
    known, unknown = branches(), branches(**{place: (0,)})
    assert layout(partition(task_of(known, free), candidates, Options(strategy))) == [("npu", (0,))]
    assert layout(partition(task_of(unknown, free), candidates, Options(strategy))) == [("cpu_ref", (0,))]
    with pytest.raises(PlacementError, match="of unknown size is for cpu_ref only"):
        partition(task_of(unknown, free), candidates, Options(strategy, pins=(Pin("op:IF", "npu"),)))


def test_the_report_adds_up_and_says_what_else_there_was() -> None:
    npu = device("npu", [1000, 1000, None, None, 1000, 1000], hop_ns=2000, ratio=0.1, refusals={2: "no", 3: "no"})
    report = partition(task_of(chain_of(6), lambda *_: 500.0), [npu, device("cpu_ref", [9000] * 6)], Options()).report
    assert report is not None
    assert report.is_optimal
    assert report.cost.total_ns == 4000 + 18_000 + 4000 + 4 * 500
    assert report.whole_model_ns == {"cpu_ref": 55_000.0}
    assert report.nnapi_ns == report.cost.total_ns
    assert report.lines() == [
        "28.0 us modelled, by NNAPI's rule",
        "step 0 on npu: 2 operations, 2.0 us compute, 2.0 us launch",
        "step 1 on cpu_ref: 2 operations, 18.0 us compute, 0.0 us launch",
        "step 2 on npu: 2 operations, 2.0 us compute, 2.0 us launch",
        "operand 0, client -> step 0: 4 bytes, 0.5 us",
        "operand 2, step 0 -> step 1: 12 bytes, 0.5 us",
        "operand 4, step 1 -> step 2: 20 bytes, 0.5 us",
        "operand 6, step 2 -> client: 8 bytes, 0.5 us",
        "all on cpu_ref would be 55.0 us",
        "NNAPI's rule would be 28.0 us",
    ]


def test_the_report_says_how_far_from_the_best_it_may_be_if_it_does_not_know() -> None:
    task, candidates = made_up(Random(1), repeated_block(20), devices=3)
    report = partition(task, candidates, Options(cpu="d0")).report
    assert report is not None
    assert not report.is_optimal
    assert report.lines()[-1] == f"no plan is below {report.lower_bound_ns / 1000:.1f} us"


def test_the_report_says_what_a_device_would_take_for_all_whatever_is_pinned() -> None:
    npu = device("npu", [1] * 6)
    report = partition(task_of(chain_of(6), free), [npu, CPU], Options(pins=(Pin("name:op0", "cpu_ref"),))).report
    assert report is not None
    assert report.whole_model_ns == {"npu": 6.0, "cpu_ref": 60.0}
    assert report.cost.total_ns == 15.0


def adder(**figures: float) -> Candidate:
    """A device that takes everything in the branches of IF, and no IF."""
    return replace(device("npu", [None], refusals={0: "no"}, **figures), referenced=({}, {}))


def whole_cpu() -> Candidate:
    return replace(device("cpu_ref", [10]), referenced=({}, {}))


@pytest.mark.contract("PT-20")
def test_by_nnapis_rule_control_flow_of_the_cpus_is_walked() -> None:
    candidates = [adder(ratio=0.5), whole_cpu()]
    walked = partition(task_of(branches(), free), candidates, NNAPI)
    assert walked.plan.walk is not None
    assert walked.plan.walk.layout() == ["IF", "npu", "GOTO", "npu"]
    assert layout(walked) == [("npu", (0,)), ("npu", (0, 1))]
    assert [walked.plan.subgraph_of(step) for step in walked.plan.steps] == [1, 2]
    assert walked.report is None
    for options in (Options(), Options(Strategy.CPU_ONLY), replace(NNAPI, pins=(Pin("op:IF", "cpu_ref"),))):
        whole = partition(task_of(branches(), free), candidates, options)
        assert whole.plan.walk is None
        assert layout(whole) == [("cpu_ref", (0,))]


@pytest.mark.contract("PT-17")
def test_a_branch_without_inputs_has_the_whole_model_go_to_the_cpu() -> None:
    program = Program()
    main, constant, double = (program.graph() for _ in range(3))
    constant.input()
    constant.returns(constant.add(constant.constant([1]), constant.constant([2])))
    x = double.input()
    double.returns(double.add(x, x))
    inputs = [main.input(code=B8), main.reference(constant), main.reference(double), main.input()]
    main.returns(main.operation(OperationType.IF, inputs, Operand(I32, (1,))))
    task, candidates = task_of(program.model(), free), [adder(ratio=0.5), whole_cpu()]
    assert layout(partition(task, candidates, NNAPI)) == [("cpu_ref", (0,))]
    with pytest.raises(StepError, match="has no inputs"):
        partition(task, candidates, replace(NNAPI, fallback=Fallback.DENY))
