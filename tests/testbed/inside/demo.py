"""In a container: the demo over the framework of others. ``demo.py DIRECTORY`` prints one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nnhal_client import connect
from nnhal_tools.demo.digits import HEAD_PINS, Classification, Digits, classify, held_out


def main(directory: str) -> None:
    """Classify all held-out digits with both networks."""
    digits = held_out()
    with connect(Path(directory)) as framework:
        found = {
            kind: _as_dict(classify(framework, kind, digits, pins, lambda: None), digits)
            for kind, pins in HEAD_PINS.items()
        }
    print(json.dumps(found))


def _as_dict(result: Classification, digits: Digits) -> dict[str, Any]:
    return {
        "accuracy": float((result.predictions == digits.labels).mean()),
        "tensor_bytes": result.tensor_bytes,
        "steps": result.steps,
        "copied_bytes": result.copied_bytes,
        "socket_bytes": result.socket_bytes,
        "total_ns": result.latency.total_ns,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
