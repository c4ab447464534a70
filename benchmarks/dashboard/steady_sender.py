"""``python -m benchmarks.dashboard.steady_sender``: sends requests at a rate, whether the server keeps up or not.

It reads a target, then windows from standard input, and answers each with the latencies as one line of JSON. A latency
counts from the instant at which the request was due, so that a slow answer shows in those that had to wait behind it.
"""

from __future__ import annotations

import json
import sys
import time

from nnhal_tools.bench.serve import Target
from nnhal_tools.bench.serve.transports import open_requests


def main() -> int:
    """Serve windows until the input ends."""
    requests = open_requests(Target.from_json(sys.stdin.readline()))
    try:
        requests.infer()
        _say("ready")
        for line in sys.stdin:
            window = json.loads(line)
            due, period = time.monotonic() + window["after"], 1.0 / window["rate"]
            end = due + window["seconds"]
            latencies = []
            while due < end:
                time.sleep(max(0.0, due - time.monotonic()))
                requests.infer()
                latencies.append(time.monotonic() - due)
                due += period
            _say(latencies)
    finally:
        requests.close()
    return 0


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
