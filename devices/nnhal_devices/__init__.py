"""nnhal_devices: emulated accelerators, and the process around any of them."""

import os

# ONNX Runtime reads it when it is imported. Without it, it opens a database for telemetry in the user's home.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
