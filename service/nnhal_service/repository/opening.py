"""Loading one version of a model, up to the end of its warm-up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Generic, NoReturn

from nnhal.errors import HalError, TransportError
from nnhal.exhaustion import lack_of
from nnhal.inference import model_config_pb2 as wire
from nnhal.shares import Level, Tenant, acting_for
from nnhal.types import ErrorStatus
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits, ModelFormat
from nnhal_frontends.errors import FrontendError, UnreadableModel
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError
from nnhal_service.repository.completion import complete, seen_by_clients
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.parameters import placement_parameters
from nnhal_service.repository.ready_versions import Opened, S, Serve
from nnhal_service.repository.sequences import complete_sequences, state_pairs, without_controls
from nnhal_service.repository.serving_config import serving_config_of
from nnhal_service.repository.source import ModelSource
from nnhal_service.repository.tensors import inputs_of, optional_inputs_of, outputs_of, states_of
from nnhal_service.repository.warmup import warmup_requests
from nnhal_service.runtime import NO_SUBSTITUTES, CacheDirectory, Fleet, LoadedModel, Substitutes, load_model
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest

_FORMATS = {".onnx": ModelFormat.ONNX, ".tflite": ModelFormat.TFLITE}
_FILES = ("model.onnx", "model.tflite")
_KINDS = {
    ErrorStatus.DEVICE_UNAVAILABLE: ErrorKind.UNAVAILABLE,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: ErrorKind.RESOURCE_EXHAUSTED,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: ErrorKind.RESOURCE_EXHAUSTED,
    ErrorStatus.INVALID_ARGUMENT: ErrorKind.INVALID_ARGUMENT,
}
_log = get_logger(__name__)


class Opener(Generic[S]):
    """Loads versions on a fleet. ``serve`` makes the served models; compilations are kept in ``cache_directory``.

    ``limits`` are those of importing a file. ``substitutes`` are prepared for versions that have been loaded.
    """

    def __init__(
        self,
        fleet: Fleet,
        serve: Serve[S],
        cache_directory: str = "",
        limits: ImportLimits = DEFAULT_LIMITS,
        substitutes: Substitutes = NO_SUBSTITUTES,
    ) -> None:
        self._limits = limits
        self._substitutes = substitutes
        self._fleet = fleet
        self._serve = serve
        self._cache_directory = cache_directory

    def open(self, name: str, version: int, config: wire.ModelConfig, source: ModelSource) -> Opened[S]:
        """Load a version and run its warm-up. Raises ServingError, and then leaves nothing behind."""
        with _named(name, version), acting_for(_client(name)), self._substitutes.loading(), ExitStack() as undo:
            opened = self._open(name, version, config, source, undo)
            undo.pop_all()
            return opened

    def _open(
        self, name: str, version: int, config: wire.ModelConfig, source: ModelSource, undo: ExitStack
    ) -> Opened[S]:
        file = model_file(version, config, source)
        placement = placement_parameters(config)
        self._require_devices(placement.devices)
        path = f"{version}/{file}"
        model_format = _FORMATS[PurePosixPath(file).suffix]
        loaded = load_model(
            source.read(path),
            self._fleet,
            placement.devices,
            placement.options,
            model_format,
            self._cache(placement.cache_token),
            self._limits,
            states=state_pairs(config, source),
            tensors_only=True,
            signature=placement.signature,
            weights=source.weights(path) if model_format == ModelFormat.ONNX else {},
        )
        undo.callback(loaded.close)
        inputs, outputs = inputs_of(loaded.prepared), outputs_of(loaded.prepared, config.max_batch_size > 0)
        visible = without_controls(config, inputs)
        whole = complete(config, name, file, [*visible, *optional_inputs_of(loaded.prepared, config)], outputs)
        complete_sequences(whole, states_of(loaded.prepared))
        serving, requests = (
            serving_config_of(whole, source, inputs, outputs),
            warmup_requests(whole, seen_by_clients(whole, visible), source),
        )
        served = self._served(name, version, loaded, serving, requests, undo)
        return Opened(name, version, served, whole, source.path(path))

    def reopen(
        self,
        opened: Opened[S],
        load: Callable[[], LoadedModel],
        config: wire.ModelConfig,
        serving: ServingConfig,
        source: ModelSource,
    ) -> Opened[S]:
        """Serve a version by another plan, which ``load`` prepares, and run its warm-up.

        ``config`` is complete, and ``serving`` what was made of it. Warm-up requests with data from files that came
        with a request are left out: the files are not kept. Raises as ``open``.
        """
        client = _client(opened.name)
        with _named(opened.name, opened.version), acting_for(client), self._substitutes.loading(), ExitStack() as undo:
            self._require_devices(placement_parameters(config).devices)
            loaded = load()
            undo.callback(loaded.close)
            visible = without_controls(config, inputs_of(loaded.prepared))
            requests = warmup_requests(config, seen_by_clients(config, visible), source, skip_files=not opened.file)
            served = self._served(opened.name, opened.version, loaded, serving, requests, undo)
            undo.pop_all()
            return Opened(opened.name, opened.version, served, config, opened.file)

    def _served(
        self,
        name: str,
        version: int,
        loaded: LoadedModel,
        serving: ServingConfig,
        requests: Sequence[InferenceRequest],
        undo: ExitStack,
    ) -> S:
        served = self._serve(name, str(version), loaded, serving)
        undo.callback(served.close)
        served.warm_up(requests)
        loaded.insure(self._substitutes)
        return served

    def _require_devices(self, names: Sequence[str]) -> None:
        known = ", ".join(self._fleet.names) or "none"
        for name in names:
            if name not in self._fleet.names:
                _refuse(f"nnhal.devices names {name!r}, expected some of {known}")
        if not self._fleet.available(names):
            raise ServingError(ErrorKind.UNAVAILABLE, f"no device answers, expected one of {', '.join(names) or known}")

    def _cache(self, token: bytes) -> CacheDirectory | None:
        return CacheDirectory(Path(self._cache_directory), token) if self._cache_directory and token else None


def model_file(version: int, config: wire.ModelConfig, source: ModelSource) -> str:
    """Return the name of the model's file in a version's folder. Raises INVALID_ARGUMENT without one, or with two."""
    there = source.files(str(version))
    name = config.default_model_filename
    if name:
        if not is_file_name(name) or PurePosixPath(name).suffix not in _FORMATS:
            _refuse(f"default_model_filename is {name!r}, expected a name that ends in {' or '.join(_FORMATS)}")
        if name not in there:
            _refuse(f"there is no {name!r}, expected the file that default_model_filename names")
        return name
    found = [file for file in _FILES if file in there]
    if len(found) != 1:
        got = " and ".join(found or there) or "no file"
        _refuse(f"its folder has {got}, expected one file of the names {' and '.join(_FILES)}; folders do not count")
    return found[0]


def _client(name: str) -> Tenant:
    """A model of the repository is a client of its own: what one takes at a device, others need not miss."""
    return Tenant((Level(f"m{name}", f"model {name!r} of the repository"),))


@contextmanager
def _named(name: str, version: int) -> Generator[None]:
    """Turn errors into ServingErrors that name the model."""
    try:
        yield
    except ServingError as error:
        raise _failed(name, version, error.kind, error.message) from error
    except (FrontendError, PlacementError) as error:
        if isinstance(error, UnreadableModel):
            _log.warning("a reader has failed in a model", model=name, version=version, exc_info=error)
        raise _failed(name, version, ErrorKind.INVALID_ARGUMENT, str(error)) from error
    except HalError as error:
        raise _failed(name, version, _KINDS.get(error.status, ErrorKind.INTERNAL), error.message) from error
    except TransportError as error:
        # The message may say where the device's sockets are.
        _log.error("a device is gone while a model is loaded", model=name, version=version, reason=str(error))
        raise _failed(name, version, ErrorKind.UNAVAILABLE, "a device is gone") from error
    except (MemoryError, OSError, RuntimeError) as error:
        lack = lack_of(error)
        if not lack:
            raise
        raise _failed(name, version, ErrorKind.RESOURCE_EXHAUSTED, lack) from error


def _failed(name: str, version: int, kind: ErrorKind, reason: str) -> ServingError:
    return ServingError(kind, f"failed to load {name!r}, version {version}: {reason}")


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
