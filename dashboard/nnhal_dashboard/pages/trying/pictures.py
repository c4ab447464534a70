"""Pictures: how they lie in inputs and outputs, and from files and drawings to pixels, and to what a page shows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isqrt

import numpy as np
from PIL import Image, ImageOps

from nnhal.arrays import Array

_CHANNELS = (1, 3)
_LEAST_EXTENT = 4
"""Pictures with fewer rows or columns are taken for something else."""
_MOST_DRAWN = 64
"""Squares of one channel up to this many pixels wide are drawn on by default."""


@dataclass(frozen=True, slots=True)
class PixelFrame:
    """A picture in an array."""

    height: int
    width: int
    channels: int
    """1 for grey, 3 for red, green and blue."""
    channels_first: bool

    @property
    def suits_drawing(self) -> bool:
        """Return whether it is like the pictures of digits that data sets have."""
        return self.channels == 1 and self.height == self.width <= _MOST_DRAWN

    @property
    def words(self) -> str:
        """Its size and its colours."""
        return f"{self.width} × {self.height}, {'grey' if self.channels == 1 else 'colours'}"  # noqa: RUF001


def frame_of(dimensions: Sequence[int]) -> PixelFrame | None:
    """Return how a picture lies in an array of these dimensions; None if none does.

    Takes [N, H, W, C], [N, C, H, W], the same without N, [H, W], and flat squares such as [N, 784]. C is 1 or 3.
    """
    extents = list(dimensions)
    if len(extents) == 4:
        extents = extents[1:]
    if len(extents) == 3 and extents[0] in _CHANNELS:
        return _large(extents[1], extents[2], extents[0], channels_first=True)
    if len(extents) == 3 and extents[2] in _CHANNELS:
        return _large(extents[0], extents[1], extents[2], channels_first=False)
    if len(extents) == 2:
        side = isqrt(extents[1])
        if extents[0] >= _LEAST_EXTENT:
            return _large(extents[0], extents[1], 1, channels_first=True)
        return _large(side, side, 1, channels_first=True) if side * side == extents[1] and side >= 8 else None
    return None


def placed(pixels: Array, frame: PixelFrame, dimensions: Sequence[int]) -> Array:
    """Lay pixels [H, W, C] out as an array of these dimensions, once for each picture of a batch."""
    laid = pixels.transpose(2, 0, 1) if frame.channels_first else pixels
    count = int(np.prod(dimensions)) // max(laid.size, 1)
    return np.tile(laid.reshape(-1), count).reshape(tuple(dimensions))


def pixels_of(values: Array, frame: PixelFrame) -> Array:
    """Return the first picture of an array as pixels [H, W, C]."""
    size = frame.height * frame.width * frame.channels
    first = values.reshape(-1)[:size]
    if frame.channels_first:
        return first.reshape(frame.channels, frame.height, frame.width).transpose(1, 2, 0)
    return first.reshape(frame.height, frame.width, frame.channels)


def _large(height: int, width: int, channels: int, channels_first: bool) -> PixelFrame | None:
    if min(height, width) < _LEAST_EXTENT:
        return None
    return PixelFrame(height, width, channels, channels_first)


_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_MOST_PIXELS = 1 << 26
"""The most pixels of a file; they take four bytes each."""
_DATA_URL = "data:image/png;base64,"
_SMALL_DIGIT = 16
"""Data sets with smaller pictures have digits that fill them; those of larger ones have a margin."""
_DIGIT_SHARE = 20 / 28
"""The digit's share of a larger picture, by the conventions of MNIST."""


def pixels_of_file(content: bytes, frame: PixelFrame, is_cropped: bool) -> Array:
    """Return a file's picture as uint8 [H, W, C]: its middle, or all of it stretched. Raises ValueError."""
    size = (frame.width, frame.height)
    picture = _opened(content).convert("RGB" if frame.channels == 3 else "L")
    bilinear = Image.Resampling.BILINEAR
    scaled = ImageOps.fit(picture, size, bilinear) if is_cropped else picture.resize(size, bilinear)
    return _array(scaled, frame)


def pixels_of_drawing(data_url: str, frame: PixelFrame, is_centred: bool) -> Array:
    """Return what was drawn, light ink on black, as uint8 [H, W, C]. Raises ValueError.

    If it is centred, it is cut out and laid out as in data sets of digits: its longer side fills small pictures, and
    20 of 28 pixels of others, in which its centre of mass is in the middle.
    """
    if not data_url.startswith(_DATA_URL):
        raise ValueError("nothing is drawn")
    try:
        content = base64.b64decode(data_url.removeprefix(_DATA_URL), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the drawing is not base64: {error}") from error
    drawn = _opened(content).convert("L")
    ink = drawn.getbbox()
    if ink is None:
        raise ValueError("nothing is drawn")
    size = (frame.width, frame.height)
    grey = _centred(drawn.crop(ink), size) if is_centred else drawn.resize(size, Image.Resampling.BOX)
    return _array(grey.convert("RGB") if frame.channels == 3 else grey, frame)


def as_data_url(pixels: Array) -> str:
    """Return uint8 pixels [H, W, C] as a picture that a page can show."""
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    file = BytesIO()
    picture.save(file, "PNG")
    return _DATA_URL + base64.b64encode(file.getvalue()).decode()


def _opened(content: bytes) -> Image.Image:
    try:
        picture = Image.open(BytesIO(content), formats=_FORMATS)
        if picture.width * picture.height > _MOST_PIXELS:
            raise ValueError(f"the picture is {picture.width} by {picture.height}, at most {_MOST_PIXELS:,} pixels fit")
        upright = ImageOps.exif_transpose(picture).convert("RGBA")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"this is no picture ({', '.join(_FORMATS)}): {error}") from error
    ground = Image.new("RGBA", upright.size, "white")
    return Image.alpha_composite(ground, upright)


def _centred(digit: Image.Image, size: tuple[int, int]) -> Image.Image:
    width, height = size
    is_small = min(size) <= _SMALL_DIGIT
    share = 1.0 if is_small else _DIGIT_SHARE
    scale = min(width * share / digit.width, height * share / digit.height)
    inner = (max(1, round(digit.width * scale)), max(1, round(digit.height * scale)))
    scaled = digit.resize(inner, Image.Resampling.BOX)
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    if not is_small:
        mass = np.asarray(scaled, np.float64)
        rows, columns = np.indices(mass.shape)
        total = mass.sum()
        left = round(width / 2 - float((columns * mass).sum() / total) - 0.5)
        top = round(height / 2 - float((rows * mass).sum() / total) - 0.5)
    ground = Image.new("L", size, 0)
    ground.paste(scaled, (left, top))
    return ground


def _array(picture: Image.Image, frame: PixelFrame) -> Array:
    return np.asarray(picture, np.uint8).reshape(frame.height, frame.width, frame.channels)
