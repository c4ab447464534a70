"""Layouts as words, a letter for each axis: NCHW, NHWC, OIHW."""

from __future__ import annotations


def permutation(source: str, target: str) -> tuple[int, ...]:
    """Return the axes for a transposition from one layout to another.

    Raises ValueError if the words do not have the same letters, each once.
    """
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise ValueError(f"layouts {source} and {target}, expected the same letters, each once")
    return tuple(source.index(letter) for letter in target)


def image_axes(layout: str) -> tuple[int, int]:
    """Return the axes of height and width."""
    return layout.index("H"), layout.index("W")
