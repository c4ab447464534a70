"""In a container: native runs on each of some devices until the standard input ends.

``steady_runs.py DIRECTORY DEVICE…`` answers each line of its input with one JSON object: what came of the runs so far,
and how many were on each device. Runs go on through whatever happens.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal_client import connect
from nnhal_client.framework import Framework

_DIMENSIONS = (1, 16, 16, 16)
_PAUSE_SECONDS = 0.005
_FLOAT = ("gpu_acc", "cpu_acc", "cpu_ref")
"""The devices that get float32; others get 8-bit values."""


def main(directory: str, *devices: str) -> None:
    told, outcomes, ran_on = threading.Event(), Counter[str](), Counter[str]()
    with connect(Path(directory)) as framework:
        threads = [threading.Thread(target=_run, args=(framework, name, told, outcomes, ran_on)) for name in devices]
        for thread in threads:
            thread.start()
        for _ in sys.stdin:
            print(json.dumps({"outcomes": outcomes, "ran_on": ran_on}), flush=True)
        told.set()
        for thread in threads:
            thread.join()


def _run(
    framework: Framework, device: str, told: threading.Event, outcomes: Counter[str], ran_on: Counter[str]
) -> None:
    given = _given(device in _FLOAT)
    with framework.load_model(_model(device in _FLOAT), pins={"op:RELU": device}) as model:
        while not told.wait(_PAUSE_SECONDS):
            try:
                outputs, report = model.run_with_report({"input0": given})
            except NnhalError as error:
                outcomes[str(error)] += 1
                continue
            outcomes["right" if np.array_equal(outputs["output0"], np.maximum(given, 0)) else "wrong"] += 1
            ran_on.update(step.device for step in report.steps)


def _given(is_float: bool) -> Array:
    values = np.random.default_rng(1).integers(-100, 100, _DIMENSIONS)
    return values.astype(np.float32 if is_float else np.int8)


def _model(is_float: bool) -> Model:
    kind, scale = (OperandType.TENSOR_FLOAT32, 0.0) if is_float else (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5)
    lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    operands = tuple(Operand(kind, _DIMENSIONS, scale=scale, lifetime=lifetime) for lifetime in lifetimes)
    return Model(Subgraph(operands, (Operation(OperationType.RELU, (0,), (1,)),), (0,), (1,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
