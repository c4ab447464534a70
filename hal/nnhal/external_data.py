"""The files beside a model's own that ONNX calls external data: found without reading the model as such."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from nnhal.given_files import open_given_file

_LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])|\x0a\x08location\x12([\x80-\xff][\x01-\x0f])")
"""The key of an entry of external data, with the tag and the length of its value, which has up to 2047 bytes."""


@contextmanager
def opened_external_data(path: str | os.PathLike[str]) -> Iterator[Mapping[str, BinaryIO]]:
    """Open the files that a model in ONNX names, by the names that it has for them.

    A name is of a file in the model's folder, or below it: others, and files that are not there, are left out, since
    weights may look like a name. Raises OSError or ValueError if one is no regular file or cannot be read.
    """
    with ExitStack() as opened:
        found = {}
        for location, name in _names(path).items():
            beside = Path(path).parent / name
            if beside.exists():
                found[location] = opened.enter_context(open_given_file(beside, "values of a model's tensors"))
        yield found


def external_locations(content: bytes | mmap.mmap) -> dict[str, str]:
    """Return places in or below the folder of a model in ONNX that it may name, by its names for them."""
    found = {}
    for match in _LOCATION.finditer(content):
        length = match[1][0] if match[1] else match[2][0] & 0x7F | match[2][1] << 7
        with suppress(UnicodeDecodeError):
            location = content[match.end() : match.end() + length].decode()
            name = PurePosixPath(os.path.normpath(location))
            if "\0" not in location and not name.is_absolute() and ".." not in name.parts:
                found[location] = str(name)
    return found


def _names(path: str | os.PathLike[str]) -> dict[str, str]:
    with open_given_file(path, "a model") as file:
        if not os.fstat(file.fileno()).st_size:
            return {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return external_locations(content)
