"""``python -m benchmarks.serve.worker``: a load generator, one request at a time.

It reads a target and then windows from standard input. Times are of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from array import array

from benchmarks.generators import generator_answers
from benchmarks.serve.target import Target
from benchmarks.serve.transports import Requests, open_requests
from nnhal.errors import NnhalError

_WARM_UP = 3
_WARM_UP_SECONDS = 1.0


def main() -> int:
    """Serve windows until the input ends. Returns 1 if a request fails."""
    answer = generator_answers()
    try:
        requests = open_requests(Target.from_json(sys.stdin.readline()))
        try:
            _warm_up(requests)
            answer({"ready": True})
            for line in sys.stdin:
                answer(_measure(requests, **json.loads(line)))
        finally:
            requests.close()
    except (NnhalError, OSError, ValueError) as error:
        answer({"error": str(error)})
        return 1
    return 0


def _warm_up(requests: Requests) -> None:
    """Send a few requests, or one if it takes long."""
    enough = time.monotonic() + _WARM_UP_SECONDS
    for _ in range(_WARM_UP):
        requests.infer()
        if time.monotonic() > enough:
            break


def _measure(requests: Requests, start_ns: int, end_ns: int, period_ns: int) -> dict[str, object]:
    """Send requests between two instants, at least one: each a period after the one before was due, or at once."""
    latencies = array("q")
    requests.send_ns = requests.receive_ns = 0
    clock, infer, note = time.monotonic_ns, requests.infer, latencies.append
    time.sleep(max(0.0, (start_ns - clock()) / 1e9))
    begun = due = start_ns if period_ns else clock()
    while True:
        infer()
        answered = clock()
        note(answered - due)
        due = due + period_ns if period_ns else answered
        if due >= end_ns:
            break
        if period_ns:
            time.sleep(max(0.0, (due - clock()) / 1e9))
    return {
        "begun_ns": begun,
        "latencies": base64.b64encode(latencies.tobytes()).decode(),
        "elapsed_ns": answered - begun,
        "send_ns": requests.send_ns,
        "receive_ns": requests.receive_ns,
    }


if __name__ == "__main__":
    sys.exit(main())
