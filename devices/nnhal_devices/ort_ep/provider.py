"""An execution provider of ONNX Runtime from a library of its own: loaded, and added to the options of sessions."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import onnxruntime

from nnhal.given_files import open_given_file
from nnhal.types import DeviceType
from nnhal_devices.cpu_acc.runtime_words import words_of
from nnhal_devices.cpu_acc.session import RUNTIME_ERRORS

_OWN = "NnhalExecutionProvider"
"""nnhal's own provider, whose models would come back to a device of nnhal."""
_LIBRARY_OF_PACKAGE = ("get_library_path", "library_path")
"""How packages of providers call the function that says where their library is."""
_STRICT = ("session.disable_cpu_ep_fallback", "1")
_FATAL_ONLY = 4
_TYPES = {
    onnxruntime.OrtHardwareDeviceType.CPU: DeviceType.CPU,
    onnxruntime.OrtHardwareDeviceType.GPU: DeviceType.GPU,
    onnxruntime.OrtHardwareDeviceType.NPU: DeviceType.ACCELERATOR,
}


@dataclass(frozen=True, slots=True)
class PluginProvider:
    """A provider on one device that it found on this machine."""

    name: str
    """ONNX Runtime's."""
    device: onnxruntime.OrtEpDevice
    options: Mapping[str, str]
    """The provider's own."""

    @property
    def type(self) -> DeviceType:
        return _TYPES.get(self.device.device.type, DeviceType.OTHER)

    @property
    def version(self) -> str:
        """The provider's, if it tells it."""
        return str(self.device.ep_metadata.get("version", "unknown"))

    def add_to(self, options: onnxruntime.SessionOptions) -> None:
        """Have a session run on the device, and on nothing else: it is refused if the provider leaves a node."""
        options.add_session_config_entry(*_STRICT)
        options.log_severity_level = _FATAL_ONLY  # what is refused is raised
        options.add_provider_for_devices([self.device], dict(self.options))


def open_provider(library: str, name: str, number: int, options: Mapping[str, str]) -> PluginProvider:
    """Load a library, and return the provider in it on its device ``number``.

    ``library`` is a path, or the name of a Python package that says where its library is. ``name`` may be empty unless
    the library has several providers. Raises ValueError if there is no such library, provider or device, and for
    nnhal's own provider.
    """
    path = _path_of(library)
    # Some providers are called as they are registered, others have a name of their own.
    found = _devices_in(path, name or path.stem.removeprefix("lib").removeprefix("onnxruntime_"))
    names = sorted({each.ep_name for each in found})
    if not names:
        raise ValueError(f"{path}: its provider finds no device on this machine that it could use")
    if not name and len(names) > 1:
        raise ValueError(f"{path} has the providers {', '.join(names)}: option provider says which")
    own = [each for each in found if each.ep_name == (name or names[0])]
    if not own:
        raise ValueError(f"{path} has no provider {name!r}: expected {', '.join(names)}")
    if number >= len(own):
        raise ValueError(f"{own[0].ep_name} has {len(own)} devices on this machine, got device {number}, from 0 on")
    return PluginProvider(own[0].ep_name, own[number], options)


def _path_of(library: str) -> Path:
    """The path of a library. Raises ValueError if there is none, or it is nnhal's own."""
    path = Path(library)
    if "/" not in library and not path.exists():
        path = _library_of_package(library)
    if not path.is_file():
        raise ValueError(f"library {path}: No such file")
    with open_given_file(path, "a shared object") as file:
        is_own = path.stat().st_size and mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).find(_OWN.encode()) >= 0
    if is_own:
        raise ValueError(f"library {path} has {_OWN}, whose models would come back to this device")
    return path.resolve()


def _library_of_package(name: str) -> Path:
    try:
        package = import_module(name)
    except ImportError as error:
        raise ValueError(
            f"library {name!r} is neither a file nor a Python package that can be imported: {error}"
        ) from error
    for function in _LIBRARY_OF_PACKAGE:
        if hasattr(package, function):
            return Path(getattr(package, function)())
    raise ValueError(f"package {name} does not say where its library is: expected {' or '.join(_LIBRARY_OF_PACKAGE)}")


@cache
def _devices_in(path: Path, name: str) -> Sequence[onnxruntime.OrtEpDevice]:
    """Load a library under a name, once in this process, and return the devices of its providers."""
    before = {each.ep_name for each in onnxruntime.get_ep_devices()}
    try:
        onnxruntime.register_execution_provider_library(name, str(path))
    except RUNTIME_ERRORS as error:
        raise ValueError(f"ONNX Runtime does not load {path}: {words_of(error)}") from error
    return tuple(each for each in onnxruntime.get_ep_devices() if each.ep_name not in before)
