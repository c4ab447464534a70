"""All targets. Each module has those of one family."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tests.fuzz.target import FuzzTarget

_FAMILIES = {
    "links": ("link", "run_channel", "bell"),
    "contract": ("model", "request", "answer", "wire"),
    "inference": ("v2_http", "v2_grpc", "http_head", "http2", "config_text", "config_json"),
    "model_files": ("onnx", "onnx_whole", "tflite"),
    "live": ("live_device", "live_framework"),
    "artifacts": ("recording", "mlip_binary", "command_stream", "cache_entry", "faults"),
}
"""The targets of each module, which is imported when one of them is asked for."""

LIVE = _FAMILIES["live"]
"""Those that send to processes of their own, over sockets."""

NAMES = tuple(name for names in _FAMILIES.values() for name in names)


@cache
def target(name: str) -> FuzzTarget:
    family = next(family for family, names in _FAMILIES.items() if name in names)
    module = import_module(f"tests.fuzz.targets.{family}")
    targets: tuple[FuzzTarget, ...] = module.TARGETS
    return next(each for each in targets if each.name == name)
