"""A framework over foreign devices and cpu_ref, and models whose steps lie on the foreign ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal_client import Framework, connect
from nnhal_client import Model as LoadedModel
from nnhal_hosting.supervision import Child
from tests.support.foreign.process import ForeignDevice, foreign_device
from tests.support.models import Recipe
from tests.support.processes import WARM

ELEMENTS = 4
WIRED = ("first", "last")
UNWIRED = "unwired"
"""The device that cannot be wired, so that plans with it are chained by fences."""
_F32 = OperandType.TENSOR_FLOAT32


@dataclass(frozen=True)
class ForeignSystem:
    """The foreign devices by name, and the framework's process."""

    devices: Mapping[str, ForeignDevice]
    framework: Child
    directory: Path
    """Of the framework."""

    def behave(self) -> None:
        """Have no device do anything wrong."""
        for device in self.devices.values():
            device.behave()

    def connect(self) -> Framework:
        return connect(self.directory)


@contextmanager
def foreign_system(
    reference: Endpoint,
    names: Sequence[str] = (*WIRED, UNWIRED),
    numbers: bool = True,
    settings: Sequence[str] = (),
) -> Iterator[ForeignSystem]:
    """Run foreign devices and a framework, which falls back to the cpu_ref at ``reference``.

    ``numbers`` says whether the devices' answers carry the numbers of their calls; ``settings`` are further options of
    the framework.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        devices = {name: stack.enter_context(foreign_device(directory, name, numbers)) for name in names}
        if UNWIRED in devices:
            devices[UNWIRED].change("Describe", canBeWired=False)
        places = {**{name: directory / name for name in names}, "cpu_ref": reference.directory}
        options = [word for name, place in places.items() for word in ("--device", f"{name}={place}")]
        framework = directory / "framework"
        child = Child("nnhal_service", ["--endpoint", str(framework), *options, *settings], zygote=WARM)
        stack.callback(child.stop)
        child.wait_until_ready()
        yield ForeignSystem(devices, child, framework)


def doublings(count: int) -> Model:
    """Return additions, of which each doubles what the one before has written."""
    recipe = Recipe()
    value, (none,) = recipe.input(_F32, (ELEMENTS,)), recipe.integers(0)
    for _ in range(count):
        value = recipe.operation(OperationType.ADD, [value, value, none], Operand(_F32, (ELEMENTS,)))
    return recipe.build(value).model


def doubling_on(framework: Framework, *names: str) -> LoadedModel:
    """Load additions, of which each is a step on a device."""
    pins = {f"name:operation{number}": name for number, name in enumerate(names)}
    model = framework.load_model(doublings(len(names)), pins=pins, fallback="allow")
    assert tuple(model.steps) == names
    return model
