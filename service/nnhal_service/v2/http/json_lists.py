"""The elements of a list in JSON, nested or flat, parsed piece by piece.

Memory and the interpreter's lock are taken for one piece at a time, however long the list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnhal.inference.datatypes import TensorError
from nnhal_service.v2.http.json_cut import Octets, Outline, parsed_json, pieces_of

_OPEN, _CLOSE, _COMMA, _SPACE = b"[], "
_NOTHING, _OPENS, _CLOSES, _SEPARATES, _ELEMENT = range(5)
_CLASSES = np.full(256, _ELEMENT, np.uint8)
_CLASSES[[0, *b" \t\r\n"]] = _NOTHING
_CLASSES[_OPEN], _CLASSES[_CLOSE], _CLASSES[_COMMA] = _OPENS, _CLOSES, _SEPARATES
_CANNOT_FOLLOW = np.zeros((5, 5), np.bool_)
for _first, _then in (
    (_OPENS, _CLOSES),  # an empty list
    (_OPENS, _SEPARATES),
    (_CLOSES, _OPENS),
    (_CLOSES, _ELEMENT),
    (_SEPARATES, _CLOSES),
    (_SEPARATES, _SEPARATES),
    (_ELEMENT, _OPENS),
):
    _CANNOT_FOLLOW[_first, _then] = True


def elements_of(text: memoryview, grown: Callable[[int], None]) -> Iterator[list[Any]]:
    """The elements of a list by its ``text``, without its brackets and those of the lists in it.

    ``grown`` is called before more than a piece is kept of an element that is longer. Raises TensorError if the list is
    malformed, or if a list in it is empty.
    """
    outline, order = Outline(), _Order()
    pending = bytearray()
    for piece in pieces_of(text):
        outside = outline.read(piece)
        order.check(outside)
        brackets = (outside == _OPEN) | (outside == _CLOSE)
        flat = np.where(brackets, _SPACE, np.frombuffer(piece, np.uint8)).astype(np.uint8, copy=False).tobytes()
        commas = np.flatnonzero(outside == _COMMA)
        if not len(commas):
            if pending:
                grown(len(flat))
            pending += flat
            continue
        last = int(commas[-1])
        pending += memoryview(flat)[:last]
        yield _parsed(pending)
        pending = bytearray(memoryview(flat)[last + 1 :])
    order.end()
    yield _parsed(pending)


def _parsed(elements: bytearray) -> list[Any]:
    found = parsed_json(b"".join((b"[", elements, b"]")), "data is not a list of elements")
    if not isinstance(found, list):
        raise TensorError("data is not a list of elements")
    return found


class _Order:
    """Checks what follows what in a list: without their brackets, some malformed lists would be well-formed."""

    def __init__(self) -> None:
        self._last = _OPENS
        self._read = 0

    def check(self, outside: Octets) -> None:
        classes: NDArray[np.uint8] = _CLASSES[outside]
        positions = np.flatnonzero(classes)
        if len(positions):
            after = classes[positions]
            before = np.concatenate((np.array([self._last], np.uint8), after[:-1]))
            wrong = _CANNOT_FOLLOW[before, after]
            if wrong.any():
                at = int(positions[int(np.argmax(wrong))])
                found = chr(int(outside[at]))
                raise TensorError(f"data is not a list of elements: got {found!r} at its byte {self._read + at}")
            self._last = int(after[-1])
        self._read += len(outside)

    def end(self) -> None:
        if self._last in (_OPENS, _SEPARATES):
            raise TensorError(f"data is not a list of elements: it ends at its byte {self._read}")
