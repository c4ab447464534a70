"""The unmodified tritonclient, for both protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType, TracebackType
from typing import Any

from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal.inference.datatypes import datatype_of


@dataclass
class Triton:
    """A client; ``name`` is ``grpc`` or ``http``, and ``api`` is ``tritonclient.grpc`` or ``tritonclient.http``."""

    name: str
    api: ModuleType
    address: str

    @cached_property
    def client(self) -> Any:
        return self.api.InferenceServerClient(self.address)

    def inputs(self, arrays: Mapping[str, Array], **how: Any) -> list[Any]:
        """Return inputs with contents. ``how`` is for set_data_from_numpy of HTTP."""
        return [input_of(self.api, name, array, **how) for name, array in arrays.items()]

    def infer(self, model: str, arrays: Mapping[str, Array], outputs: Sequence[str] = (), **options: Any) -> Any:
        """Run a model. Raises InferenceServerException."""
        wanted = [self.api.InferRequestedOutput(name) for name in outputs] or None
        return self.client.infer(model, self.inputs(arrays), outputs=wanted, **options)

    def shown(self, call: str, *arguments: Any, **options: Any) -> Any:
        if self.name == "grpc":
            options["as_json"] = True
        return getattr(self.client, call)(*arguments, **options)

    def __enter__(self) -> Triton:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()


def input_of(api: ModuleType, name: str, array: Array, **how: Any) -> Any:
    datatype = datatype_of(array).name
    tensor = api.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, **how)
    return tensor


def status_of(error: InferenceServerException) -> str:
    """Return an error's status, such as ``INVALID_ARGUMENT`` or ``400``."""
    return str(error.status()).removeprefix("StatusCode.")
