"""Cuts the lists of tensors out of the JSON of a request, so that they are never parsed as a whole.

A request is ``{"inputs": [{"name": …, "shape": […], "data": […]}, …], …}``: its long lists are members of the objects
in its lists. Each is replaced by a list of one number, its index. What is left, the head, is small, and is parsed as it
is.

The lists are found by looking at the text outside of its strings. To parse a text takes up to 50 bytes of
memory for each of its bytes, and 135 ms for each MiB of it, during which nothing else runs in the process (orjson,
lists within lists). To look at its bytes takes neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from nnhal.inference.datatypes import TensorError
from nnhal_hosting.interpreter_sharing import in_turns

MOST_DEPTH = 64
"""How deep lists and objects may be nested."""
_DEPTH = 4
"""The depth in the lists that are cut out: the request, its inputs, an input, the list."""
_MOST_LISTS = 1 << 14
_MOST_HEAD = 1 << 20
_MOST_OF_HEAD = 1 << 16
"""Lists and objects in a head."""
_OPEN, _CLOSE = b"[]"
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
Octets = NDArray[np.uint8]
PIECE = 1 << 15
"""The bytes that are looked at, or parsed, at a time: 32 KiB of JSON are numbers within a millisecond."""
_QUOTE, _BACKSLASH = b'"\\'
_MOST_DIGITS = 20


def parsed_json(text: bytes | bytearray | memoryview, refusal: str) -> object:
    """Return the value of a JSON text, in which NaN, Infinity and -Infinity are numbers too, as clients write them.

    Raises TensorError, with ``refusal`` and where it is malformed.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        text = bytes(text)
        if b"NaN" not in text and b"Infinity" not in text:
            raise TensorError(f"{refusal}: {error}") from error
    try:
        found = json.loads(text.decode(), parse_int=_whole_or_real)
        orjson.dumps(found)  # refuses the surrogates that json takes
    except UnicodeDecodeError as error:
        raise TensorError(f"{refusal}: it is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise TensorError(f"{refusal}: {error}") from error
    except RecursionError as error:
        raise TensorError(f"{refusal}: its lists and objects are nested too deeply") from error
    except TypeError as error:
        raise TensorError(f"{refusal}: a text of it is not valid UTF-8, or it is nested too deeply") from error
    return found


def _whole_or_real(digits: str) -> int | float:
    """Return an integer of up to 64 bits, and of more digits a float, as orjson does."""
    value = float(digits) if len(digits) > _MOST_DIGITS else int(digits)
    return value if -(1 << 63) <= value < 1 << 64 else float(value)


class Outline:
    """Reads a text piece by piece."""

    def __init__(self) -> None:
        self._is_in_string = False
        self._is_escaped = False

    def read(self, piece: memoryview) -> Octets:
        """The next piece, with 0 in the place of what is between the quotes of strings."""
        octets = np.frombuffer(piece, np.uint8)
        quotes = octets == _QUOTE
        slashes = octets == _BACKSLASH
        if self._is_escaped or slashes.any():
            quotes &= ~self._escaped(slashes)
        if not self._is_in_string and not quotes.any():
            return octets
        within = np.bitwise_xor.accumulate(quotes) ^ self._is_in_string
        self._is_in_string = bool(within[-1])
        return np.where(within & ~quotes, 0, octets).astype(np.uint8, copy=False)

    def _escaped(self, slashes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which bytes an odd number of backslashes precedes."""
        count = len(slashes)
        positions = np.arange(1, count + 1)
        ends = np.maximum.accumulate(np.where(slashes, 0, positions))
        odd = (positions - ends) % 2 == 1
        if self._is_escaped:
            odd ^= ends == 0  # the run goes on from the piece before
        escaped = np.empty(count, np.bool_)
        escaped[0] = self._is_escaped
        escaped[1:] = odd[:-1]
        self._is_escaped = bool(odd[-1])
        return escaped


def pieces_of(text: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


class CutJson(NamedTuple):
    """A request in its parts."""

    head: bytes
    lists: list[memoryview]
    """The texts between the brackets, by the numbers that the head has in their place."""


def cut_json(text: memoryview) -> CutJson:
    """Cut a request into its parts. Raises TensorError if it is nested too deep, or its head is too large.

    Whether it is JSON is found out when its parts are parsed.
    """
    lists: list[memoryview] = []
    head: list[bytes | memoryview] = []
    size = end = start = 0
    for brackets in in_turns(_brackets(text)):
        for position, opens in brackets:
            if opens:
                start = position
            elif text[start] == _OPEN:
                if text[position] != _CLOSE:
                    raise TensorError(f"the request is not JSON: a list from byte {start} on ends at byte {position}")
                head += (text[end : start + 1], b"%d" % len(lists))
                size += start + 1 - end
                lists.append(text[start + 1 : position])
                end = position
        if len(lists) > _MOST_LISTS:
            raise TensorError(f"the inputs and outputs have more than {_MOST_LISTS} lists")
        _require_small(size)
    _require_small(size + len(text) - end)
    head.append(text[end:])
    joined = b"".join(head)
    if joined.count(b"[") + joined.count(b"{") > _MOST_OF_HEAD:
        raise TensorError(f"the request has more than {_MOST_OF_HEAD} lists and objects beside the data of its inputs")
    return CutJson(joined, lists)


def require_simple(text: memoryview, most: int) -> None:
    """Raise TensorError if a JSON text is nested too deep, or has more than ``most`` lists, objects and members."""
    count = 0
    for more in in_turns(_counts(text)) if len(text) > PIECE else _counts(text):
        count += more
        if count > most:
            raise TensorError(f"the body has more than {most} lists, objects and members")


def _require_small(head: int) -> None:
    if head > _MOST_HEAD:
        raise TensorError(f"the request has more than {_MOST_HEAD} bytes of JSON beside the lists of its inputs")


def _brackets(text: memoryview) -> Iterator[list[tuple[int, bool]]]:
    """Tell where a list or object in _DEPTH opens, and (False) where it closes, piece by piece."""
    nesting = _Nesting()
    start = 0
    for outside in _outlines(text):
        steps, depths, positions = nesting.read(outside)
        found = np.flatnonzero(((steps > 0) & (depths == _DEPTH)) | ((steps < 0) & (depths == _DEPTH - 1)))
        yield list(zip((positions[found] + start).tolist(), (steps[found] > 0).tolist(), strict=True))
        start += len(outside)


def _counts(text: memoryview) -> Iterator[int]:
    nesting = _Nesting()
    for outside in _outlines(text):
        steps, _, _ = nesting.read(outside)
        yield int((steps > 0).sum()) + int((outside == ord(",")).sum())


def _outlines(text: memoryview) -> Iterator[Octets]:
    outline = Outline()
    return (outline.read(piece) for piece in pieces_of(text))


class _Nesting:
    """Depth of nested lists and objects in a text."""

    def __init__(self) -> None:
        self._depth = 0

    def read(self, outside: Octets) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.intp]]:
        """Of each bracket and brace of a piece: whether it opens (1) or closes (-1), the depth behind it, and where.

        Raises TensorError if the depth is too great, or there are none to close.
        """
        steps = _STEPS[outside]
        positions = np.flatnonzero(steps)
        steps = steps[positions]
        depths = np.cumsum(steps, dtype=np.int64) + self._depth
        if len(depths):
            self._depth = int(depths[-1])
            if depths.max() > MOST_DEPTH:
                raise TensorError(f"the body is nested more than {MOST_DEPTH} deep")
            if depths.min() < 0:
                raise TensorError("the body is not JSON: it closes more lists and objects than it opens")
        return steps, depths, positions
