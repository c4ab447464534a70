"""Import users' models as HAL models: a package for each format. Each makes an ImportedModel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from mmap import mmap
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.types.layout import MAX_OPERAND_BYTES, byte_size, describe
from nnhal_frontends.content import ModelContent
from nnhal_frontends.dimensions import with_dimensions
from nnhal_frontends.errors import InvalidModel, UnreadableModel
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.states import StatePair, given_dimensions, is_settled, settled, with_states
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_frontends.weights_pool import Weights

__all__ = [
    "DEFAULT_LIMITS",
    "ImportLimits",
    "ModelFormat",
    "StatePair",
    "UncheckedFile",
    "import_file",
    "import_model",
    "import_usual",
    "import_whole_file",
    "parse_onnx",
]


if TYPE_CHECKING:
    from onnx import ModelProto

    from nnhal_frontends.tflite.parts import TfliteFile


_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What readers raise if a file has what they do not expect."""


class ModelFormat(IntEnum):
    """The formats of model files, with the numbers of framework.proto."""

    ONNX = 1
    TFLITE = 2


def import_file(path: Path) -> ImportedModel:
    """Import a model file; the content tells its format. Open dimensions are those that a runtime begins with.

    Raises FrontendError as ``import_model`` does, and OSError or ValueError if the file cannot be read.
    """
    return import_usual(read_given_file(path, MOST_MODEL_BYTES, "a model"))


def import_usual(content: ModelContent, format: ModelFormat | None = None) -> ImportedModel:  # noqa: A002
    """Import a model in the dimensions that a runtime begins with, if the file has them. Raises FrontendError."""
    imported = import_model(content, format)
    shapes = {tensor.name: tensor.usual_shape for tensor in imported.inputs if tensor.usual_shape}
    return import_model(content, format, shapes=shapes) if shapes else imported


def import_model(
    content: ModelContent | ModelProto | TfliteFile,
    format: ModelFormat | None = None,  # noqa: A002 - the proto's word
    as_one: bool = False,
    limits: ImportLimits = DEFAULT_LIMITS,
    shapes: Mapping[str, Sequence[int]] | None = None,
    states: Sequence[StatePair] = (),
    tensors_only: bool = False,
    signature: str | None = None,
    weights: Weights = MappingProxyType({}),
    apart: Collection[str] | None = None,
) -> ImportedModel:
    """Import a model file. Without ``format``, the format follows from the content, which may be a message of ONNX,
    or a TFLite file that has been read.

    ``shapes`` fixes dimensions of inputs that the file leaves open; one that is 0 stays open. An input that has a
    default in the file is an input of the model only if it has a shape here. ``states`` are inputs and outputs that
    become states, in known dimensions. ``as_one`` makes the model one operation of the extension of its
    format, nnhal.onnx or nnhal.tflite; it has no effect on a TFLite model with variables. ``tensors_only`` has maps of
    probabilities, with which classifiers in ONNX end, become tensors. ``signature`` is the name of an entry point of a
    TFLite file, whose names inputs and outputs then have. ``weights`` is the memory of other files in which an ONNX
    file has values, by the names that it has for them; the model refers to it. With ``apart`` no node of an ONNX model
    is merged with others, for who must see the nodes as they are: those of the operators that it names become
    operations of nnhal.onnx, as do those that the HAL has no single operation for.

    Raises FrontendError: InvalidModel if the file breaks the
    rules of its format, exceeds the limits or contradicts the shapes or states, UnsupportedNode or UnsupportedInput if
    neither HAL nor extension can express the model.
    """
    with _foreseen(content):
        make = partial(_imported, content, format, as_one, limits, tensors_only, signature, weights, apart)
        imported = _with_states(make, shapes or {}, states) if states else make(shapes or {}, {})
        _require_expressible(imported)
        return imported


def import_whole_file(
    content: ModelContent,
    shapes: Mapping[str, Sequence[int]],
    limits: ImportLimits = DEFAULT_LIMITS,
    weights: Weights = MappingProxyType({}),
) -> ImportedModel | None:
    """Import a file in ONNX as one operation of nnhal.onnx without converting its nodes, which takes much less time.

    Inputs, outputs and ``weights`` are as ``import_model`` has them; None if only that can tell what inputs and outputs
    are. Raises FrontendError.
    """
    found = UncheckedFile.read(content, shapes, limits, weights)
    return None if found is None else found.checked()


@dataclass(frozen=True, slots=True)
class UncheckedFile:
    """A file in ONNX as one operation of nnhal.onnx that can be prepared while it is checked."""

    as_declared: ImportedModel | None
    """The model if its outputs are as the file declares them; None if it does not declare their types and ranks."""
    _checked: Callable[[], ImportedModel | None]

    @classmethod
    def read(
        cls, content: ModelContent, shapes: Mapping[str, Sequence[int]], limits: ImportLimits, weights: Weights
    ) -> UncheckedFile | None:
        """Read a file for ``import_whole_file``. None if it is not that simple. Raises FrontendError."""
        # What reads a format is imported with the first model of that format.
        from nnhal_frontends.onnx import default_inputs
        from nnhal_frontends.onnx.file_apart import FileApart, read_apart
        from nnhal_frontends.onnx.whole_file import declared_file

        with _foreseen(content):
            file = (None if weights else read_apart(content)) or FileApart(parse_onnx(content), {}, {})
            optional = default_inputs(file.model)
            if any(tensor.name in shapes for tensor in optional):
                return None
            found = declared_file(file.model, shapes, limits, weights, file.initializers, file.constants)
            if found is None:
                return None

            def completed(imported: ImportedModel | None) -> ImportedModel | None:
                return imported and replace(imported, optional_inputs=optional)

            as_declared = completed(found.as_declared)
            if as_declared is not None:
                _require_expressible(as_declared)
            return cls(as_declared, lambda: completed(found.checked()))

    def checked(self) -> ImportedModel | None:
        """Return it as ``import_whole_file`` does: with the model of ``as_declared``, if that is what it is."""
        with _foreseen(None):
            imported = self._checked()
            if imported is not None:
                _require_expressible(imported)
            return imported


