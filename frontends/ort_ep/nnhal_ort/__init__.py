"""nnhal_ort: ONNX Runtime runs models over the devices of nnhal.

import nnhal_ort, onnxruntime

nnhal_ort.register()
session = onnxruntime.InferenceSession("model.onnx", providers=[nnhal_ort.get_ep_name()])

docs/doors.md#onnx-runtime says which options there are, and what a session does.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

__all__ = ["get_ep_name", "get_library_path", "put_first", "register"]

_LEAST = (1, 24)
_SPIN, _SPIN_US = "session.intra_op.allow_spinning", "session.intra_op.spin_duration_us"
_REGISTERING = threading.Lock()


def get_ep_name() -> str:
    """Return the name by which sessions ask for the provider."""
    return "NnhalExecutionProvider"


def get_library_path() -> str:
    """Return the library that ONNX Runtime is to register. Raises FileNotFoundError if it was not built."""
    library = Path(__file__).with_name("libnnhal_ort.so")
    if not library.exists():
        builder = Path(__file__).parents[1] / "build_library.py"
        raise FileNotFoundError(f"{library} is missing: python {builder} builds it, with g++ (apt-get install g++)")
    return str(library)


def register(name: str = "nnhal") -> None:
    """Register the provider with the ONNX Runtime of this process, unless it has devices there already.

    Its devices are those that the framework of NNHAL_FRAMEWORK, by default that of ``nnhal up``, has at this moment. If
    ``name`` ends with ".virtual", each is a device of its own kind; otherwise all are the CPU. If no framework answers
    there are none, and the first session that names the provider looks again: it raises ConnectionError if there is
    still no framework, where ONNX Runtime would run the model on the CPU.

    Raises RuntimeError if ONNX Runtime is older than 1.24.
    """
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < _LEAST:
        raise RuntimeError(f"ONNX Runtime 1.24 or later is needed, and this is {onnxruntime.__version__}")
    _find_devices(name)
    if not getattr(onnxruntime.InferenceSession._create_inference_session, "finds_nnhal", False):
        _intercept(name)


def _has_devices() -> bool:
    import onnxruntime

    return any(device.ep_name == get_ep_name() for device in onnxruntime.get_ep_devices())


def _find_devices(name: str) -> None:
    """Register the library under a name, unless the provider has devices."""
    import onnxruntime

    with _REGISTERING:
        if _has_devices():
            return
        with contextlib.suppress(Exception):  # of a type that ONNX Runtime does not name, if it was not registered
            onnxruntime.unregister_execution_provider_library(name)
        onnxruntime.register_execution_provider_library(name, get_library_path())


def _intercept(name: str) -> None:
    """Have sessions that name the provider get it, or an error: a provider that it does not know is none to ONNX
    Runtime, which would run the model on the CPU, and 1.24 finds only its own providers by their names.
    """
    import onnxruntime
    from onnxruntime.capi.onnxruntime_inference_collection import check_and_normalize_provider_args

    sessions: Any = onnxruntime.InferenceSession
    create = sessions._create_inference_session

    def create_with_devices(self: Any, providers: Any, provider_options: Any, *others: Any) -> None:
        if get_ep_name() not in _names(providers):
            create(self, providers, provider_options, *others)
            return
        _find_devices(name)
        if not _has_devices():
            named = os.environ.get("NNHAL_FRAMEWORK")
            where = f" in {named}" if named else ": 'nnhal up' starts one, and 'nnhal ort -- PROGRAM' one for a program"
            # Of a RuntimeError ONNX Runtime would say so, and run the model on the CPU.
            raise ConnectionError(f"no framework of nnhal has answered{where}")
        self._sess_options = self._sess_options or onnxruntime.SessionOptions()
        _spin_briefly(self._sess_options)
        known = onnxruntime.get_available_providers()
        if get_ep_name() in known:
            create(self, providers, provider_options, *others)
            return
        names, options = check_and_normalize_provider_args(providers, provider_options, [*known, get_ep_name()])
        if not self._sess_options.has_providers():
            first = {device.ep_name: device for device in reversed(onnxruntime.get_ep_devices())}
            for each, chosen in zip(names, options, strict=True):
                if each in first:
                    self._sess_options.add_provider_for_devices([first[each]], chosen)
        create(self, None, None, *others)

    create_with_devices.finds_nnhal = True  # type: ignore[attr-defined] # of this function alone
    sessions._create_inference_session = create_with_devices


def _spin_briefly(options: Any) -> None:
    """Have threads of a session that find no work sleep after a millisecond, unless its program has said otherwise.

    By default they spin for 30 ms when the session is made, on processors that its load needs in other processes.
    """
    for key in (_SPIN, _SPIN_US):
        with contextlib.suppress(RuntimeError):  # there is no such entry
            options.get_session_config_entry(key)
            return
    options.add_session_config_entry(_SPIN_US, "1000")


def _names(providers: Any) -> list[str]:
    """The providers that a session is given: names, and pairs of a name and its options."""
    return [provider[0] if isinstance(provider, tuple) else provider for provider in providers or ()]


def put_first() -> None:
    """Give all sessions of this process the provider, before the providers that the program names.

    What nnhal does not take they run as the program has asked for. Sessions raise ConnectionError if there is no
    framework: none runs elsewhere than it should.
    """
    import onnxruntime

    register()
    sessions: Any = onnxruntime.InferenceSession
    create = sessions._create_inference_session

    def create_with_nnhal(self: Any, providers: Any, provider_options: Any, *others: Any) -> None:
        options = self._sess_options
        if not providers and options is not None and options.has_providers():
            create(self, providers, provider_options, *others)
            return
        named = list(providers or [p for p in onnxruntime.get_available_providers() if p != get_ep_name()])
        if get_ep_name() not in _names(named):
            named.insert(0, get_ep_name())
            provider_options = [{}, *provider_options] if provider_options else None
        create(self, named, provider_options, *others)

    create_with_nnhal.finds_nnhal = True  # type: ignore[attr-defined] # of this function alone
    sessions._create_inference_session = create_with_nnhal
