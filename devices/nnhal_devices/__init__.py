"""nnhal_devices: emulated accelerators, and the process around any of them."""

import os

# ONNX Runtime asks for it when it is imported, and else opens a database in the user's home for what it reports.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
