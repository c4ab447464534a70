"""Plans by other pins and over other devices, as a planner makes them of what it knows of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus
from nnhal.v1 import backend_pb2
from nnhal_devices.driver import PrepareOptions, Workload
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import Options, Pin, PlacementError, Strategy
from nnhal_service.runtime import Fleet, PreparedPlan, SketchedPlan, prepare
from tests.service.three_steps import ADD, MUL, TANH, add_mul_tanh
from tests.support.picky import CPU, Picky, imported
from tests.support.scripted import Call, ScriptedDevice


class Counted(Picky):
    """A driver that counts what it prepares, and refuses to if told so."""

    prepares = 0
    may_prepare = True

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        self.prepares += 1
        if not self.may_prepare:
            raise HalError(ErrorStatus.GENERAL_FAILURE, "out of something")
        return super().prepare(model, options)


class Site:
    """``add`` takes ADD and MUL, ``tanh`` takes TANH, the CPU takes all three, and ``late`` does too once it is up."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.add, self.tanh = Counted("add", (ADD, MUL)), Counted("tanh", (TANH,))
        self.cpu, self.late = Counted(CPU, ratio=1.0), Counted("late", ratio=2.0)
        self.devices = {device.name: device for device in (self.add, self.tanh, self.cpu, self.late)}
        self._endpoints = {name: Endpoint(directory / name) for name in self.devices}
        self._processes: dict[str, ExitStack] = {}
        self.stack = stack
        for name in ("add", "tanh", CPU):
            self.start(name)
        self.fleet = Fleet(self._endpoints)
        stack.callback(self.fleet.close)

    def start(self, name: str) -> None:
        process = self._processes[name] = self.stack.enter_context(ExitStack())
        process.enter_context(host(self.devices[name], self._endpoints[name], DeviceSettings()))

    def kill(self, name: str) -> None:
        """End all of a device's sessions."""
        self._processes[name].close()

    def load(self, *pins: Pin) -> PreparedPlan:
        plan = prepare(imported(add_mul_tanh()), self.fleet, (), Options(Strategy.NNAPI, pins))
        self.stack.callback(plan.release)
        return plan

    def prepares(self) -> dict[str, int]:
        return {name: device.prepares for name, device in self.devices.items()}


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(short_path, stack)


def steps(plan: SketchedPlan) -> list[str]:
    return [step.device for step in plan.plan.steps]


def untouched(request: backend_pb2.OptimizeSubgraphRequest, _: Call) -> backend_pb2.OptimizeSubgraphResponse:
    return backend_pb2.OptimizeSubgraphResponse(untouched=range(len(request.model.main.operations)))


def test_other_pins_make_another_plan_for_which_no_device_prepares_anything(site: Site) -> None:
    plan = site.load()
    prepared = site.prepares()
    sketch = plan.planner.choose([Pin("index:1", CPU)]).sketch()
    assert steps(plan) == ["add", "tanh"]
    assert steps(sketch) == ["add", CPU, "tanh"]
    assert sketch.choice.pins == (Pin("index:1", CPU),)
    assert sketch.layout.total_bytes > 0
    assert steps(plan.planner.choose([]).sketch()) == ["add", "tanh"]
    assert site.prepares() == prepared


def test_a_choice_replaces_the_pins_and_can_be_prepared(site: Site) -> None:
    plan = site.load(Pin("op:TANH", CPU))
    assert steps(plan) == ["add", CPU]
    chosen = plan.planner.choose([Pin("op:ADD", CPU)]).prepare()
    site.stack.callback(chosen.release)
    assert steps(chosen) == [CPU, "add", "tanh"]
    assert steps(plan.planner.choose([], ["tanh", CPU]).sketch()) == [CPU, "tanh"]
    assert set(steps(plan.planner.choose([], strategy=Strategy.CPU_ONLY).sketch())) == {CPU}


