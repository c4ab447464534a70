"""The front end for ONNX."""

from nnhal_frontends.onnx.default_inputs import default_inputs, drop_defaults
from nnhal_frontends.onnx.importer import import_onnx, state_outputs

__all__ = ["default_inputs", "drop_defaults", "import_onnx", "state_outputs"]
