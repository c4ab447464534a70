"""Memory that a framework keeps of large answers when the clients that read them slowly have left."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from onnx import helper

from tests.support.model_server import Devices, model_server
from tests.support.onnx_models import onnx_model
from tests.support.repositories import write
from tests.support.waiting import wait_until

MEBIBYTE = 1 << 20
READERS, ANSWER = 12, 24 * MEBIBYTE
BODY = json.dumps(
    {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}],
        "parameters": {"binary_data_output": True},
    }
).encode()
PATH = "/v2/models/wide/infer"


def anonymous_bytes(pid: int) -> int:
    """Return the bytes of a process in RAM that are of no file and shared with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024


@pytest.mark.slow
def test_what_slow_readers_were_sent_is_given_back_when_they_have_left(
    device_processes: Devices, tmp_path: Path
) -> None:
    expand = helper.make_node("Expand", ["x", "shape"], ["y"])
    model = onnx_model([expand], {"x": (1, 1)}, ["y"], {"shape": np.array([ANSWER // 4096, 1024])}).SerializeToString()
    config = "instance_group [{count: 4}]"
    write(tmp_path, "wide", {"1/model.onnx": model, "config.pbtxt": config})
    with model_server(device_processes, tmp_path) as served:
        assert httpx.post(f"http://{served.http}{PATH}", content=BODY).status_code == 200
        before = anonymous_bytes(served.pid)
        host, _, port = served.http.rpartition(":")
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
        with ExitStack() as stack:
            for _ in range(READERS):
                reader = stack.enter_context(socket.create_connection((host, int(port))))
                reader.sendall(head + BODY)
                assert reader.recv(1024)  # it has begun, and waits for its reader
            held = anonymous_bytes(served.pid)
        assert held - before > READERS * ANSWER // 3
        wait_until(lambda: anonymous_bytes(served.pid) - before < ANSWER // 3, "the memory is given back")
