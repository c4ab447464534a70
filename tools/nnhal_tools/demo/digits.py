"""Classifying held-out handwritten digits through the framework, with times and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from statistics import median
from time import perf_counter_ns

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from nnhal.arrays import Array
from nnhal_client import OperationPlacement
from nnhal_client.framework import Framework
from nnhal_tools.runtimes import EXACT_SUMS

INPUT = "image"
MODELS = {"float32": "digits.onnx", "int8": "digits_int8.onnx"}
HEAD_PINS = {
    "float32": {"name:dense": "cpu_ref", "name:softmax": "cpu_ref"},
    "int8": {"name:dense*": "cpu_ref", "name:softmax": "cpu_ref", "name:probabilities_*": "cpu_ref"},
}
"""Pins of each network's head to the second device, so that values pass between processes."""


def data(name: str) -> Traversable:
    """A file that comes with the demo."""
    return files("nnhal_tools.demo") / "data" / name


@dataclass(frozen=True, slots=True)
class Digits:
    """Held-out images, [n, 1, 8, 8] float32, and their labels."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def held_out() -> Digits:
    """Digits that were used neither in training nor in calibration."""
    with as_file(data("digits_heldout.npz")) as path, np.load(path) as arrays:
        return Digits(arrays["images"], arrays["labels"].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Latency:
    """Parts of the time of the median run, nanoseconds: on devices, copying, and between processes."""

    total_ns: int
    compute_ns: int
    copy_ns: int

    @property
    def control_ns(self) -> int:
        """The time that is neither compute nor copy."""
        return self.total_ns - self.compute_ns - self.copy_ns


@dataclass(frozen=True, slots=True)
class Classification:
    """Results over all digits."""

    predictions: NDArray[np.int64]
    """The digit read from each image."""
    probabilities: NDArray[np.float32]
    """[n, 10], of each digit."""
    placements: tuple[OperationPlacement, ...]
    """Where each operation ran."""
    steps: tuple[str, ...]
    """The device of each step."""
    latency: Latency
    """The latency of the median run."""
    socket_bytes: int
    """Bytes over sockets in one run."""
    copied_bytes: int
    """Bytes of tensors that were copied in all runs."""
    tensor_bytes: int
    """Bytes of tensors in shared memory."""


def classify(
    framework: Framework, kind: str, digits: Digits, pins: dict[str, str], advance: Callable[[], None]
) -> Classification:
    """Run one of MODELS over all digits. Raises HalError."""
    with as_file(data(MODELS[kind])) as path:
        model = framework.load(path, pins=pins)
    binding = model.bind(measure_timing=True)
    (output,) = binding.outputs.values()
    probabilities = np.empty((len(digits.images), output.size), np.float32)
    times: list[tuple[int, int, int]] = []
    socket_bytes = copied_bytes = 0
    for index, image in enumerate(digits.images):
        binding.inputs[INPUT][...] = image
        before = binding.socket_bytes
        started = perf_counter_ns()
        report = binding.run()
        total = perf_counter_ns() - started
        probabilities[index] = output.reshape(-1)
        compute = sum(step.time_on_device_ns for step in report.steps)
        times.append((total, compute, sum(step.copy_duration_ns for step in report.steps)))
        socket_bytes = binding.socket_bytes - before + report.socket_bytes
        copied_bytes += sum(step.copied_bytes for step in report.steps)
        advance()
    latency = Latency(*(int(median(column)) for column in zip(*times, strict=True)))
    tensor_bytes = sum(view.nbytes for view in (*binding.inputs.values(), output)) + model.arena_bytes
    predictions = probabilities.argmax(axis=1)
    model.unload()
    return Classification(
        predictions,
        probabilities,
        model.placements,
        model.steps,
        latency,
        socket_bytes,
        copied_bytes,
        tensor_bytes,
    )


def classify_alone(kind: str, digits: Digits) -> Array:
    """The probabilities from ONNX Runtime in this process, with which the demo compares its own."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(*EXACT_SUMS)
    file = data(MODELS[kind]).read_bytes()
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {INPUT: image[np.newaxis]})[0] for image in digits.images])