@contextmanager
def _foreseen(content: object) -> Iterator[None]:
    """Raise FrontendError for everything that reading a file may fail with."""
    try:
        yield
    except MemoryError as error:
        size = f" {len(content)} bytes" if isinstance(content, (bytes, mmap)) else " model"
        raise InvalidModel(f"importing the{size} takes more memory than there is") from error
    except RecursionError as error:
        raise InvalidModel("the graphs of the model are nested too deep") from error
    except _UNFORESEEN as error:
        message = "a value of the model is out of its range, or two values contradict each other"
        raise UnreadableModel(message) from error


def _require_expressible(imported: ImportedModel) -> None:
    """Check that the HAL has tensors so large. Raises InvalidModel."""
    names = imported.operand_names
    for index, operand in enumerate(imported.model.main.operands):
        size = byte_size(operand.type, operand.dimensions)
        if size > MAX_OPERAND_BYTES or max(operand.dimensions, default=0) > MAX_OPERAND_BYTES:
            takes = f" takes {size} bytes, expected" if size else " is too long, expected a length of"
            raise InvalidModel(
                f"tensor '{names[index] or index}' of {describe(operand.dimensions)}{takes} at most {MAX_OPERAND_BYTES}"
            )


def _with_states(
    make: Callable[[Mapping[str, Sequence[int]], Mapping[str, Sequence[int]]], ImportedModel],
    shapes: Mapping[str, Sequence[int]],
    states: Sequence[StatePair],
) -> ImportedModel:
    """Import a model for the dimensions of its states, and have these as such."""
    imported = make({**shapes, **given_dimensions(states)}, {})
    if not is_settled(imported, states):
        found = settled(imported, states)
        inputs, outputs = ({name(pair): pair.dimensions for pair in found} for name in (_input_of, _output_of))
        known = {t.name for t in imported.all_inputs}
        imported = make({**shapes, **{n: d for n, d in inputs.items() if n in known}}, outputs)
    return with_states(imported, states)


def _input_of(pair: StatePair) -> str:
    return pair.input


def _output_of(pair: StatePair) -> str:
    return pair.output


def _imported(
    content: ModelContent | ModelProto | TfliteFile,
    format: ModelFormat | None,  # noqa: A002
    as_one: bool,
    limits: ImportLimits,
    tensors_only: bool,
    signature: str | None,
    weights: Weights,
    apart: Collection[str] | None,
    shapes: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
) -> ImportedModel:
    """``outputs`` has dimensions of outputs that an ONNX file leaves open."""
    if format is None and isinstance(content, (bytes, mmap)):
        format = ModelFormat.TFLITE if is_tflite(content) else ModelFormat.ONNX  # noqa: A001
    if format == ModelFormat.TFLITE:
        # What reads a format is imported with the first model of that format.
        from nnhal_frontends.tflite import TfliteFile, import_tflite

        file = cast("ModelContent | TfliteFile", content)
        imported = import_tflite(file, limits, as_one=as_one, signature=signature)
        if not shapes:
            return imported
        fixed = with_dimensions(imported, shapes)
        if as_one or fixed.is_open or not imported.is_open:
            return fixed
        # More operators are the HAL's if all dimensions are known.
        known = TfliteFile.read(file, limits) if isinstance(file, (bytes, mmap)) else file
        given = {tensor.index: tensor.shape for tensor in fixed.inputs if tensor.index is not None}
        return import_tflite(known.with_dimensions(given, signature), limits, signature=signature)
    if signature is not None:
        raise InvalidModel(f"signature '{signature}' of an ONNX model, which has none")
    from nnhal_frontends.onnx import default_inputs, drop_defaults, import_onnx, state_outputs

    model = parse_onnx(content) if isinstance(content, (bytes, mmap)) else cast("ModelProto", content)
    optional = default_inputs(model)
    overridden = {tensor.name for tensor in optional}.intersection(shapes)
    if overridden:
        model = model if isinstance(content, (bytes, mmap)) else type(model).FromString(model.SerializeToString())
        drop_defaults(model, overridden)
    state_outputs(model, outputs)
    imported = import_onnx(
        model, shapes, as_one=as_one, limits=limits, tensors_only=tensors_only, weights=weights, apart=apart
    )
    return replace(imported, optional_inputs=tuple(each for each in optional if each.name not in overridden))


def parse_onnx(content: ModelContent) -> ModelProto:
    """Return the message that an ONNX file holds. Raises InvalidModel."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto  # "import onnx" would name the subpackage here

    from nnhal_frontends.onnx.usual_form import to_usual_form

    if content[:1] == b"\0":  # no message begins so; a sparse file is not read to find that out
        raise InvalidModel(f"{len(content)} bytes that are neither an ONNX nor a TFLite model")
    try:
        return to_usual_form(ModelProto.FromString(content if isinstance(content, bytes) else content[:]))
    except DecodeError as error:
        raise InvalidModel(
            f"{len(content)} bytes that are neither an ONNX nor a TFLite model, or whose graphs are nested too deep"
        ) from error
