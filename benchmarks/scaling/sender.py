"""``python -m benchmarks.scaling.sender``: sends requests by tritonclient, as its users have it.

Reads a destination from standard input, then windows, and answers each with one line of JSON. A window is either a
number of requests under way for a time, or requests at given instants, whether those before are answered or not.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton_grpc
import tritonclient.http.aio as triton_http

from benchmarks.generators import Answer, generator_answers

_LONGEST_SECONDS = 10.0
"""A request that takes longer has failed."""
_CONNECTIONS = 1024
_HEAD_START_SECONDS = 0.05
_ROUND_ROBIN = [
    ("grpc.lb_policy_name", "round_robin"),
    # tritonclient sets the limits of messages only if it is given no arguments at all.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
Infer = Callable[[str], Awaitable[object]]


def main() -> int:
    """Serve windows until the input ends."""
    asyncio.run(_serve(json.loads(sys.stdin.readline()), generator_answers()))
    return 0


async def _serve(destination: dict[str, Any], answer: Answer) -> None:
    shapes: dict[str, list[int]] = destination["models"]
    if destination["protocol"] == "grpc":
        options = _ROUND_ROBIN if destination["round_robin"] else None
        client = triton_grpc.InferenceServerClient(destination["url"], channel_args=options)
        inputs = {name: [_input(triton_grpc, shape)] for name, shape in shapes.items()}
    else:
        client = triton_http.InferenceServerClient(destination["url"], conn_limit=_CONNECTIONS)
        inputs = {name: [_input(triton_http, shape)] for name, shape in shapes.items()}

    async def infer(model: str) -> object:
        return await asyncio.wait_for(client.infer(model, inputs[model]), _LONGEST_SECONDS)

    try:
        answer({"ready": True})
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            window = json.loads(line)
            if "instants" in window:
                answer(await _replay(infer, window["instants"], window["models"]))
            else:
                answer(await _keep_busy(infer, window["model"], window["concurrency"], window["seconds"]))
    finally:
        await client.close()


class _Record:
    """What became of the requests of a window."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.due: list[float] = []
        self.ended: list[float] = []
        self.errors: list[str] = []

    async def make(self, infer: Infer, model: str, due: float) -> None:
        """Make a request, which was due at an instant of this window. Its latency counts from then on."""
        words = ""
        try:
            await infer(model)
        except Exception as error:  # whatever a client library raises is what its user gets
            words = f"{type(error).__name__}: {error}"
        self.due.append(due)
        self.ended.append(self.now())
        self.errors.append(words)

    def now(self) -> float:
        """Return the seconds since the window began."""
        return time.monotonic() - self.start

    def as_dict(self) -> dict[str, object]:
        return {"due": self.due, "ended": self.ended, "errors": self.errors}


async def _keep_busy(infer: Infer, model: str, concurrency: int, seconds: float) -> dict[str, object]:
    record = _Record()

    async def repeat() -> None:
        while (now := record.now()) < seconds:
            await record.make(infer, model, now)

    await asyncio.gather(*(repeat() for _ in range(concurrency)))
    return record.as_dict()


async def _replay(infer: Infer, instants: Sequence[float], models: Sequence[str]) -> dict[str, object]:
    record = _Record()
    record.start += _HEAD_START_SECONDS
    requests = []
    for instant, model in zip(instants, models, strict=True):
        await asyncio.sleep(max(0.0, instant - record.now()))
        requests.append(asyncio.ensure_future(record.make(infer, model, instant)))
    await asyncio.gather(*requests)
    return record.as_dict()


def _input(library: Any, shape: Sequence[int]) -> object:
    values = library.InferInput("x", shape, "FP32")
    values.set_data_from_numpy(np.random.default_rng(0).random(shape, np.float32))
    return values


if __name__ == "__main__":
    sys.exit(main())
