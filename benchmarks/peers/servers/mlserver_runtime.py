"""A model class of MLServer that runs an ONNX file; ``mlserver start`` loads it by name."""

from __future__ import annotations

import asyncio

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput, TensorData


class OnnxModel(MLModel):
    """A model with one input, ``x``, and one output, ``y``."""

    async def load(self) -> bool:
        """Open the file that the settings name."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = self.settings.parameters.uri
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._in_thread = bool(self.settings.parameters.extra["in_thread"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Run one inference."""
        (given,) = payload.inputs
        values = np.array(getattr(given.data, "root", given.data), np.float32).reshape(given.shape)
        if self._in_thread:
            (result,) = await asyncio.to_thread(self._session.run, ["y"], {"x": values})
        else:
            (result,) = self._session.run(["y"], {"x": values})
        array = np.asarray(result)
        output = ResponseOutput.model_construct(
            name="y", datatype="FP32", shape=list(array.shape), data=TensorData(root=array.reshape(-1).tolist())
        )
        return InferenceResponse(model_name=self.name, outputs=[output])
