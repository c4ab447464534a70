"""Dimensions of inputs as a user writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nnhal.types.layout import Dimensions

_SHAPE = re.compile(r"(.+)[:=]((?:[1-9]\d*(?:[,x][1-9]\d*)*)?)", re.ASCII | re.DOTALL)
_LENGTH = re.compile(r"(.+)=([1-9]\d*)", re.ASCII | re.DOTALL)


def parse_shapes(texts: Sequence[str]) -> dict[str, Dimensions]:
    """Return the shape of each input of texts such as ``x:1x3x224x224`` or ``x=1,3,224,224``. Raises ValueError."""
    found: dict[str, Dimensions] = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise ValueError(f"--shape: got {text!r}, expected INPUT:1x3x224x224")
        name, shape = match.groups()
        if name in found:
            raise ValueError(f"--shape: got {name!r} twice, expected each input once")
        found[name] = tuple(int(length) for length in re.split("[,x]", shape) if length)
    return found


def parse_lengths(texts: Sequence[str]) -> dict[str, int]:
    """Return the length of each dimension of texts such as ``batch=4``. Raises ValueError."""
    found: dict[str, int] = {}
    for text in texts:
        match = _LENGTH.fullmatch(text)
        if match is None:
            raise ValueError(f"--dim: got {text!r}, expected NAME=N, with a number from 1 on")
        name, length = match[1], int(match[2])
        if found.setdefault(name, length) != length:
            raise ValueError(f"--dim: got {name!r} as {found[name]} and as {length}, expected one of them")
    return found


def shapes_with(
    shapes: Mapping[str, Dimensions],
    lengths: Mapping[str, int],
    declared: Mapping[str, Dimensions],
    names: Mapping[str, Sequence[str]],
) -> dict[str, Dimensions]:
    """Add to ``shapes`` those of inputs whose open dimensions are given a length; other dimensions stay open, as 0.

    ``declared`` are the dimensions of each input, 0 for an open one, and ``names`` the names of its dimensions, empty
    for one without a name. Raises ValueError if an input or a dimension is unknown.
    """
    unknown = sorted(shapes.keys() - declared.keys())
    if unknown:
        raise ValueError(f"--shape: got {', '.join(unknown)}, the model's inputs are {', '.join(declared)}")
    labels = {name: labels_of(axes, names.get(name, ())) for name, axes in declared.items()}
    openings = {
        name: ["" if length else label for length, label in zip(axes, labels[name], strict=True)]
        for name, axes in declared.items()
    }
    known = sorted({label for own in openings.values() for label in own if label})
    unknown = sorted(lengths.keys() - set(known))
    if unknown:
        there = f"open dimensions {', '.join(known)}" if known else "no open dimension with a name; see --shape"
        raise ValueError(f"--dim: got {', '.join(unknown)}, the model has {there}")
    found = dict(shapes)
    for name, own in openings.items():
        if name in found or not any(label in lengths for label in own):
            continue
        found[name] = tuple(lengths.get(label, length) for label, length in zip(own, declared[name], strict=True))
    return found


def labels_of(axes: Dimensions, names: Sequence[str]) -> Sequence[str]:
    """The names of an input's dimensions, as many as it has."""
    return names if len(names) == len(axes) else [""] * len(axes)
