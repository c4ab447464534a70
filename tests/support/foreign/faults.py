"""Faults of the device, and its description of itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

FaultName = Literal[
    "answers twice",  # one call of a channel, with the same answer
    "answers insufficient",  # NONE with output_sufficient_size false and no shapes; writes nothing
    "answers nothing",  # NONE without a result; writes nothing
    "writes nothing",  # NONE with a good result
    "does not fit",  # NONE, an output whose size is known does not fit; writes nothing
    "closes the channel",  # of a burst, a run channel or launches, instead of an answer; lives on
    "repeats the answer before",  # of the same channel, before it begins with a call
    "dawdles",  # a moment before it executes
    "no socket",  # hands out a file for a channel
    "never answers",  # a call of a channel
    "rings twice",  # the bells after a stage
    "gives no fence",  # for a launch, which it executes a moment later
    "signals early",  # the fence of a launch, which it executes a moment later
    "never signals",  # the fence of a launch, which it has executed
    "fails without a fence",  # a launch, as it says when it is asked
    "puts extra",  # Put answered with an id more than there are descriptors
    "puts the same",  # Put answered with an id that is in use
    "puts zero",  # Put answered with the id 0
    "puts nothing",  # Put answered as if it were Drop
    "is silent",  # no answer to Put
    "answers puts twice",
    "prepares the same",  # a model under a handle that is in use
    "prepares for ever",  # says again and again that a preparation is launched
    "hangs in AssessModel",
    "hangs in PrepareModelWithConfig",
    "hangs in CreateReusableExecution",
]
FOR_EVER = -1
M = TypeVar("M", bound=Message)


class Faults:
    """Faults, each with how many times it is still to happen, and answers that are not the device's usual ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answering = threading.Lock()
        """Held while a call is answered, once or twice; a command waits for it."""
        self._left: dict[str, int] = {}
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._missing: frozenset[str] = frozenset()

    def obey(self, line: str) -> None:
        """Take a command: JSON with ``faults``, counts by FaultName, and ``answers``, changes by the name of a method,
        and ``missing``, the names of methods.

        What a command names replaces what was there of the same name.
        """
        command = json.loads(line)
        with self.answering, self._lock:
            self._left.update(command.get("faults", {}))
            self._answers.update(command.get("answers", {}))
            self._missing = frozenset(command.get("missing", self._missing))

    def has(self, method: str) -> bool:
        return method not in self._missing

    def strikes(self, name: FaultName) -> bool:
        with self._lock:
            left = self._left.get(name, 0)
            self._left[name] = max(FOR_EVER, left - 1) if left > 0 else left
            return left != 0

    def changed(self, method: str, answer: M) -> M:
        """Change an answer as the commands say: by the JSON of its message."""
        with self._lock:
            changes = self._answers.get(method, {})
        for name in changes:
            answer.ClearField(_snake(name))
        ParseDict(dict(changes), answer)
        return answer


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
