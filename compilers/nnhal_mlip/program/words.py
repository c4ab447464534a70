"""Records of whole numbers, real numbers and texts, as compact bytes.

A header: four letters, the format's version, and how many bytes of words, reals and texts follow. Words are whole
numbers of at least 0, seven bits in a byte from the lowest on, the last byte below 128. Reals are float64.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nnhal_mlip.program.errors import BinaryError, BinaryFault

_HEADER = Struct("<4sHxxIII")
_REAL_BYTES = 8
_MAX_BYTES = 9
"""The most bytes of a word, so that it has less than 64 bits."""

_Choice = TypeVar("_Choice", bound=IntEnum)


class RecordWriter:
    """Takes a record's content."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._reals: list[float] = []
        self._texts = bytearray()

    def words(self, *values: int) -> None:
        """Take whole numbers of at least 0."""
        self._words += values

    def signed(self, *values: int) -> None:
        self._words += [value << 1 if value >= 0 else ~value << 1 | 1 for value in values]

    def reals(self, *values: float) -> None:
        self._reals += values

    def text(self, value: str) -> None:
        encoded = value.encode()
        self._words.append(len(encoded))
        self._texts += encoded

    def finish(self, magic: bytes, version: int) -> bytes:
        words, reals = _packed(np.array(self._words, np.uint64)), np.array(self._reals, "<f8").tobytes()
        return _HEADER.pack(magic, version, len(words), len(reals), len(self._texts)) + words + reals + self._texts


class RecordReader:
    """Gives a record's content in the order in which a writer took it.

    All methods raise BinaryError for a record that does not have what is asked for.
    """

    def __init__(self, data: bytes, magic: bytes, version: int, name: str, offset: int) -> None:
        """``offset`` is where the record lies in the binary; ``name`` is what messages call it."""
        self._name = name
        self._offset = offset
        if len(data) < _HEADER.size:
            raise self._error(f"{name}'s length", len(data), f"at least {_HEADER.size}", 0)
        found, found_version, words, reals, texts = _HEADER.unpack_from(data)
        if found != magic:
            raise self._error(f"{name}'s magic", found, str(magic), 0)
        if found_version != version:
            raise self._error(f"{name}'s version", found_version, str(version), len(magic))
        if len(data) != _HEADER.size + words + reals + texts:
            raise self._error(f"{name}'s length", len(data), f"{_HEADER.size + words + reals + texts}", 0)
        if reals % _REAL_BYTES:
            raise self._error(f"{name}'s bytes of reals", reals, f"a multiple of {_REAL_BYTES}", 0)
        if any(data[len(magic) + 2 : len(magic) + 4]):
            raise self._error(f"{name}'s reserved bytes", data[len(magic) + 2 : len(magic) + 4], "zeros", 0)
        self._words, self._places = self._unpacked(data[_HEADER.size : _HEADER.size + words])
        self._reals: list[float] = np.frombuffer(data, "<f8", reals // _REAL_BYTES, _HEADER.size + words).tolist()
        self._texts = data[_HEADER.size + words + reals :]
        self._word = self._real = self._text = 0

    def words(self, count: int) -> list[int]:
        """Return whole numbers of at least 0."""
        begin = self._word
        self._word = end = begin + count
        if end > len(self._words):
            raise self._error(f"{self._name}'s words", len(self._words), f"at least {end}", 0)
        return self._words[begin:end]

    def word(self) -> int:
        """Return a whole number of at least 0."""
        return self.words(1)[0]

    def signed(self, count: int) -> list[int]:
        return [~(word >> 1) if word & 1 else word >> 1 for word in self.words(count)]

    def count(self, what: str) -> int:
        """Return how many things of at least one word each follow."""
        return self.below(what, len(self._words) - self._word)

    def below(self, what: str, limit: int) -> int:
        value = self.word()
        if value >= limit:
            raise self.refused(what, value, f"less than {limit}")
        return value

    def flag(self, what: str) -> bool:
        return bool(self.below(what, 2))

    def choice(self, what: str, kind: type[_Choice]) -> _Choice:
        value = self.word()
        try:
            return kind(value)
        except ValueError:
            raise self.refused(what, value, f"one of {', '.join(f'{each.value}' for each in kind)}") from None

    def reals(self, count: int) -> list[float]:
        begin = self._real
        self._real = end = begin + count
        if end > len(self._reals):
            raise self._error(f"{self._name}'s reals", len(self._reals), f"at least {end}", 0)
        return self._reals[begin:end]

    def text(self, what: str) -> str:
        begin = self._text
        self._text = end = begin + self.word()
        if end > len(self._texts):
            raise self.refused(what, f"a text of {end - begin} bytes", f"at most {len(self._texts) - begin}")
        try:
            return self._texts[begin:end].decode()
        except UnicodeDecodeError:
            raise self.refused(what, self._texts[begin:end], "UTF-8") from None

    def finish(self) -> None:
        """Refuse content that was not asked for."""
        taken, there = (self._word, self._real, self._text), (len(self._words), len(self._reals), len(self._texts))
        if taken != there:
            raise self._error(f"{self._name}'s words, reals and bytes of texts", there, f"{taken}", 0)

    def refused(self, what: str, got: object, expected: str) -> BinaryError:
        place = self._places[self._word - 1] if 0 < self._word <= len(self._places) else 0
        return self._error(f"{what} in {self._name}", got, expected, _HEADER.size + int(place))

    def _unpacked(self, data: bytes) -> tuple[list[int], NDArray[np.int64]]:
        """Words, and where each begins."""
        octets = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(octets < 128)
        if not octets.size:
            return [], ends
        if octets[-1] >= 128:
            raise self._error(f"the last word in {self._name}", "cut off", "a last byte below 128", len(data) - 1)
        begins = np.concatenate([[0], ends[:-1] + 1])
        lengths = ends - begins + 1
        if (bad := np.flatnonzero((lengths > _MAX_BYTES) | ((lengths > 1) & (octets[ends] == 0)))).size:
            place = int(begins[bad[0]])
            length = int(lengths[bad[0]])
            expected = f"as few as it needs, and at most {_MAX_BYTES}"
            raise self._error(f"the bytes of a word in {self._name}", length, expected, _HEADER.size + place)
        shifts = (np.arange(octets.size) - np.repeat(begins, lengths)).astype(np.uint64) * np.uint64(7)
        values: list[int] = np.add.reduceat((octets & 127).astype(np.uint64) << shifts, begins).tolist()
        return values, begins

    def _error(self, what: str, got: object, expected: str, place: int) -> BinaryError:
        return BinaryError(BinaryFault.CODE, what, got, expected, self._offset + place)


def _packed(words: NDArray[np.uint64]) -> bytes:
    lengths = np.ones(words.size, np.int64)
    for count in range(1, _MAX_BYTES):
        lengths += words >> np.uint64(7 * count) > 0
    begins = np.cumsum(lengths) - lengths
    octets = np.zeros(int(lengths.sum()), np.uint8)
    for count in range(_MAX_BYTES):
        longer = lengths > count
        digits = words[longer] >> np.uint64(7 * count) & np.uint64(127)
        octets[begins[longer] + count] = digits | np.where(lengths[longer] > count + 1, 128, 0).astype(np.uint64)
    return octets.tobytes()
