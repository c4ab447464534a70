"""Requests over HTTP, one after the other, through whatever happens to the server's devices."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import httpx
import numpy as np

from nnhal.arrays import Array

_SECONDS = 30.0


class SteadyRequests:
    """A client that has the same input run again and again while the context lasts, and compares answers."""

    def __init__(self, url: str, headers: Mapping[str, str], name: str, value: Array) -> None:
        """``url`` is that of a model's inference, ``name`` its only input."""
        batch = value[np.newaxis]
        tensor = {"name": name, "datatype": "FP32", "shape": list(batch.shape), "data": batch.reshape(-1).tolist()}
        self._request = {"inputs": [tensor]}
        self._url, self._headers = url, dict(headers)
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answered = 0
        """Requests with the answer that the first had."""
        self.problems: list[str] = []
        """What became of others."""

    def __enter__(self) -> SteadyRequests:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._told.set()
        self._thread.join()

    def _run(self) -> None:
        expected: Array | None = None
        with httpx.Client(headers=self._headers, timeout=_SECONDS) as client:
            while not self._told.is_set():
                try:
                    answer = client.post(self._url, json=self._request)
                    answer.raise_for_status()
                except httpx.HTTPError as error:
                    self.problems.append(str(error))
                    continue
                values = np.array(answer.json()["outputs"][0]["data"])
                if expected is None:
                    expected = values
                if np.allclose(values, expected, atol=1e-3):
                    self.answered += 1
                else:
                    self.problems.append(f"got {values}, expected {expected}")
