"""Models that are loaded by their outlines, on devices that count what they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import ErrorStatus, NumberOfCacheFiles
from nnhal.types.layout import Dimensions
from nnhal_devices.driver import PrepareOptions, Workload
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from nnhal_frontends import DEFAULT_LIMITS
from nnhal_frontends.imported import ImportedModel
from nnhal_service.fallback import PassedValue
from nnhal_service.native.convert import model_to_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.partition import Options, Pin, Strategy
from nnhal_service.runtime import CacheDirectory, Fleet, LoadedModel, LoadTarget, OutlinedLoad, SketchedPlan
from tests.service.three_steps import ADD, EXPECTED, MUL, TANH, X, add_mul_tanh
from tests.support.picky import CPU, Bound, Picky, always, imported

NAMES = ("add", "mul", "tanh")
NNAPI = Options(Strategy.NNAPI)


class Caching(Picky):
    """A driver whose models can be cached. It counts how often it is asked about a model, and prepares one."""

    number_of_cache_files = NumberOfCacheFiles(1, 1)
    asked = prepares = 0

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        self.asked += 1
        return super().supported_operations(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        self.prepares += 1
        return super().prepare(model, options)


class Site:
    """A device for each operation of ``add_mul_tanh``, and the CPU, over one cache."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        takes = dict(zip(NAMES, (ADD, MUL, TANH), strict=True))
        self.devices = {name: Caching(name, (code,)) for name, code in takes.items()}
        self.devices[CPU] = Caching(CPU, ratio=1.0)
        self.cache = directory / "cache"
        self.imports = 0
        self._stack = stack
        self._endpoints = {name: Endpoint(directory / name) for name in self.devices}
        for name, device in self.devices.items():
            stack.enter_context(host(device, self._endpoints[name], DeviceSettings()))
        self.connect(*self.devices)

    def connect(self, *names: str) -> None:
        """Plan over these devices from now on."""
        self.fleet = Fleet({name: self._endpoints[name] for name in names})
        self._stack.callback(self.fleet.close)

    def load(self, options: Options = NNAPI) -> LoadedModel:
        """Load the model as a framework does that keeps compilations."""
        target = LoadTarget(self.fleet, (), options, CacheDirectory(self.cache, bytes(32)))
        loaded = OutlinedLoad(target, self._read, DEFAULT_LIMITS, {}).load()
        self._stack.callback(loaded.close)
        return loaded

    def _read(self, *, shapes: Mapping[str, Dimensions], as_one: bool = False) -> ImportedModel:
        self.imports += 1
        model = imported(add_mul_tanh())
        return replace(model, operand_names=tuple(f"v{number}" for number in range(len(model.operand_names))))

    @property
    def asked(self) -> int:
        """Return how often devices were asked about a model."""
        return sum(device.asked for device in self.devices.values())


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(short_path, stack)


def run(loaded: LoadedModel) -> tuple[list[list[float]], object]:
    """The outputs of a run, and its ledger."""
    bound = Bound(loaded.prepared, [X], [2], measure_timing=False)
    report = bound.run()
    outputs = bound.outputs()
    bound.close()
    return outputs, report.ledger


def steps(loaded: LoadedModel) -> list[str]:
    return [step.device for step in loaded.prepared.plan.steps]


def test_a_plan_of_several_steps_is_loaded_again_without_a_question(site: Site) -> None:
    first = site.load()
    asked = site.asked
    second = site.load()
    assert (site.imports, site.asked) == (1, asked + 3)  # each device checks the model that it restores
    assert steps(first) == steps(second) == list(NAMES)
    assert run(first) == run(second)
    assert run(second)[0] == [EXPECTED]


def test_what_is_told_of_a_plan_is_the_same_after_it_was_kept(site: Site) -> None:
    first, second = site.load().prepared, site.load().prepared
    assert second.modelled_ns == first.modelled_ns
    assert second.layout.total_bytes == first.layout.total_bytes
    assert [passed(second, value) for value in second.values.values()] == [
        passed(first, value) for value in first.values.values()
    ]
    assert second.choice == first.choice
    assert [edge.value for edge in explanation_to_wire(second).edges] == [
        edge.value for edge in explanation_to_wire(first).edges
    ]
    assert site.imports == 1
    assert model_to_wire("m", second.in_operations()) == model_to_wire("m", first)
    assert explanation_to_wire(second.in_operations()) == explanation_to_wire(first.in_operations())
    assert site.imports == 2


def passed(plan: SketchedPlan, value: PassedValue) -> tuple[object, ...]:
    """A value by its name: outlines number operands otherwise."""
    return plan.survey.value_names[value.operand], replace(value, operand=0)


def test_a_damaged_file_of_the_cache_has_the_model_compiled_again(site: Site) -> None:
    site.load()
    files = sorted(site.cache.iterdir())
    assert len(files) == 2 * len(NAMES) + 1
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        assert run(site.load())[0] == [EXPECTED]
        assert file.read_bytes() == content
        imports = site.imports
        assert run(site.load())[0] == [EXPECTED]
        assert site.imports == imports


def test_other_options_have_a_plan_of_their_own(site: Site) -> None:
    others = [
        Options(Strategy.NNAPI, cpu="add"),
        Options(Strategy.CPU_ONLY),
        Options(Strategy.NNAPI, relaxed=True),
        Options(Strategy.NNAPI, min_nodes_per_partition=2),
        Options(Strategy.NNAPI, (Pin("op:MUL", CPU),)),
    ]
    for count, options in enumerate((NNAPI, *others), 1):
        site.load(options)
        assert site.imports == count


def test_other_devices_have_a_plan_of_their_own(site: Site) -> None:
    site.load()
    site.connect("add", "tanh", CPU)
    assert steps(site.load()) == ["add", CPU, "tanh"]
    assert site.imports == 2


def test_a_plan_without_a_device_that_could_not_prepare_its_part_is_not_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: ResolvedModel, options: PrepareOptions) -> Workload:
        raise HalError(ErrorStatus.GENERAL_FAILURE, "out of something")

    with monkeypatch.context() as patch:
        patch.setattr(site.devices["mul"], "prepare", refuse)
        assert "mul" not in steps(site.load())
    assert steps(site.load()) == list(NAMES)


def test_a_step_that_fails_goes_to_the_fallback_device_with_its_operations(site: Site) -> None:
    site.load()
    loaded = site.load()
    site.devices["mul"].fails = always()
    assert run(loaded)[0] == [EXPECTED]
    assert site.devices[CPU].runs > 0
    assert site.imports == 2


def test_a_plan_that_would_be_another_by_now_says_so_of_its_steps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.load()
    loaded = site.load()
    monkeypatch.setattr(site.devices["mul"], "_takes", ())
    monkeypatch.setattr(site.devices["tanh"], "_takes", (MUL, TANH))
    told = loaded.prepared.in_operations()
    assert [step.device for step in told.plan.steps] == list(NAMES)
    assert [placement.device for placement in model_to_wire("m", told).placements] == list(NAMES)
    assert [operation.device for operation in explanation_to_wire(told).operations] == list(NAMES)
    assert run(loaded)[0] == [EXPECTED]


def test_pins_by_other_devices_are_planned_with_the_operations(site: Site) -> None:
    site.load()
    planner = site.load().prepared.planner
    assert [step.device for step in planner.choose([], [CPU]).sketch().plan.steps] == [CPU]
    assert site.imports == 2
