"""The inputs and outputs of a served model, and the check of a request against them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from nnhal.arrays import Array
from nnhal.inference.datatypes import DATATYPES
from nnhal.tensors import Tensor, stored_type
from nnhal.types.layout import Dimensions, combine
from nnhal_frontends.imported import ImportedTensor
from nnhal_service.runtime import PreparedPlan
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData, to_array
from nnhal_service.serving.requests.request import InferenceRequest, Parameter
from nnhal_service.serving.requests.reshape import Reshape

NO_SHAPES: Mapping[str, Reshape] = {}
_NAMES = {kind.dtype: name for name, kind in DATATYPES.items()}
_BATCH_NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)
"""Triton's own words, which users search for."""


@dataclass(frozen=True, slots=True)
class TensorDescription:
    """An input or output, as a model's metadata describes it."""

    name: str
    datatype: str
    """The protocol's name, such as FP32 or BYTES."""
    shape: tuple[int, ...]
    """With the batch axis if the model has one, and -1 for an unknown dimension."""
    optional: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """``scale`` and ``zero_point`` of a quantised tensor."""


@dataclass(frozen=True, slots=True)
class ServedTensor:
    """An input or output."""

    tensor: Tensor
    """How it lies in memory."""
    description: TensorDescription
    """How clients see it."""
    element_type: np.dtype[np.generic]
    """The type of clients' arrays; object for BYTES."""
    reshape: Reshape | None = None
    """How clients see it, if in another shape than the model."""
    is_stated: bool = False
    """True if the configuration states its shape, whatever the model leaves open."""

    @property
    def is_value(self) -> bool:
        """Return whether it holds strings, which lie in memory as one encoded value."""
        return self.tensor.element_type is None

    def fits(self, shape: Dimensions) -> bool:
        stated = self.description.shape
        if shape == stated or self.has_any_rank:
            return True
        if self.tensor.scalar:  # clients that know Triton give a scalar as a vector
            return shape in ((), (1,))
        return len(shape) == len(stated) and all(b in (-1, a) for a, b in zip(shape, stated, strict=True))

    @property
    def has_any_rank(self) -> bool:
        is_unknown = not self.tensor.dimensions or (self.is_value and self.description.shape == (-1,))
        return is_unknown and not self.is_stated


