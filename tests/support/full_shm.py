"""A framework whose /dev/shm is full: ``python -m tests.support.full_shm``, within a mount namespace of its own.

Clients register regions that have no memory yet, and ask for outputs there. It prints what they are told, as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.http

from tests.support.model_server import devices, model_server
from tests.support.repositories import write
from tests.support.served_models import echo, identity_file
from tests.support.tritonclients import Triton

SIZES = (1 << 12, 1 << 18, 1 << 22)
_FOLDER = Path("/dev/shm")
_MOUNT = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
_ROW = 16
"""Bytes of a row of the model's tensors."""


def may_mount() -> bool:
    """Return whether this process may give another one a /dev/shm of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(_within(["true"]), check=False, capture_output=True).returncode == 0


def answers() -> list[tuple[str, str]]:
    """Run it, and return the status and the message of each request."""
    done = subprocess.run(
        _within([sys.executable, "-m", __name__]), check=True, capture_output=True, cwd=Path(__file__).parents[2]
    )
    return [(status, message) for status, message in json.loads(done.stdout.splitlines()[-1])]


def _within(command: list[str]) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", *command]


def main() -> None:
    """Fill /dev/shm, and have a model write to regions there."""
    told = []
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, devices() as over:
        repository = Path(directory)
        write(repository, echo("FP32"), {"1/model.onnx": identity_file("FP32")})
        with model_server(over, repository, "--allow-client-shm") as served:
            for size in SIZES:
                with (_FOLDER / str(size)).open("xb") as file:
                    file.truncate(size)
            _fill()
            for name, api, address in (
                ("http", tritonclient.http, served.http),
                ("grpc", tritonclient.grpc, served.grpc),
            ):
                with Triton(name, api, address) as client:
                    told += [_told(client, size) for size in SIZES]
    print(json.dumps(told))


def _fill() -> None:
    with (_FOLDER / "rest").open("xb", buffering=0) as file:
        try:
            while file.write(bytes(os.sysconf("SC_PAGE_SIZE"))):
                pass
        except OSError:
            return


def _told(client: Triton, size: int) -> tuple[str, str]:
    client.client.register_system_shared_memory(str(size), f"/{size}", size)
    rows = np.ones((size // _ROW, 4), np.float32)
    given = client.api.InferInput("x", rows.shape, "FP32")
    given.set_data_from_numpy(rows)
    wanted = client.api.InferRequestedOutput("y")
    wanted.set_shared_memory(str(size), size)
    try:
        client.client.infer(echo("FP32"), [given], outputs=[wanted])
    except tritonclient.utils.InferenceServerException as error:
        return str(error.status()), error.message()
    finally:
        client.client.unregister_system_shared_memory(str(size))
    return "", ""


if __name__ == "__main__":
    main()
