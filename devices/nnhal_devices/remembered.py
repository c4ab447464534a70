"""Answers that are remembered: by digests of the questions, since some questions are megabytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")
_DIGEST_BYTES = 24


class Remembered(Generic[T]):
    """The answers that were used last. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """At most ``most`` answers are kept."""
        self._most = most
        self._lock = threading.Lock()
        self._answers: OrderedDict[bytes, T] = OrderedDict()

    def get(self, question: bytes) -> T | None:
        """Return the answer to the question with this digest; None if it is not known."""
        with self._lock:
            if question not in self._answers:
                return None
            self._answers.move_to_end(question)
            return self._answers[question]

    def add(self, question: bytes, answer: T) -> T:
        """Remember an answer, and return it."""
        with self._lock:
            self._answers[question] = answer
            self._answers.move_to_end(question)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer


def digest_of(message: bytes, *about: object) -> bytes:
    """The digest of a question about a message; ``about`` are plain values that belong to the question."""
    digest = blake2b(repr(about).encode(), digest_size=_DIGEST_BYTES)
    digest.update(message)
    return digest.digest()
