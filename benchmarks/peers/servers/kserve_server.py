"""KServe's model server: ``python kserve_server.py --grpc_port=… --http_port=… NAME=FILE…``"""

from __future__ import annotations

import sys

import kserve
import numpy as np
import onnxruntime
from kserve import InferOutput, InferRequest, InferResponse


class OnnxModel(kserve.Model):
    """A model with one input, ``x``, and one output, ``y``."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.ready = True

    async def get_input_types(self) -> list[dict[str, object]]:
        return [{"name": "x", "datatype": "FP32", "shape": self._session.get_inputs()[0].shape}]

    async def get_output_types(self) -> list[dict[str, object]]:
        return [{"name": "y", "datatype": "FP32", "shape": self._session.get_outputs()[0].shape}]

    def predict(
        self, payload: InferRequest, headers: dict[str, str] | None = None, response_headers: object = None
    ) -> InferResponse:
        """Run one inference."""
        values = payload.inputs[0].as_numpy().astype(np.float32, copy=False)
        result = np.asarray(self._session.run(["y"], {"x": values})[0])
        output = InferOutput(name="y", shape=list(result.shape), datatype="FP32")
        output.set_data_from_numpy(result, binary_data=True)
        return InferResponse(response_id=payload.id or "", model_name=self.name, infer_outputs=[output])


def main() -> None:
    """Serve until SIGTERM."""
    models = [argument.partition("=") for argument in sys.argv[1:] if not argument.startswith("--")]
    kserve.ModelServer().start([OnnxModel(name, path) for name, _, path in models])


if __name__ == "__main__":
    main()
