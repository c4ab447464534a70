"""Clients that send requests over HTTP all the time, check each answer, and ask again if nobody took a request.

They may, since a request to a model without state is idempotent.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import general_failure
from nnhal.threads import BriefThread
from nnhal_tools.demo.digits import INPUT

_PATIENCE_SECONDS = 60.0
"""A request that has no answer after so long is lost."""
_PAUSE_SECONDS = 0.05
"""Before a client asks again."""
_UNAVAILABLE = 503
"""The framework drains, or its model is not loaded yet: the request was not begun."""
_DISTANCE = 1e-4
"""How far a probability may be from ONNX Runtime's."""


@dataclass(frozen=True, slots=True)
class ActReport:
    """Experience of requests while something was done to the testbed."""

    act: str
    seconds: float
    answered: int
    asked_again: int
    """Times that a request was sent again, since it was refused or its connection broke."""
    median_ms: float
    """From the first attempt to the answer; 0 if there is none."""
    slowest_ms: float
    wrong: int
    """Answers that are not ONNX Runtime's."""
    lost: int
    """Requests without an answer."""
    trouble: str = ""
    """The first reason why one was lost, or what did not come back; empty if all went well."""

    @property
    def passed(self) -> bool:
        """True if nothing was lost, and everything came back."""
        return not (self.wrong or self.lost or self.trouble)


class DrillTraffic:
    """Clients of each model. Use it as a context."""

    def __init__(self, address: str, models: Sequence[str], images: Array, expected: Array, clients: int = 1) -> None:
        """``address`` is HOST:PORT of the framework. ``images`` are [n, 1, 8, 8] float32, ``expected`` [n, 10].

        ``clients`` are those of one model, each with a request under way at a time.
        """
        self._address = address
        self._bodies = [_body(image) for image in images]
        self._expected = expected
        self._changed = threading.Condition()
        self._answered = dict.fromkeys(models, 0)
        self._asked_again = self._wrong = self._lost = 0
        self._seconds: list[float] = []
        self._trouble = ""
        self._ends = threading.Event()
        self._clients = [BriefThread(partial(self._client, model), model) for model in models for _ in range(clients)]

    def __enter__(self) -> DrillTraffic:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for client in self._clients:
            client.join()

    def wait(self, count: int) -> None:
        """Wait until each model has answered ``count`` more requests. Raises GENERAL_FAILURE if one does not."""
        with self._changed:
            wanted = {model: answered + count for model, answered in self._answered.items()}
            if not self._changed.wait_for(lambda: self._reached(wanted), 2 * _PATIENCE_SECONDS):
                silent = [model for model, least in wanted.items() if self._answered[model] < least]
                general_failure(f"{', '.join(silent)}: not {count} answers in {2 * _PATIENCE_SECONDS:.0f} s")

    def report(self, act: str, seconds: float, trouble: str = "") -> ActReport:
        """Say what requests met since the last report."""
        with self._changed:
            answered = sum(self._answered.values())
            act_report = ActReport(
                act,
                seconds,
                answered,
                self._asked_again,
                median(self._seconds or [0.0]) * 1e3,
                max(self._seconds, default=0.0) * 1e3,
                self._wrong,
                self._lost,
                trouble or self._trouble,
            )
            self._answered = dict.fromkeys(self._answered, 0)
            self._asked_again = self._wrong = self._lost = 0
            self._seconds, self._trouble = [], ""
        return act_report

    def _reached(self, wanted: Mapping[str, int]) -> bool:
        return all(self._answered[model] >= least for model, least in wanted.items())

    def _client(self, model: str) -> None:
        number = 0
        while not self._ends.is_set():
            image = number % len(self._bodies)
            self._request(model, self._bodies[image], self._expected[image])
            number += 1

    def _request(self, model: str, body: bytes, expected: Array) -> None:
        began = time.monotonic()
        again = 0
        while True:
            status, said = self._sent(model, body)
            is_refused = status in (0, _UNAVAILABLE)
            if not is_refused or time.monotonic() - began > _PATIENCE_SECONDS or self._ends.is_set():
                break
            again += 1
            self._ends.wait(_PAUSE_SECONDS)
        if is_refused and self._ends.is_set():
            return
        with self._changed:
            self._asked_again += again
            if status != http.client.OK:
                self._lost += 1
                self._trouble = self._trouble or f"{model}: {status or 'no answer'}: {said}"
            else:
                self._answered[model] += 1
                self._wrong += not np.allclose(json.loads(said)["outputs"][0]["data"], expected, atol=_DISTANCE)
                self._seconds.append(time.monotonic() - began)
            self._changed.notify_all()

    def _sent(self, model: str, body: bytes) -> tuple[int, str]:
        """Return the status and the answer; 0 and the reason if the connection was refused or broke."""
        connection = http.client.HTTPConnection(self._address, timeout=_PATIENCE_SECONDS)
        try:
            connection.request("POST", f"/v2/models/{model}/infer", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error) or type(error).__name__
        finally:
            connection.close()


def _body(image: Array) -> bytes:
    shape = [1, *image.shape]
    tensor: dict[str, Any] = {"name": INPUT, "shape": shape, "datatype": "FP32", "data": image.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()
