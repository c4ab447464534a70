"""The profile of ONNX Runtime: how long each node of a session takes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal_devices.cpu_acc.session import OnnxSession, StoppableRuns
from nnhal_devices.driver import Control
from nnhal_devices.figures import OperationTime, OperationTimes
from nnhal_devices.measured import MEASURED_RUNS, NOTHING_ENDED, measured_times

_KERNEL = "_kernel_time"
_NUMBERED = re.compile(r"operation (\d+) \(")
"""How nodes are called that operations of the HAL were lowered to."""


def profiled_times(
    model: ResolvedModel, inputs: Mapping[str, Array], create: Callable[[str], OnnxSession], control: Control
) -> OperationTimes:
    """Run a model in a session that is profiled, and return its nodes with their mean time, in the order of a run.

    ``create`` makes the session, with a prefix for the file of the profile. Raises as ``create``.
    """
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
    if not ended:
        return NOTHING_ENDED
    found: dict[str, list[float]] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
            found.setdefault(event["name"].removesuffix(_KERNEL), []).append(event["dur"] * 1e3)
    first = 1 if ended > 1 else 0  # it fills the caches
    is_one = len(model.model.main.operations) == 1
    # A node in a loop has more than one event a run.
    return measured_times(
        OperationTime(name, _numbers(name, is_one), sum(times[len(times) // ended * first :]) / (ended - first))
        for name, times in found.items()
    )


def _numbers(name: str, is_one: bool) -> tuple[int, ...]:
    """The operations that a node stands for, of a model that has one or several."""
    return (0,) if is_one else tuple(dict.fromkeys(int(number) for number in _NUMBERED.findall(name)))
