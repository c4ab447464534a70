"""Running a served model from another host, with a token and, if the server has it, TLS.

Start the testbed of docker-compose.yml first; `docker compose --profile test run --rm remote` runs
python examples/over_tcp.py grpc://framework:8001 digits /secrets/clients
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc

import nnhal_client


def main() -> None:
    """Run a model on ones, and show what comes out."""
    address, name, folder = sys.argv[1:]
    token = (Path(folder) / "infer.token").read_text().strip()
    authority = Path(folder) / "ca.pem"
    trusted = grpc.ssl_channel_credentials(authority.read_bytes()) if address.startswith("grpcs://") else None
    with nnhal_client.connect(address, token=token, credentials=trusted, native=False) as server:
        binding = server.open(name).bind()
        for view in binding.inputs.values():
            view[...] = 1
        report = binding.run()
        for output, view in binding.outputs.items():
            print(f"{name} at {address}: {output} {view.dtype}{list(view.shape)}, sum {float(view.sum()):.3f}")
        print(f"{report.duration_ns / 1e6:.1f} ms")


if __name__ == "__main__":
    main()