class ModelSignature:
    """The inputs and outputs of a served model, in the model's order."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[ServedTensor],
        outputs: Sequence[ServedTensor],
        max_batch_size: int,
        hidden: Collection[str] = (),
        unlisted: Collection[str] = (),
        optional: Sequence[TensorDescription] = (),
    ) -> None:
        """``max_batch_size`` is 0 for a model without a batch axis. ``hidden`` are inputs that the server fills in,
        ``unlisted`` outputs that only requests that name them get. ``optional`` are inputs with a default: requests
        with one are for another signature.

        Raises INVALID_ARGUMENT if the model should have a batch axis but has none.
        """
        self._name = name
        self._max_batch_size = max_batch_size
        self.hidden = frozenset(hidden)
        self.optional = tuple(optional)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.output_index = {served.tensor.name: index for index, served in enumerate(self.outputs)}
        self.listed_outputs = tuple(name for name in self.output_index if name not in unlisted)
        """The outputs of a request that names none."""
        self._names = frozenset(served.tensor.name for served in self.inputs)
        self._forms = tuple(_form_of(served, max_batch_size > 0) for served in self.inputs)
        if max_batch_size:
            for served in (*self.inputs, *self.outputs):
                shape = served.description.shape
                if not served.has_any_rank and (not shape or shape[0] != -1):
                    raise ServingError(
                        ErrorKind.INVALID_ARGUMENT,
                        f"model {name!r} has max_batch_size {max_batch_size}, but {served.tensor.name!r} has shape "
                        f"{_list(shape)}, expected a variable first axis for the batch",
                    )

    @classmethod
    def of(
        cls,
        name: str,
        prepared: PreparedPlan,
        max_batch_size: int,
        hidden: Collection[str] = (),
        input_shapes: Mapping[str, Reshape] = NO_SHAPES,
        output_shapes: Mapping[str, Reshape] = NO_SHAPES,
        unlisted: Collection[str] = (),
        has_sequences: bool = False,
    ) -> ModelSignature:
        """The signature of a model that is prepared on devices.

        Raises UNSUPPORTED if the protocol has no datatype for a tensor, and INVALID_ARGUMENT if the model should have a
        batch axis but has none.
        """
        imported = prepared.imported
        inputs = [_served(name, prepared, tensor, input_shapes.get(tensor.name)) for tensor in imported.inputs]
        outputs = [_served(name, prepared, tensor, output_shapes.get(tensor.name)) for tensor in imported.outputs]
        if max_batch_size and imported.states:  # it is prepared for the state of one item
            outputs = list(map(_with_batch_axis, outputs))
        optional = [
            TensorDescription(tensor.name, _NAMES[tensor.element_type], shape, optional=True)
            for tensor in optional_inputs(prepared, max_batch_size > 0, has_sequences)
            for stated in [input_shapes.get(tensor.name)]
            for shape in [tuple(axis or -1 for axis in tensor.shape) if stated is None else stated.client]
        ]
        return cls(name, inputs, outputs, max_batch_size, hidden, unlisted, optional)

    @property
    def hidden_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the hidden inputs for one item, by name."""
        shapes = {served.tensor.name: served.description.shape for served in self.inputs}
        return {name: tuple(abs(length) for length in shapes[name]) for name in self.hidden}

    def check(self, request: InferenceRequest) -> tuple[int, list[TensorData]]:
        """The batch size of a request, 1 without a batch axis, and its inputs as they lie in memory.

        Strings are not encoded yet. A PlacedTensor must have the form in which it lies in memory.

        Raises INVALID_ARGUMENT, in Triton's words, if the request does not fit the model.
        """
        given = request.inputs
        if given.keys() != self._names:
            self._refuse_names(given)
        for name in request.outputs:
            if name not in self.output_index:
                _refuse(f"unexpected inference output '{name}' for model '{self._name}'")
        arrays: list[TensorData] = []
        for served, (name, element_type, shape) in zip(self.inputs, self._forms, strict=True):
            tensor = given[name]
            if tensor.shape != shape or tensor.dtype != element_type:
                tensor = self._stored(served, tensor)
            arrays.append(tensor)
        return self._batch_size(arrays) if self._max_batch_size else 1, arrays

    def _stored(self, served: ServedTensor, given: TensorData) -> TensorData:
        name = served.tensor.name
        if given.dtype != served.element_type:
            got = _NAMES.get(given.dtype, str(given.dtype))
            expected = served.description.datatype
            _refuse(f"inference input '{name}' data-type is '{got}', but model '{self._name}' expects '{expected}'")
        if not served.fits(given.shape):
            _refuse(
                f"unexpected shape for input '{name}' for model '{self._name}'. Expected "
                f"{_list(served.description.shape)}, got {_list(given.shape)}."
                + (_BATCH_NOTE if self._max_batch_size else "")
            )
        if served.reshape is not None and not served.tensor.scalar:
            given = served.reshape.for_model(given)
        if served.is_value:
            self._require_text(name, to_array(given))
            return given
        if self._max_batch_size and given.shape[:1] == (0,):
            _refuse(
                f"input '{name}' for model '{self._name}' has shape {_list(given.shape)}, expected no axis of length 0"
                " for the batch"
            )
        if isinstance(given, PlacedTensor):
            return given
        try:
            return served.tensor.array(given)
        except ValueError as error:
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{error} for model '{self._name}'") from error

    def _require_text(self, name: str, given: Array) -> None:
        """Raise INVALID_ARGUMENT unless all elements are UTF-8, as a model's strings are."""
        elements = given.reshape(-1).tolist()
        try:
            b"\0".join(elements).decode()  # no sequence of bytes goes on beyond a zero
        except UnicodeDecodeError:
            for index, element in enumerate(elements):
                try:
                    element.decode()
                except UnicodeDecodeError as error:
                    _refuse(
                        f"element {index} of input '{name}' for model '{self._name}' is not UTF-8 from byte "
                        f"{error.start} on, expected strings"
                    )

    def _batch_size(self, arrays: Sequence[TensorData]) -> int:
        for served, array in zip(self.inputs, arrays, strict=True):
            if not array.shape or len(array) != len(arrays[0]):
                _refuse(f"input '{served.tensor.name}' batch size does not match other inputs for '{self._name}'")
        size = len(arrays[0]) if arrays else 1
        if not 1 <= size <= self._max_batch_size:
            _refuse(f"inference request batch-size must be <= {self._max_batch_size} for '{self._name}', got {size}")
        return size

    def _refuse_names(self, given: Mapping[str, TensorData]) -> NoReturn:
        for name in given:
            if name not in self._names:
                _refuse(f"unexpected inference input '{name}' for model '{self._name}'")
        missing, got = sorted(self._names - given.keys()), sorted(given.keys() - self.hidden)
        expected = len(self._names - self.hidden)
        _refuse(
            f"expected {expected} inputs but got {len(got)} inputs for model '{self._name}'. Got input(s) "
            f"{got}, but missing required input(s) {missing}. Please provide all required input(s)."
        )


