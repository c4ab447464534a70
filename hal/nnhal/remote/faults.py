"""Injected faults of a device (see faults.proto), for those who test what uses it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.remote.calls import Calls
from nnhal.v1 import faults_pb2 as wire
from nnhal.v1 import faults_pb2_grpc

_ANSWER_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FaultState:
    """A fault that a device has."""

    name: str
    fault: Mapping[str, Any]
    """What was set."""
    met: int
    """How many calls have met its condition, apart from ``nth``, ``every``, ``times`` and ``probability``."""
    injected: int
    """How often it has happened."""


class FaultControl(Closing):
    """The faults of a device that was started with ``--allow-faults``. Use it as a context.

    Every method raises HalError if the device refuses, TransportError if it does not answer in time, and
    DeadObjectError if it is gone. Safe to use from several threads.
    """

    def __init__(self, endpoint: Endpoint, client_name: str = "nnhal-faults") -> None:
        self._calls = Calls(endpoint, client_name, _PATIENCE_SECONDS)
        self._stub = faults_pb2_grpc.FaultServiceStub(self._calls.rpc)

    def set(self, *faults: Mapping[str, Any]) -> list[str]:
        """Add faults, each as a table of a file of faults, and return their names. All are set, or none."""
        document = json.dumps({"fault": faults})
        return list(self._ask(self._stub.SetFaults, wire.SetFaultsRequest(document=document)).names)

    def faults(self) -> list[FaultState]:
        """Return the faults that there are, in the order in which a call meets them."""
        answer = self._ask(self._stub.ListFaults, wire.ListFaultsRequest())
        return [FaultState(each.name, json.loads(each.document), each.met, each.injected) for each in answer.faults]

    def injected(self) -> int:
        """Return how many faults have been injected since the process started."""
        return self._ask(self._stub.ListFaults, wire.ListFaultsRequest()).injected

    def clear(self, names: Sequence[str] = ()) -> int:
        """Remove faults by name, all if there are no names, and return how many. Calls that hang by them continue."""
        return self._ask(self._stub.ClearFaults, wire.ClearFaultsRequest(names=names)).cleared

    def _ask(self, method: grpc.UnaryUnaryMultiCallable[Any, T], request: Message) -> T:
        return self._calls.call(method, request, _ANSWER_SECONDS)

    @property
    def gone(self) -> bool:
        """Return whether the process has ended the session or is gone."""
        return self._calls.hung_up

    def close(self) -> None:
        """End the session. The faults stay."""
        self._calls.close()
