"""``python -m nnhal_tools.bench.serve.worker``: a load generator, one request at a time.

Reads a target and then windows from standard input, and answers each with one line of JSON on standard output. Times
are of CLOCK_MONOTONIC, which all processes share. The end of its input ends it, however its parent ends.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
import time
from array import array
from typing import TextIO

from nnhal.errors import NnhalError
from nnhal_tools.bench.serve.target import Target
from nnhal_tools.bench.serve.transports import Requests, open_requests

_WARM_UP = 3
_WARM_UP_SECONDS = 1.0


def main() -> int:
    """Serve windows until the input ends. Returns 1 if a request fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts every process, but the parent ends its workers
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not be taken for an answer
    try:
        requests = open_requests(Target.from_json(sys.stdin.readline()))
        try:
            _warm_up(requests)
            _say(answers, {"ready": True})
            for line in sys.stdin:
                window = json.loads(line)
                _say(answers, _measure(requests, window["start_ns"], window["end_ns"]))
        finally:
            requests.close()
    except (NnhalError, OSError, ValueError) as error:
        _say(answers, {"error": str(error)})
        return 1
    return 0


def _warm_up(requests: Requests) -> None:
    """Send a few requests, or one if it takes long."""
    enough = time.monotonic() + _WARM_UP_SECONDS
    for _ in range(_WARM_UP):
        requests.infer()
        if time.monotonic() > enough:
            break


def _measure(requests: Requests, start_ns: int, end_ns: int) -> dict[str, object]:
    """Send request after request between two instants, at least one. The last one must begin in time."""
    latencies = array("q")
    requests.send_ns = requests.receive_ns = 0
    clock, infer, note = time.monotonic_ns, requests.infer, latencies.append
    time.sleep(max(0.0, (start_ns - clock()) / 1e9))
    begun = now = clock()
    while True:
        infer()
        answered = clock()
        note(answered - now)
        now = answered
        if now >= end_ns:
            break
    return {
        "begun_ns": begun,
        "latencies": base64.b64encode(latencies.tobytes()).decode(),
        "elapsed_ns": now - begun,
        "send_ns": requests.send_ns,
        "receive_ns": requests.receive_ns,
    }


def _say(answers: TextIO, what: dict[str, object]) -> None:
    print(json.dumps(what), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
