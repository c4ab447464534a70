"""nnhal_client: the client library and the ``nnhal`` command.

import nnhal_client

with nnhal_client.connect("/run/nnhal/framework") as framework:
    outputs = framework.load("digits.onnx").run({"image": image})
"""

from nnhal_client.framework import Binding, Framework, Model, RunReport, StepReport, connect
from nnhal_client.tensors import Tensor

__all__ = ["Binding", "Framework", "Model", "RunReport", "StepReport", "Tensor", "connect"]
