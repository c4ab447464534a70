"""Hosts to scale over: each is a whole nnhal, with a device that computes and one whose runs just last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path

from benchmarks.models import rectifier, write_model
from benchmarks.testbeds import RunningTestbed, running_testbed

TINY, LARGE, SHORT, LONG = "tiny", "large", "short", "long"
MODELS: Mapping[str, tuple[int, ...]] = {TINY: (1, 256), LARGE: (1, 4 << 20), SHORT: (1, 256), LONG: (1, 256)}
"""The models, and the shape of input and output of each: 1 KiB or 16 MiB of float32. SHORT and LONG run on the device
whose runs last.
"""
OPERATIONS = {SHORT: 1, LONG: 4}
"""How many operations they have, and so how many times the device's time they take."""
WORKERS = 2
"""Runs that the devices of a host execute at a time."""
_INSTANCES = 16
"""Instances of each model: more than there are workers, so that all requests wait in one queue, that of the device."""
_BACKENDS = Path(__file__).parent / "backends"
_PACED = "npu"


def written_models(repository: Path) -> Path:
    """Write the models into a repository, and return the repository."""
    for name, shape in MODELS.items():
        device = _PACED if name in OPERATIONS else "cpu_acc"
        placement = f'parameters {{ key: "nnhal.devices" value {{ string_value: "{device}" }} }}\n'
        model = rectifier(4 * prod(shape), OPERATIONS.get(name, 1))
        write_model(repository, name, model, f"instance_group {{ count: {_INSTANCES} }}\n{placement}")
    return repository


def devices_topology(milliseconds: float) -> str:
    """Return the devices of a host's topology. A run of SHORT takes ``milliseconds``."""
    return (
        f'[[device]]\ndriver = "cpu_acc"\nworkers = {WORKERS}\n'
        f'[[device]]\nname = "{_PACED}"\ndriver = "Paced"\nworkers = {WORKERS}\n'
        f'options = {{ milliseconds = "{milliseconds}" }}\n'
    )


def topology(repository: Path, milliseconds: float) -> str:
    """Return a host's topology."""
    return (
        f"{devices_topology(milliseconds)}[framework]\nmodel_repository = [{json.dumps(str(repository))}]\n"
        "http_port = 0\ngrpc_port = 0\nmetrics_port = 0\n"
    )


def environment() -> Mapping[str, str]:
    """Return the variables by which device processes find the device whose runs last."""
    return {"NNHAL_DEVICE_BACKEND_PATHS": str(_BACKENDS)}


@contextmanager
def running_hosts(root: Path, count: int, milliseconds: float) -> Iterator[Sequence[RunningTestbed]]:
    """Run several hosts until the context ends. Raises BenchError if one does not become ready."""
    repository = written_models(root / "models")
    words = topology(repository, milliseconds)
    with ExitStack() as stack, ThreadPoolExecutor(count) as starting:
        contexts = [
            running_testbed(root / f"host{number}", words, ["--no-dashboard"], environment()) for number in range(count)
        ]
        started = [starting.submit(stack.enter_context, context) for context in contexts]
        yield [each.result() for each in started]
