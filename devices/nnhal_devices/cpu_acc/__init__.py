"""cpu_acc: an optimised CPU driver. Models are lowered to ONNX and run by ONNX Runtime, in the caller's memory."""
