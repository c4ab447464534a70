"""A model of Triton's Python backend that runs an ONNX file, which its configuration names."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import triton_python_backend_utils as backend


class TritonPythonModel:
    """A model with one input, ``x``, and one output, ``y``."""

    def initialize(self, args: dict[str, str]) -> None:
        """Open the file."""
        path = json.loads(args["model_config"])["parameters"]["file"]["string_value"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def execute(self, requests: list[backend.InferenceRequest]) -> list[backend.InferenceResponse]:
        """Run one inference for each request."""
        return [backend.InferenceResponse([self._run(request)]) for request in requests]

    def _run(self, request: backend.InferenceRequest) -> backend.Tensor:
        values = backend.get_input_tensor_by_name(request, "x").as_numpy()
        return backend.Tensor("y", np.asarray(self._session.run(["y"], {"x": values})[0]))
