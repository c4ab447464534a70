"""Triton, by nvidia-pytriton: ``python pytriton_server.py GRPC_PORT HTTP_PORT INSTANCES NAME=FILE…``"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from pytriton.model_config import ModelConfig, Tensor
from pytriton.proxy.types import Request
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

_Infer = Callable[[list[Request]], list[dict[str, NDArray[np.float32]]]]


def _session(path: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _infer(session: onnxruntime.InferenceSession) -> _Infer:
    def infer(requests: list[Request]) -> list[dict[str, NDArray[np.float32]]]:
        return [{"y": np.asarray(session.run(["y"], {"x": request.data["x"]})[0])} for request in requests]

    return infer


def main() -> None:
    """Serve until SIGTERM."""
    grpc_port, http_port, instances = map(int, sys.argv[1:4])
    security = TritonSecurityConfig(restricted_endpoints=[])  # every user may open the shared memory
    config = TritonConfig(
        grpc_port=grpc_port,
        http_port=http_port,
        grpc_address="127.0.0.1",
        http_address="127.0.0.1",
        allow_metrics=False,
    )
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as workspace,
        Triton(config=config, security_config=security, workspace=Path(workspace) / "triton") as triton,
    ):
        for argument in sys.argv[4:]:
            name, _, path = argument.partition("=")
            session = _session(path)
            (into,), (out,) = session.get_inputs(), session.get_outputs()
            triton.bind(
                name,
                [_infer(_session(path)) for _ in range(instances)],
                inputs=[Tensor(name="x", dtype=np.float32, shape=tuple(into.shape))],
                outputs=[Tensor(name="y", dtype=np.float32, shape=tuple(out.shape))],
                config=ModelConfig(batching=False),
            )
        triton.serve()


if __name__ == "__main__":
    main()
