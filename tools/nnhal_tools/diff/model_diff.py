"""Compare a model file on a device with a reference: the whole of 'nnhal diff' but its words and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.remote import RemoteDevice
from nnhal.types.layout import Dimensions
from nnhal_frontends import ModelFormat, import_model
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedTensor
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_tools.cases.asked_device import AskedDevice
from nnhal_tools.diff.comparison import compare
from nnhal_tools.diff.device_side import HELPER, DeviceSide
from nnhal_tools.diff.report import DiffReport
from nnhal_tools.diff.subject import ComparedSide, Subject
from nnhal_tools.distance.limits import NO_LIMITS, Limits
from nnhal_tools.element_types import number_type_of
from nnhal_tools.given_model import GivenModel, random_array, read_model
from nnhal_tools.up import RenewableDevice, opened_device

_CLIENT = "nnhal-diff"
_ENOUGH_ELEMENTS, _MOST_SAMPLES = 1024, 16
RUNTIMES = {"onnxruntime": ModelFormat.ONNX, "litert": ModelFormat.TFLITE}
"""References that are no devices, and the format of the files that each runs."""


def diff_model(
    path: Path,
    ref: str,
    dut: str,
    samples: Sequence[Mapping[str, Array]] = (),
    random_samples: int | None = None,
    seed: int = 0,
    limits: Limits = NO_LIMITS,
    lengths: Sequence[str] = (),
    shapes: Sequence[str] = (),
    signature: str = "",
    relaxed: bool = False,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> DiffReport:
    """Run a model on both sides, layer by layer.

    ``dut`` is a driver, which gets a process of its own, or the directory of a running device; ``ref`` may also be
    'onnxruntime' or 'litert'. ``samples`` are arrays by the names of inputs; without any, ``random_samples`` random
    ones are made: one, or of a quantised model as many as have a thousand elements together, 16 at most. ``lengths``,
    ``shapes`` and ``signature`` are as --dim, --shape and --signature have them. With ``relaxed`` devices may compute
    float32 with the range and precision of float16. ``seconds`` limits each preparation and each execution on the
    device. ``tell`` is called before each run on the device what runs.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file cannot be imported, an input does not fit, a runtime does not run files of its format, or a
            device declines every operation.
        NnhalError: a device cannot be started, or started again after it has died, or a side cannot run the model.
    """
    given = read_model(path, lengths, shapes, signature)
    for sample in samples:
        given.require_inputs(sample)
    content = read_given_file(path, MOST_MODEL_BYTES, "a model")
    try:
        imported = import_model(content, shapes=_shapes(given, samples), signature=signature or None)
    except FrontendError as error:
        raise ValueError(f"{path}: {error}") from error
    model = replace(imported.model, relax_computation_float32_to_float16=relaxed)
    subject = Subject(replace(imported, model=model))
    count = random_samples or _enough(subject)
    arrays = samples or [random_inputs(subject, seed + number) for number in range(count)]
    stored = [stored_sample(subject, sample) for sample in arrays]
    opened: list[RemoteDevice] = []
    with ExitStack() as stack:

        def helper() -> RemoteDevice:
            """Open the helper when a device declines an operation, or a layer is asked of it."""
            if not opened:
                opened.append(stack.enter_context(opened_device(HELPER, _CLIENT)))
            return opened[0]

        if ref in RUNTIMES:
            reference: ComparedSide = _runtime(ref, path, content, subject)
        else:
            remote = helper() if ref == HELPER else stack.enter_context(opened_device(ref, _CLIENT))
            reference = DeviceSide(AskedDevice(ref, remote), helper, subject)
        device = AskedDevice(dut, stack.enter_context(RenewableDevice(dut, _CLIENT)), seconds, tell)
        side = DeviceSide(device, helper, subject)
        compared = compare(
            subject, reference, side, stored, limits, lambda: DeviceSide(AskedDevice(HELPER, helper()), helper, subject)
        )
        return compared.report(path.name)


def _shapes(given: GivenModel, samples: Sequence[Mapping[str, Array]]) -> Mapping[str, Dimensions]:
    """Return the dimensions that the user has fixed, by options or by samples that all have the same."""
    found = dict(given.dimensions)
    for tensor in given.inputs:
        shapes = {sample[tensor.name].shape for sample in samples if tensor.name in sample}
        if 0 in tensor.shape and len(shapes) == 1 and 0 not in (shape := shapes.pop()):
            found[tensor.name] = shape
    return found


def _runtime(name: str, path: Path, content: bytes, subject: Subject) -> ComparedSide:
    found = ModelFormat.TFLITE if is_tflite(content) else ModelFormat.ONNX
    if found != RUNTIMES[name]:
        raise ValueError(f"{path}: got a file of {found.name}, --ref {name} runs files of {RUNTIMES[name].name}")
    if name == "onnxruntime":
        from nnhal_tools.diff.onnxruntime_side import OnnxRuntimeSide

        return OnnxRuntimeSide(content, subject)
    from nnhal_tools.diff.litert_side import LiteRtSide

    return LiteRtSide(content, subject)


def _enough(subject: Subject) -> int:
    """Return how many samples tell a bias from noise; one for a model without quantised values."""
    if not any(subject.operand(value).scale for value in subject.computed):
        return 1
    elements = sum(prod(tensor.shape) for tensor in subject.imported.inputs)
    return min(_MOST_SAMPLES, -(-_ENOUGH_ELEMENTS // max(elements, 1)))


def random_inputs(subject: Subject, seed: int) -> dict[str, Array]:
    """Return random arrays by the names of inputs: 8-bit integers of all values, floats from 0 to 1, other integers 0.

    Raises ValueError if an input is no tensor of numbers or has open dimensions.
    """
    generator = np.random.default_rng(seed)
    return {tensor.name: random_array(tensor, generator) for tensor in subject.imported.inputs}


def stored_sample(subject: Subject, arrays: Mapping[str, Array]) -> dict[int, Array]:
    """Return a sample by operand, as it lies in memory, with the first values of states.

    Raises ValueError if an array does not fit in the type that the HAL has for it.
    """
    tensors = {tensor.name: tensor for tensor in subject.imported.inputs}
    found = {tensors[name].operand: _stored(subject, tensors[name], array) for name, array in arrays.items()}
    return {**found, **{state.before.operand: state.initial for state in subject.imported.states}}


def _stored(subject: Subject, tensor: ImportedTensor, array: Array) -> Array:
    wanted = number_type_of(subject.model, subject.operand(tensor.operand).type)
    if wanted is None:
        raise ValueError(f"input {tensor.name!r} is {tensor.kind or 'no tensor of numbers'}, expected numbers")
    stored = np.atleast_1d(array).astype(wanted)
    if array.dtype.kind in "iu" and not np.array_equal(stored, np.atleast_1d(array)):
        raise ValueError(f"input {tensor.name!r} has values that do not fit {wanted}")
    return stored