def _form_of(served: ServedTensor, has_batches: bool) -> tuple[str, np.dtype[np.generic], Dimensions | None]:
    """The name of an input, its element type, and the shape in which it lies in memory as clients see it; None for the
    shape of one that varies, or lies there otherwise.
    """
    tensor, shape = served.tensor, served.description.shape
    is_fixed = not has_batches and not tensor.is_open and -1 not in shape and shape == tensor.dimensions
    is_alike = not served.is_value and served.reshape is None and tensor.stored == served.element_type
    return tensor.name, served.element_type, shape if is_fixed and is_alike and not tensor.scalar else None


def optional_inputs(prepared: PreparedPlan, has_batches: bool, has_sequences: bool) -> list[ImportedTensor]:
    """The inputs with a default that requests may give: in batches those that have a batch axis, in sequences none."""
    return [
        tensor
        for tensor in prepared.imported.optional_inputs
        if tensor.element_type in _NAMES and not has_sequences and (tensor.shape[:1] == (0,) or not has_batches)
    ]


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)


def _served(model: str, prepared: PreparedPlan, imported: ImportedTensor, reshape: Reshape | None) -> ServedTensor:
    operand = prepared.imported.model.main.operands[imported.operand]
    dimensions = prepared.dimensions[imported.operand]
    is_value = imported.element_type.kind == "O"
    if not is_value:
        dimensions = combine(dimensions, imported.shape) or dimensions
    if imported.element_type not in _NAMES:
        raise ServingError(
            ErrorKind.UNSUPPORTED,
            f"model {model!r} cannot be served: {imported.name!r} has elements of type {imported.element_type}, "
            f"expected one of {', '.join(DATATYPES)}",
        )
    element_type = None if is_value else imported.element_type
    scalar = not is_value and not imported.shape and dimensions == (1,)
    tensor = Tensor(
        imported.name,
        operand.type,
        dimensions,
        prepared.byte_size(imported.operand),
        operand.scale,
        operand.zero_point,
        element_type,
        stored_type(operand.type, element_type),
        scalar,
    )
    shape = () if scalar else _protocol_shape(imported.shape if is_value else dimensions)
    if reshape is not None:
        shape = reshape.client
    quantisation = {"scale": operand.scale, "zero_point": operand.zero_point} if operand.scale else {}
    description = TensorDescription(imported.name, _NAMES[imported.element_type], shape, parameters=quantisation)
    changes = reshape is not None and reshape.client != reshape.model
    return ServedTensor(
        tensor, description, imported.element_type, reshape if changes else None, is_stated=reshape is not None
    )


def _with_batch_axis(served: ServedTensor) -> ServedTensor:
    """An output whose first axis of length 1 is the batch."""
    shape = served.description.shape
    if shape[:1] != (1,):
        return served
    return replace(served, description=replace(served.description, shape=(-1, *shape[1:])))


def _protocol_shape(dimensions: Dimensions) -> Dimensions:
    """A shape of the protocol: -1 for an unknown dimension, and one such axis if the rank is unknown."""
    return tuple(axis or -1 for axis in dimensions) or (-1,)


def _list(shape: Sequence[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
