"""A program that tells a test about the replicas of Ray Serve: a request a line in JSON, and an answer a line.

It is a process of its own, since Ray keeps threads and warns of much.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import ray
from ray import serve
from ray.serve.context import _get_global_client


def replicas() -> list[dict[str, Any]]:
    details = _get_global_client().get_serve_details()
    return [
        {
            "deployment": name,
            "state": replica["state"],
            "pid": replica.get("pid"),  # none while it starts
            "node": replica.get("node_id"),
            "id": replica["replica_id"],
        }
        for application in details["applications"].values()
        for name, deployment in application["deployments"].items()
        for replica in deployment["replicas"]
    ]


def application() -> dict[str, str]:
    found = _get_global_client().get_serve_details()["applications"]
    return {"status": found["nnhal"]["status"], "message": found["nnhal"]["message"]} if "nnhal" in found else {}


def nodes() -> list[dict[str, Any]]:
    return [{"id": node["NodeID"], "alive": node["Alive"], "name": node["NodeName"]} for node in ray.nodes()]


def delete() -> None:
    """Delete the application and wait until it has ended."""
    serve.delete("nnhal")


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    ray.init(address=sys.argv[1], namespace="serve", log_to_driver=False, logging_level="error")
    for line in sys.stdin:
        answers.write(json.dumps(globals()[line.strip()]()) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
