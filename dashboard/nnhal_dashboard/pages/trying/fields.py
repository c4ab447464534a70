"""Fields of the form of a model: as it was typed, so that the form can be shown again as it was."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from starlette.datastructures import FormData, UploadFile

from nnhal.tensors import Tensor
from nnhal.types.layout import Dimensions
from nnhal_dashboard.pages.trying.elements import SCALINGS, integer_range, usual_scaling
from nnhal_dashboard.pages.trying.pictures import PixelFrame, frame_of

KEPT_BYTES = 4 << 20
"""Files up to this size are in the next form as well, so that nobody must choose them again."""
WAYS: Mapping[str, str] = MappingProxyType(
    {
        "picture": "A picture",
        "drawing": "A drawing",
        "json": "JSON",
        "npy": "A file of NumPy (.npy)",
        "random": "Random numbers",
        "zeros": "Zeros",
    }
)
"""How an input may be given, by the name in forms."""
_PICTURE_EXTENT = 224
"""The usual extent of pictures, if a model takes any."""


@dataclass(frozen=True, slots=True)
class ChosenFile:
    """A file of a browser."""

    name: str
    content: bytes

    @property
    def kept(self) -> str:
        """Its content for a form, in base64; empty if it is too long for that."""
        return base64.b64encode(self.content).decode() if len(self.content) <= KEPT_BYTES else ""


@dataclass(frozen=True, slots=True)
class InputFields:
    tensor: Tensor
    number: int
    typed: Mapping[str, str] = field(default_factory=dict)
    """Texts by field; what was not typed has its usual value."""
    files: Mapping[str, ChosenFile] = field(default_factory=dict)
    """By field: ``picture`` and ``npy``."""

    def __getitem__(self, name: str) -> str:
        return self.typed[name] if name in self.typed else self._usual(name)

    @property
    def ways(self) -> list[str]:
        """Return how it may be given."""
        if self.tensor.element_type is None:
            return ["json"]
        numbers = ["json", "npy", "random", "zeros"]
        if self.tensor.element_type.kind == "c":
            return ["npy", "zeros"]
        return ["picture", "drawing", *numbers] if self.frame is not None else numbers

    @property
    def frame(self) -> PixelFrame | None:
        """Return how a picture lies in it, if it can be one."""
        kind = None if self.tensor.element_type is None else self.tensor.element_type.kind
        try:
            return frame_of(self.dimensions) if kind not in (None, "b", "c") else None
        except ValueError:
            return None

    @property
    def asks_dimensions(self) -> bool:
        """Return whether its dimensions must be typed."""
        return self.tensor.is_open and self.tensor.element_type is not None

    @property
    def dimensions(self) -> Dimensions:
        """Its dimensions. Raises ValueError if what was typed does not fit."""
        known = () if self.tensor.scalar else self.tensor.dimensions
        if not self.asks_dimensions:
            return known
        text = self["dimensions"]
        try:
            typed = tuple(int(part) for part in text.replace("x", ",").split(",") if part.strip())
        except ValueError:
            raise ValueError(f"dimensions are {text!r}, expected whole numbers such as {_written(known)}") from None
        fits = len(typed) == len(known) and all(want in (0, got) for got, want in zip(typed, known, strict=True))
        if any(extent < 1 for extent in typed) or (known and not fits):
            wanted = ", ".join(str(extent) if extent else "any" for extent in known)
            raise ValueError(f"dimensions are {text!r}, expected [{wanted}], each at least 1")
        return typed

    @property
    def scalings(self) -> Mapping[str, str]:
        """Return what colours may become."""
        return SCALINGS

    def _usual(self, name: str) -> str:
        element_type = self.tensor.element_type
        span = None if element_type is None else integer_range(element_type)
        match name:
            case "way":
                frame = self.frame
                if frame is None or "picture" not in self.ways:
                    return "random" if "random" in self.ways else self.ways[0]
                return "drawing" if frame.suits_drawing else "picture"
            case "dimensions":
                return _written(_usual_dimensions(self.tensor.dimensions))
            case "scaling":
                return usual_scaling(self.tensor)
            case "crop":
                return "crop"
            case "centre":
                frame = self.frame
                return "centre" if frame is not None and frame.suits_drawing else ""
            case "seed":
                return "1"
            case "low":
                return str(span[0]) if span is not None and self.tensor.scale > 0 else "0"
            case "high":
                is_quantised = span is not None and self.tensor.scale > 0
                return str(span[1]) if span is not None and is_quantised else "1" if span is None else "9"
            case _:
                return ""


_FIELDS = ("way", "dimensions", "scaling", "crop", "ink", "centre", "drawing", "json", "seed", "low", "high")


def fields_of(tensors: Sequence[Tensor], form: FormData | None) -> list[InputFields]:
    """Return the fields of all inputs: as they were sent, or as they are at first."""
    if form is None:
        return [InputFields(tensor, number) for number, tensor in enumerate(tensors)]
    return [_sent(tensor, number, form) for number, tensor in enumerate(tensors)]


def _sent(tensor: Tensor, number: int, form: FormData) -> InputFields:
    typed = {name: _text(form, f"{name}.{number}") for name in _FIELDS if f"{name}.{number}" in form}
    for switch in ("crop", "centre", "ink"):  # a box without a tick is not sent
        typed.setdefault(switch, "")
    if not typed.get("way"):
        typed.pop("way", None)
    files = {name: file for name in ("picture", "npy") if (file := _file(form, f"{name}.{number}")) is not None}
    return InputFields(tensor, number, typed, files)


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _file(form: FormData, name: str) -> ChosenFile | None:
    given = form.get(name)
    if isinstance(given, UploadFile) and given.filename:
        return ChosenFile(given.filename, given.file.read())
    kept, kept_name = _text(form, f"{name}.kept"), _text(form, f"{name}.name")
    if not kept:
        return None
    try:
        return ChosenFile(kept_name, base64.b64decode(kept, validate=True))
    except binascii.Error:
        return None


def _usual_dimensions(known: Dimensions) -> list[int]:
    """Fill unknown dimensions in: pictures are of the usual size, and everything else is 1."""
    is_picture = len(known) == 4 and bool({known[1], known[3]} & {1, 3})
    return [extent or (_PICTURE_EXTENT if is_picture and axis > 0 else 1) for axis, extent in enumerate(known)]


def _written(extents: Sequence[int]) -> str:
    return ", ".join(str(extent) for extent in extents)