def test_what_was_looked_at_is_not_planned_again_to_be_prepared(site: Site) -> None:
    plan, pins = site.load(), [Pin("op:ADD", CPU)]
    sketch = plan.planner.choose(pins).sketch()
    assert plan.planner.choose(pins).sketch() is sketch
    chosen = plan.planner.choose(pins).prepare()
    site.stack.callback(chosen.release)
    assert chosen.refined is sketch.refined
    assert plan.planner.choose(pins, ["add", CPU]).sketch() is not sketch
    site.kill("tanh")
    assert "tanh" in steps(sketch)
    assert "tanh" not in steps(plan.planner.choose(pins).sketch())


def test_a_pin_that_a_device_refuses_names_the_operation_and_the_reason(site: Site) -> None:
    with pytest.raises(PlacementError) as refused:
        site.load().planner.choose([Pin("index:2", "add")]).sketch()
    assert str(refused.value) == (
        "no device takes operation 2 (TANH): add: OP: got this one, allowed others; pin 'index:2' asks for add"
    )


def test_nothing_can_be_pinned_to_a_device_that_is_gone(site: Site) -> None:
    plan = site.load()
    site.kill("tanh")
    with pytest.raises(PlacementError) as gone:
        plan.planner.choose([Pin("op:TANH", "tanh")])
    expected = f"pin 'op:TANH': device 'tanh' does not answer, expected one of add, {CPU}"
    assert str(gone.value) == expected
    assert steps(plan.planner.choose([]).sketch()) == ["add", CPU]
    assert plan.gone == {"tanh"}
    site.start("tanh")
    assert steps(plan.planner.choose([Pin("op:TANH", "tanh")]).sketch()) == ["add", "tanh"]


def test_nothing_can_be_pinned_to_a_device_that_drains(site: Site) -> None:
    plan = site.load()
    site.fleet.withdraw("tanh")
    with pytest.raises(PlacementError, match="device 'tanh' drains, expected one of"):
        plan.planner.choose([Pin("op:TANH", "tanh")])
    assert steps(plan.planner.choose([]).sketch()) == ["add", CPU]


def test_a_device_that_was_not_there_is_asked_when_it_is(site: Site) -> None:
    plan = site.load()
    with pytest.raises(PlacementError, match="device 'late' does not answer"):
        plan.planner.choose([Pin("index:0", "late")])
    site.start("late")
    assert steps(plan.planner.choose([Pin("index:0", "late")]).sketch()) == ["late", "add", "tanh"]


def test_a_device_that_could_not_prepare_its_part_is_left_out_unless_a_pin_asks_for_it(site: Site) -> None:
    site.tanh.may_prepare = False
    plan = site.load()
    assert steps(plan) == ["add", CPU]
    sketch = plan.planner.choose([]).sketch()
    assert steps(sketch) == ["add", CPU]
    (refusal,) = explanation_to_wire(sketch).operations[2].refusals[1:]
    assert (refusal.device, refusal.reason) == ("tanh", "it cannot prepare its part: GENERAL_FAILURE: out of something")
    assert steps(plan.planner.choose([Pin("op:TANH", "tanh")]).sketch()) == ["add", "tanh"]


def test_a_device_is_asked_once_about_a_model_and_about_each_of_its_steps(short_path: Path, cpu_ref: Endpoint) -> None:
    operations = [backend_pb2.OperationSupport(supported=True)] * 3
    script = {
        "Backend.AssessModel": backend_pb2.AssessModelResponse(operations=operations, operation_ns=[1.0] * 3),
        "Backend.OptimizeSubgraph": untouched,
    }
    with ExitStack() as stack:
        npu = stack.enter_context(ScriptedDevice(Endpoint(short_path / "npu"), script))
        fleet = Fleet({"npu": npu.endpoint, CPU: cpu_ref})
        stack.callback(fleet.close)
        plan = prepare(imported(add_mul_tanh()), fleet, (), Options())
        stack.callback(plan.release)
        for _ in range(3):
            for pins in ([], [Pin("index:1", CPU)]):
                explanation_to_wire(plan.planner.choose(pins).sketch())
        asked = [name for name, request in npu.calls if hasattr(request, "model")]
    assert asked.count("Backend.AssessModel") == 1
    assert asked.count("Backend.OptimizeSubgraph") == 3  # of the whole model, of ADD and of TANH
