"""Reading arrays from files that a user has named, as numpy saves them: .npy and .npz.

Numpy makes room for what a header announces before it reads. So a header is compared with the size of the file.
"""

from __future__ import annotations

import os
import zlib
from math import prod
from typing import IO
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, open_given_file

_SUFFIX = ".npy"


def read_given_arrays(path: str | os.PathLike[str], what: str = "arrays in .npy or .npz") -> dict[str, Array]:
    """Return the arrays of a file by their names, of an .npy file its only one by the empty name.

    Raises as ``open_given_file``, and ValueError if it holds no arrays, or more than MOST_MODEL_BYTES.
    """
    with open_given_file(path, what) as file:
        try:
            if is_zipfile(file):
                return unpack_arrays(file)
            file.seek(0)
            return {"": array_in(file, os.fstat(file.fileno()).st_size)}
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}; expected {what}, as numpy saves it") from error


def unpack_arrays(file: IO[bytes]) -> dict[str, Array]:
    """Return the arrays of an .npz file. Raises ValueError if it is none, or holds more than MOST_MODEL_BYTES."""
    try:
        with ZipFile(file) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(_SUFFIX)]
            size = sum(member.file_size for member in members)
            if size > MOST_MODEL_BYTES:
                raise ValueError(f"its arrays have {size} bytes, at most {MOST_MODEL_BYTES} are read")
            found = {}
            for member in members:
                with archive.open(member) as packed:
                    found[member.filename.removesuffix(_SUFFIX)] = array_in(packed, member.file_size)
            return found
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"it is no .npz file that can be read: {error}") from error


def array_in(file: IO[bytes], size: int) -> Array:
    """Return the array of an .npy file of so many bytes. Raises ValueError if it is none, or shorter than it says."""
    try:
        version = _version_of(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, element_type = read_header(file)
        announced = prod(shape) * element_type.itemsize
        if announced > size:
            raise ValueError(f"it announces {announced:,} bytes of numbers, and has {size:,} in all")
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except EOFError as error:
        raise ValueError(f"it is cut short: {error}") from error
    return array


def _version_of(file: IO[bytes]) -> tuple[int, int]:
    try:
        version: tuple[int, int] = np.lib.format.read_magic(file)
    except ValueError as error:
        raise ValueError("it does not begin as arrays do") from error
    return version
