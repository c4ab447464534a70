"""Lengths for dimensions that a model's file leaves open: the first ones that the model runs with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import prod

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.tensors import stored_inputs
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_client.model import Model
from nnhal_client.reports import RunReport
from nnhal_frontends.input_shapes import labels_of
from nnhal_tools.given_model import GivenModel

_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 224, 256, 512, 640, 1024)
"""Powers of two, and sides of images that many networks are made for."""
_OTHER_LENGTHS = (3, 5, 6, 7, 12, 48, 96, 320, 384)
_MOST_TRIED = 160
_MOST_ELEMENTS = 1 << 22
"""Of all inputs together."""
_UNFIT = (ErrorStatus.INVALID_ARGUMENT, ErrorStatus.GENERAL_FAILURE)
"""What a run ends with that dimensions are wrong for: some frameworks tell only when they compute."""


class NoShapesError(ValueError):
    """A model runs with none of the dimensions that were tried. ``hint`` says what the user can do."""

    def __init__(self, given: GivenModel, tried: int, first: HalError) -> None:
        super().__init__(
            f"inputs have open dimensions, {given.open_inputs()}, and the model ran with none of {tried} choices of "
            f"them; the first, with 1 for each, failed by {first}"
        )
        opened = next(tensor for tensor in given.inputs if 0 in tensor.shape)
        lengths = "x".join(str(length or "N") for length in opened.shape)
        self.hint = f"give them: --shape {opened.name}:{lengths}, or --dim NAME=N for one that has a name"


def inputs_that_run(model: Model, given: GivenModel, seed: int, load_strict: Callable[[], Model]) -> dict[str, Array]:
    """Return random inputs for a model; those with open dimensions have the first choice that it runs with.

    If it does not run with 1 for each, the others are tried with the model that ``load_strict`` loads, without
    substitutes of devices: those take longer to fail, and may be less strict.
    Raises NoShapesError if it runs with no choice, ValueError if an input cannot be random, HalError if the model fails
    for another reason than its inputs.
    """
    choices = islice(shapes_to_try(given), _MOST_TRIED)
    inputs = given.random_inputs(seed, next(choices))
    if not given.open_inputs():
        return inputs
    first = _failure(model, inputs)
    if first is None:
        return inputs
    tried = 1
    with load_strict() as strict:
        for shapes in choices:
            inputs = given.random_inputs(seed, shapes)
            if _failure(strict, inputs) is None:
                return inputs
            tried += 1
    raise NoShapesError(given, tried, first)


def _failure(model: Model, inputs: Mapping[str, Array]) -> HalError | None:
    """Run a model, and return what it fails by if its inputs may be the reason; None if it does not fail."""
    try:
        inferred(model, inputs, 1)
    except HalError as error:
        if error.status not in _UNFIT:
            raise
        return error
    return None


def inferred(model: Model, arrays: Mapping[str, Array], repeat: int) -> tuple[dict[str, Value], list[RunReport]]:
    """Run a model. Returns the outputs of the first inference and the reports of all. Raises HalError, ValueError."""
    if not model.states:
        outputs, report = model.run_with_report(arrays)
        return outputs, [report, *(model.run_with_report(arrays)[1] for _ in range(repeat - 1))]
    stored = stored_inputs(model.inputs, arrays)
    given = {tensor.name: stored[tensor.name].shape for tensor in model.inputs if tensor.is_open}
    with model.bind(measure_timing=True, dimensions=given) as binding:
        binding.fill(stored)
        report = binding.run()
        outputs = {t.name: t.value(binding.outputs[t.name]) for t in model.outputs}
        return outputs, [report, *(binding.run() for _ in range(repeat - 1))]


def shapes_to_try(given: GivenModel) -> Iterator[dict[str, Dimensions]]:
    """Yield choices for the inputs with open dimensions: those that a runtime begins with, if the file has them, then 1
    for each, then longer ones, the lengths of weights last.

    Dimensions with one name have one length. Each length is given to the dimensions that are no input's first (which
    is often a batch), one alone and then together, and then to each that is one, and to all.
    """
    opened = {tensor.name: tensor.shape for tensor in given.inputs if 0 in tensor.shape}
    usual = {tensor.name: tensor.usual_shape for tensor in given.inputs if tensor.usual_shape}
    if usual:
        yield {name: usual.get(name) or tuple(length or 1 for length in shape) for name, shape in opened.items()}
    axes = {
        name: [
            "" if length else label or f"{name}[{axis}]"
            for axis, (length, label) in enumerate(zip(shape, labels_of(shape, given.names.get(name, ())), strict=True))
        ]
        for name, shape in opened.items()
    }
    every = dict.fromkeys(axis for own in axes.values() for axis in own if axis)
    batches = {own[0] for own in axes.values()}
    inner = [axis for axis in every if axis not in batches]
    several = [*([axis] for axis in inner), inner, *([axis] for axis in every), list(every)]
    sets = [chosen for chosen in dict.fromkeys(map(tuple, several)) if chosen]
    fixed = sum(prod(tensor.shape) for tensor in given.inputs if tensor.name not in opened)
    known = dict.fromkeys((*_LENGTHS[1:], *sorted({*_OTHER_LENGTHS, *given.weight_lengths} - {*_LENGTHS})))
    for length, long in [(1, ()), *((length, chosen) for length in known for chosen in sets)]:
        lengths = {axis: length if axis in long else 1 for axis in every}
        shapes = {
            name: tuple(n or lengths[axis] for n, axis in zip(opened[name], own, strict=True))
            for name, own in axes.items()
        }
        if fixed + sum(map(prod, shapes.values())) <= _MOST_ELEMENTS or length == 1:
            yield shapes


def shape_options(shapes: Mapping[str, Dimensions]) -> str:
    """Return dimensions of inputs as ``--shape`` takes them."""
    return " ".join(f"--shape {name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
