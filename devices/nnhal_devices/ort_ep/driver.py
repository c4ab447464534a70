"""The driver of ort_ep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import onnxruntime

from nnhal.extensions.onnx import EXTENSION, NAME
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import Extension, NumberOfCacheFiles
from nnhal_devices.backend import Backend, DeviceFigure, MemoryRules
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.performance import CAPABILITIES, ROOFLINE
from nnhal_devices.cpu_acc.support import operation_limits
from nnhal_devices.cpu_acc.workload import OnnxWorkload
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.ort_ep.provider import open_provider
from nnhal_devices.ort_ep.support import ProviderSupport

_OPTIONS = ("library", "provider", "provider_options", "device", "speed")


@final
class OrtEp:
    """Providers of ONNX Runtime that come as a library: synchronous, in the caller's memory."""

    name = "ort_ep"
    capabilities = CAPABILITIES
    memory = MemoryRules(alignment=64)  # a provider may access memory in any thread, so files that shrink are staged
    modelled_timing = False
    extensions: tuple[Extension, ...] = (EXTENSION,)
    number_of_cache_files = NumberOfCacheFiles(1, 1)

    def __init__(self, options: DriverOptions) -> None:
        """Raises ValueError if there is no such provider, or an option is wrong."""
        options.require_known(self.name, *_OPTIONS)
        given = options.extra
        if "library" not in given:
            raise ValueError(f"{self.name} needs the option library: a provider's library, or its Python package")
        provider = open_provider(
            given["library"],
            given.get("provider", ""),
            _number(given.get("device", "0")),
            _pairs(given.get("provider_options", "")),
        )
        speed = _speed(given.get("speed", "1"))
        self.type = provider.type
        self.version = (
            f"nnhal-{self.name}-0.1.0+{provider.name}-{provider.version}+onnxruntime-{onnxruntime.__version__}"
        )
        self._sessions = CpuAcc(DriverOptions(options.threads), provider.add_to)
        self._support = ProviderSupport(provider.name, self._sessions.supported_operations, self._sessions.try_out)
        kind = provider.device.device.type.name
        self.backend = Backend(
            lambda model: [each / speed for each in ROOFLINE.operation_ns(model)],
            realisation=f"{provider.name} of {provider.device.ep_vendor}, by ONNX Runtime, on a {kind} of this machine",
            operation_limits=operation_limits,
            figures=lambda: (DeviceFigure("speed, as a multiple of cpu_acc's", speed),),
            source_extension=NAME,
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return self._support.of(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> OnnxWorkload:
        """Lower a model and compile it for the provider. Raises GENERAL_FAILURE if the provider leaves a node."""
        return self._sessions.prepare(model, options)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"option device: got {text!r}, expected the number of one of the provider's devices from 0 on")
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ValueError(f"option speed: got {text!r}, expected how many times as fast as cpu_acc it is, above 0")
    return speed


def _pairs(text: str) -> dict[str, str]:
    """Options of a provider: ``key=value``, with semicolons between."""
    found: dict[str, str] = {}
    for each in filter(None, map(str.strip, text.split(";"))):
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise ValueError(f"option provider_options: got {each!r}, expected key=value, with semicolons between")
        found[key] = value
    return found
