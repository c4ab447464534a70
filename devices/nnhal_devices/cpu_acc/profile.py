"""The profile of ONNX Runtime: how long each node of a session takes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.messages import FUNCTION
from nnhal_devices.cpu_acc.session import OnnxSession, StoppableRuns
from nnhal_devices.driver import Control
from nnhal_devices.figures import OperationTimes, TimedOperation
from nnhal_devices.measured import MEASURED_RUNS, measured_times

_KERNEL = "_kernel_time"
_ADDED = re.compile(r"(_nchwc|_token_\d+)+$")
"""What ONNX Runtime adds to the names of nodes that it runs in blocks of channels, or makes of quantised ones."""
_NUMBERED = re.compile(r"operation (\d+) \(")
"""How nodes are called that operations of the HAL were lowered to."""


def profiled_times(
    graph: LoweredGraph, inputs: Mapping[str, Array], create: Callable[[str], OnnxSession], control: Control
) -> OperationTimes:
    """Run a graph in a session that is profiled, and return its nodes with their median time, in the order of a run.

    ``create`` makes the session, with a prefix for the file of the profile. Raises as ``create``.
    """
    nodes = _named_nodes(graph)
    with tempfile.TemporaryDirectory(prefix="nnhal-profile-") as directory:
        session = create(str(Path(directory) / "profile"))
        runs, ended = StoppableRuns(), 0
        try:
            while ended < MEASURED_RUNS:
                runs(control, lambda options: session.runtime.run(None, dict(inputs), options))
                ended += 1
        except HalError:  # the deadline, or zeros are no inputs for this model
            pass
        events = json.loads(Path(session.runtime.end_profiling()).read_text())
    found: dict[str, list[float]] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
            name = _ADDED.sub("", event["name"].removesuffix(_KERNEL))
            found.setdefault(name, []).append(event["dur"] * 1e3)
    times = (_timed(name, nodes, _typical(durations, ended)) for name, durations in found.items())
    return measured_times(times, ended)


def _typical(durations: Sequence[float], ended: int) -> float:
    """The median over the runs that ended, of which the first fills caches. A node may have several events in each."""
    each = len(durations) // ended
    runs = [sum(durations[number * each : (number + 1) * each]) for number in range(ended)]
    return median(runs[1:] or runs)


def _named_nodes(graph: LoweredGraph) -> dict[str, tuple[str, int]]:
    """The nodes of messages, each with its operation, by name and by results, as ONNX Runtime calls some.

    A node without a name, or whose name another one has, is named by its first result.
    """
    messages = [] if graph.message is None else [(0, graph.message.node)]
    messages += [(int(function.name.removeprefix(FUNCTION)), function.node) for function in graph.functions]
    found: dict[str, tuple[str, int]] = {}
    for number, nodes in messages:
        for node in nodes:
            if not node.name or node.name in found:
                node.name = next(filter(None, node.output), "")
            for name in (node.name, *filter(None, node.output)):
                found.setdefault(name, (node.name, number))
    return found


def _timed(name: str, nodes: Mapping[str, tuple[str, int]], duration: float) -> TimedOperation:
    """The time of a node of the session. It stands for no operation if ONNX Runtime has added it."""
    if name in nodes:
        own, number = nodes[name]
        return TimedOperation(own, (number,), duration)
    return TimedOperation(name, tuple(dict.fromkeys(map(int, _NUMBERED.findall(name)))), duration)
