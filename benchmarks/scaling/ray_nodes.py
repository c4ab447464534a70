"""``python -m benchmarks.scaling.ray_nodes REPOSITORY TOPOLOGY``: nnhal on two nodes of Ray, by Ray Serve.

It needs an environment with nnhal[ray]. It prints the addresses of the ingress as one line of JSON, and ends with its
input.
"""

from __future__ import annotations

import importlib.util
import json
import sys

from tests.support.ray_cluster import ray_cluster, worker_node


def main() -> int:
    """Serve until the input ends."""
    repository, topology = sys.argv[1:]
    if importlib.util.find_spec("ray") is None:
        print("Ray is not installed", file=sys.stderr)
        return 1
    with ray_cluster() as cluster, worker_node(cluster, "worker"):
        cluster.deploy(model_repository=repository, topology=topology, min_hosts=2, max_hosts=2)
        addresses = {protocol: f"127.0.0.1:{getattr(cluster.head, protocol)}" for protocol in ("http", "grpc")}
        print(json.dumps(addresses), flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
