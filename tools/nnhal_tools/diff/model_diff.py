"""Compare a model file on a device with a reference: the whole of 'nnhal diff' but its words and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.remote import RemoteDevice
from nnhal.types.layout import Dimensions
from nnhal_frontends import ModelFormat, import_model
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_tools.cases.asked_device import AskedDevice
from nnhal_tools.diff.comparison import compare
from nnhal_tools.diff.device_side import HELPER, DeviceSide
from nnhal_tools.diff.report import DiffReport
from nnhal_tools.diff.side import ComparedSide
from nnhal_tools.diff.subject import Subject
from nnhal_tools.distance.limits import Limits
from nnhal_tools.element_types import number_type_of
from nnhal_tools.given_model import GivenModel, random_array, read_model
from nnhal_tools.up import RenewableDevice, opened_device

_CLIENT = "nnhal-diff"
_ENOUGH_ELEMENTS, _MOST_SAMPLES = 1024, 16
RUNTIMES = {"onnxruntime": ModelFormat.ONNX, "litert": ModelFormat.TFLITE}
"""References that are no devices, and the format of the files that each runs."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Models, devices and limits of a comparison."""

    model: Path
    ref: str
    """A driver, which gets a process of its own, the directory of a running device, 'onnxruntime' or 'litert'."""
    dut: str
    """A driver, or the directory of a running device."""
    samples: Sequence[Mapping[str, Array]] = ()
    """Arrays by the names of inputs; random ones if there are none."""
    random_samples: int | None = None
    """Without it one; of a quantised model as many as have a thousand elements together, 16 at most."""
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    lengths: Sequence[str] = ()
    """The lengths of open dimensions, as --dim has them."""
    shapes: Sequence[str] = ()
    """The shapes of inputs, as --shape has them."""
    signature: str = ""
    """The entry point of a TFLite file."""
    relaxed: bool = False
    """Whether devices may compute float32 with the range and precision of float16."""
    seconds: float | None = None
    """How long each preparation and each execution on the device may take; without it, for ever."""


def diff_model(request: DiffRequest, tell: Callable[[str], None] | None = None) -> DiffReport:
    """Run a model on both sides, layer by layer.

    ``tell`` is told before each run on the device what runs.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file cannot be imported, an input does not fit, a runtime does not run files of its format, or a
            device declines every operation.
        NnhalError: a device cannot be started, or started again after it has died, or a side cannot run the model.
    """
    given = read_model(request.model, request.lengths, request.shapes, request.signature)
    for sample in request.samples:
        given.require_inputs(sample)
    content = read_given_file(request.model, MOST_MODEL_BYTES, "a model")
    subject = Subject(_imported(request, content, _shapes(given, request.samples)))
    arrays = request.samples or [
        random_inputs(subject, request.seed + n) for n in range(request.random_samples or _enough(subject))
    ]
    samples = [stored_sample(subject, sample) for sample in arrays]
    with _sides(request, content, subject, tell) as (ref, dut, helper):
        return compare(subject, ref, dut, samples, request.limits, helper).report(request.model.name)


def _shapes(given: GivenModel, samples: Sequence[Mapping[str, Array]]) -> Mapping[str, Dimensions]:
    """Return the dimensions that the user has fixed, by options or by samples that all have the same."""
    found = dict(given.dimensions)
    for tensor in given.inputs:
        shapes = {sample[tensor.name].shape for sample in samples if tensor.name in sample}
        if 0 in tensor.shape and len(shapes) == 1 and 0 not in (shape := shapes.pop()):
            found[tensor.name] = shape
    return found


def _imported(request: DiffRequest, content: bytes, shapes: Mapping[str, Dimensions]) -> ImportedModel:
    try:
        imported = import_model(content, shapes=shapes, signature=request.signature or None)
    except FrontendError as error:
        raise ValueError(f"{request.model}: {error}") from error
    model = replace(imported.model, relax_computation_float32_to_float16=request.relaxed)
    return replace(imported, model=model)


@contextmanager
def _sides(
    request: DiffRequest, content: bytes, subject: Subject, tell: Callable[[str], None] | None
) -> Iterator[tuple[ComparedSide, DeviceSide, Callable[[], DeviceSide]]]:
    """Open both sides; a helper is opened if a device declines an operation, or somebody asks for it."""
    opened: list[RemoteDevice] = []
    with ExitStack() as stack:

        def helper() -> RemoteDevice:
            if not opened:
                opened.append(stack.enter_context(opened_device(HELPER, _CLIENT)))
            return opened[0]

        def reference() -> DeviceSide:
            remote = helper() if request.ref == HELPER else stack.enter_context(opened_device(request.ref, _CLIENT))
            return DeviceSide(AskedDevice(request.ref, remote), helper, subject)

        if request.ref in RUNTIMES:
            ref: ComparedSide = _runtime(request.ref, request.model, content, subject)
        else:
            ref = reference()
        renewable = stack.enter_context(RenewableDevice(request.dut, _CLIENT))
        device = AskedDevice(request.dut, renewable, request.seconds, tell)
        dut = DeviceSide(device, helper, subject)
        yield ref, dut, lambda: DeviceSide(AskedDevice(HELPER, helper()), helper, subject)


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
