"""The model file that a command is given, read and checked before any process is started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.near_names import did_you_mean
from nnhal.tensors import mismatch
from nnhal.types import OperandLifeTime, OperationType
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_frontends import import_model
from nnhal_frontends.dimensions import dimension_names
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.input_shapes import labels_of, parse_lengths, parse_shapes, shapes_with

_CONSTANT = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)
_MOST_NAMED = 5
"""Nodes that an error lists."""


@dataclass(frozen=True, slots=True)
class GivenModel:
    """The inputs of a model file, and the dimensions that the user has fixed."""

    path: Path
    inputs: tuple[ImportedTensor, ...]
    """With the dimensions that the user has fixed; 0 for those that are open."""
    dimensions: Mapping[str, Dimensions]
    """The dimensions of the inputs that the user has fixed, for ``Framework.load``."""
    names: Mapping[str, Sequence[str]]
    """The names of the dimensions of inputs; empty for those without one."""
    signatures: tuple[str, ...] = ()
    """The entry points that the file names."""
    nodes: tuple[str, ...] = ()
    """The names of the file's nodes."""
    weight_lengths: tuple[int, ...] = ()
    """The lengths that axes of the file's weights have, the shortest first."""

    def open_inputs(self) -> str:
        """Say which inputs have open dimensions, with their names: ``x [batch, 3, ?]``. Empty if none has."""
        return ", ".join(f"{tensor.name} {self._shape_in_words(tensor)}" for tensor in self.inputs if 0 in tensor.shape)

    def require_inputs(self, arrays: Mapping[str, Array]) -> None:
        """Raise ValueError if these are not the inputs, or one has another type or other dimensions."""
        known = {tensor.name: tensor for tensor in self.inputs}
        if arrays.keys() != known.keys():
            raise ValueError(f"got inputs {sorted(arrays)}, expected {sorted(known)}")
        for name, tensor in known.items():
            given, kind = arrays[name], tensor.element_type
            fits = not tensor.shape or combine(tensor.shape, given.shape or (1,)) is not None
            if not kind.hasobject and not (fits and _may_hold(given.dtype, kind)):
                raise ValueError(mismatch(name, given, kind, self._shape_in_words(tensor)))

    def shapes_of(self, arrays: Mapping[str, Array]) -> dict[str, Dimensions]:
        """Return the dimensions of the arrays for inputs that have open ones."""
        return {tensor.name: arrays[tensor.name].shape for tensor in self.inputs if 0 in tensor.shape}

    def random_inputs(self, seed: int, shapes: Mapping[str, Dimensions] = MappingProxyType({})) -> dict[str, Array]:
        """Random arrays for all inputs, as ``random_array`` makes them.

        Open dimensions without ``shapes`` are those that a runtime begins with, or 1.

        Raises ValueError if an input is no tensor of numbers.
        """
        generator = np.random.default_rng(seed)
        chosen = {t.name: shapes.get(t.name) or t.usual_shape or tuple(n or 1 for n in t.shape) for t in self.inputs}
        return {t.name: random_array(replace(t, shape=chosen[t.name]), generator) for t in self.inputs}

    def require_pins(self, pins: Iterable[str]) -> None:
        """Raise ValueError if a pin can match no node: no name of the file, or no operation of the HAL."""
        for pin in pins:
            kind, _, pattern = pin.partition(":")
            if kind == "name" and not any(fnmatchcase(name, pattern) for name in self.nodes):
                shown = get_close_matches(pattern, self.nodes, _MOST_NAMED) or self.nodes[:_MOST_NAMED]
                more = ", …" if len(shown) < len(self.nodes) else ""
                raise ValueError(f"pin {pin!r} matches no node of the model; there are {', '.join(shown)}{more}")
            if kind == "op" and pattern.upper() not in OperationType.__members__:
                meant = did_you_mean(pattern, OperationType.__members__)
                raise ValueError(f"pin {pin!r}: the HAL has no operation {pattern}{meant}")

    def _shape_in_words(self, tensor: ImportedTensor) -> str:
        labels = labels_of(tensor.shape, self.names.get(tensor.name, ()))
        words = [str(length or label or "?") for length, label in zip(tensor.shape, labels, strict=True)]
        return f"[{', '.join(words)}]"


def random_array(tensor: ImportedTensor, generator: np.random.Generator) -> Array:
    """A random array for an input: 8-bit integers of all values, floats from 0 to 1, other integers 0.

    Raises ValueError if it is no tensor of numbers or has open dimensions.
    """
    kind = tensor.element_type
    if kind.hasobject:
        raise ValueError(f"input {tensor.name!r} is {tensor.kind or 'no tensor of numbers'}: give it by --input")
    if 0 in tensor.shape:
        raise ValueError(
            f"input {tensor.name!r} has open dimensions {describe(tensor.shape)}: fix them by --dim or --shape, or "
            "give it by --input"
        )
    if kind.kind in "iu" and kind.itemsize == 1:
        least = -128 if kind.kind == "i" else 0
        return generator.integers(least, least + 256, tensor.shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, tensor.shape).astype(kind)
    if kind.kind in "iu":
        return np.zeros(tensor.shape, kind)
    return np.asarray(generator.random(tensor.shape)).astype(kind)


def read_model(path: Path, lengths: Sequence[str] = (), shapes: Sequence[str] = (), signature: str = "") -> GivenModel:
    """Read a model file, with open dimensions fixed by texts of --dim and --shape, by an entry point if one is named.

    Raises OSError if it cannot be read, ValueError if it is no model that can be imported, or if the texts do not fit.
    """
    given, dims = parse_shapes(shapes), parse_lengths(lengths)
    content = read_given_file(path, MOST_MODEL_BYTES, "a model")
    imported, names = _imported(path, content, {}, signature), dimension_names(content)
    fixed: dict[str, Dimensions] = {}
    if given or dims:
        declared = {tensor.name: tensor.shape for tensor in imported.inputs}
        fixed = shapes_with(given, dims, declared, names)
        imported = _imported(path, content, fixed, signature)
    nodes = tuple(dict.fromkeys(chain(*imported.operation_nodes, imported.folded_nodes)))
    weights = [o.dimensions for o in imported.model.main.operands if o.lifetime in _CONSTANT and len(o.dimensions) > 1]
    weight_lengths = tuple(sorted({length for dimensions in weights for length in dimensions}))
    return GivenModel(path, imported.inputs, fixed, names, imported.signatures, nodes, weight_lengths)


def _may_hold(given: np.dtype[np.generic], expected: np.dtype[np.generic]) -> bool:
    """Return whether the framework may take elements of a type for others: devices have narrower ones for some."""
    return given == expected or (given.kind in "biu" and expected.kind in "biu" and given.itemsize <= expected.itemsize)


def require_writable(files: Collection[Path | None]) -> None:
    """Raise OSError if one of the files that a command is to write cannot be made, for its folder or for itself."""
    for path in files:
        if path is not None:
            path.parent.stat()
            if path.is_dir():
                raise IsADirectoryError(21, "Is a directory", str(path))


def _imported(path: Path, content: bytes, shapes: Mapping[str, Dimensions], signature: str) -> ImportedModel:
    """Import a model, as one operation if that can be, which is quicker and has the same inputs."""
    try:
        try:
            return import_model(content, as_one=True, shapes=shapes, signature=signature or None)
        except FrontendError:
            return import_model(content, shapes=shapes, signature=signature or None)
    except FrontendError as error:
        raise ValueError(f"{path}: {error}") from error
