"""ort_ep: an execution provider of ONNX Runtime from another party's library, as a device."""
