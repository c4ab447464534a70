"""Pictures: from files and drawings to pixels of a size, and from pixels to what a page shows."""

from __future__ import annotations

import base64
import binascii
from io import BytesIO

import numpy as np
from PIL import Image, ImageOps

from nnhal.arrays import Array
from nnhal_dashboard.pages.trying.frames import PixelFrame

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_MOST_PIXELS = 1 << 26
"""Of a file; its pixels take four bytes each."""
_DATA_URL = "data:image/png;base64,"
_SMALL_DIGIT = 16
"""Data sets with smaller pictures have digits that fill them; those of larger ones have a margin."""
_DIGIT_SHARE = 20 / 28
"""Of a larger picture, by the conventions of MNIST."""


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
