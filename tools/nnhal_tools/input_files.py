"""Arrays for a model's inputs, from files that a user names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_arrays import read_given_arrays
from nnhal.tensors import Tensor


def read_inputs(texts: Sequence[str], names: Sequence[str]) -> dict[str, Array]:
    """The arrays of the input files, by input. Raises OSError, or ValueError if a file holds none or needs a name."""
    return dict(_named_arrays(texts, names))


def read_samples(texts: Sequence[str], names: Sequence[str]) -> list[dict[str, Array]]:
    """Read several samples: an input that is given again begins the next one."""
    samples: list[dict[str, Array]] = []
    for name, array in _named_arrays(texts, names):
        if not samples or name in samples[-1]:
            samples.append({})
        samples[-1][name] = array
    return samples


def _named_arrays(texts: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, Array]]:
    for text in texts:
        name, path = _split(text, names)
        loaded = read_given_arrays(path)
        if "" not in loaded:
            yield from loaded.items()
            continue
        if not name and len(names) != 1:
            raise ValueError(f"{path} holds one array, the model has inputs {list(names)}: use NAME=FILE")
        yield name or names[0], loaded[""]


def _split(text: str, names: Sequence[str]) -> tuple[str, str]:
    """The name of an input, if there is one, and the path. Either may have a "=" in it."""
    if Path(text).exists():
        return "", text
    name = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
    first, separator, path = text.partition("=")
    return (name, text[len(name) + 1 :]) if name else (first if separator else "", path if separator else text)


def random_inputs(tensors: Iterable[Tensor]) -> dict[str, Array]:
    """Return numbers from 0 to 1, always the same, of extent 1 in unknown dimensions.

    Raises ValueError if an input is not numeric.
    """
    return {tensor.name: _random(tensor) for tensor in tensors}


def _random(tensor: Tensor) -> Array:
    if tensor.element_type is None:
        raise ValueError(f"input {tensor.name!r} is not a tensor of numbers")
    shape = () if tensor.scalar else [axis or 1 for axis in tensor.dimensions]
    return np.random.default_rng(0).random(shape).astype(tensor.element_type)
