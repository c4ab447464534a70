"""The Open Inference Protocol V2 over HTTP, with Triton's binary tensor data."""

from __future__ import annotations

import json
from time import perf_counter_ns
from typing import Any

from benchmarks.serve.inputs import ServedSignature, TensorSpec, input_data
from benchmarks.serve.shared_tensors import Raw, SharedRange, shared_tensors
from benchmarks.serve.target import Target
from benchmarks.serve.transports import Requests
from benchmarks.serve.transports.http_connection import HttpConnection, require_ok
from nnhal.inference.datatypes import raw_from_array


def model_path(model: str, version: str) -> str:
    """The path of a model."""
    return f"/v2/models/{model}/versions/{version}" if version else f"/v2/models/{model}"


class HttpRequests(Requests):
    """Sends and receives binary tensors, or tensors in a region of shared memory."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._connection = HttpConnection(target.url, target.headers)
        self._path = model_path(target.model, target.version)
        self._region = ""
        try:
            signature = self._signature().of_batch(target.batch, target.shapes)
            self._header, self._raw = self._build(signature)
        except BaseException:
            self.close()
            raise

    def infer(self) -> None:
        started = perf_counter_ns()
        header = json.dumps(self._header).encode()
        size = len(header) + sum(map(len, self._raw))
        head = self._connection.head("POST", f"{self._path}/infer", size, len(header))
        self._connection.send([head, header, *self._raw])
        sent = perf_counter_ns()
        answer = self._connection.receive()
        answered = perf_counter_ns()
        require_ok(answer, f"POST {self._path}/infer")
        self.send_ns += sent - started
        self.receive_ns += perf_counter_ns() - answered

    def close(self) -> None:
        try:
            if self._region:
                self._connection.request("POST", f"/v2/systemsharedmemory/region/{self._region}/unregister")
        finally:
            self._connection.close()

    def _signature(self) -> ServedSignature:
        found = self._connection.request("GET", self._path)
        return ServedSignature(
            tuple(TensorSpec(t["name"], t["datatype"], tuple(map(int, t["shape"]))) for t in found["inputs"]),
            tuple(TensorSpec(t["name"], t["datatype"], tuple(map(int, t["shape"]))) for t in found["outputs"]),
        )

    def _build(self, signature: ServedSignature) -> tuple[dict[str, Any], list[Raw]]:
        target = self.target
        raw = {name: raw_from_array(array) for name, array in input_data(signature, target.data).items()}
        inputs: list[dict[str, Any]] = [
            {"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in signature.inputs
        ]
        outputs: list[dict[str, Any]] = [{"name": tensor.name} for tensor in signature.outputs]
        header = {"inputs": inputs, "outputs": outputs}
        if not target.shared_memory:
            for entry in inputs:
                entry["parameters"] = {"binary_data_size": len(raw[entry["name"]])}
            for entry in outputs:
                entry["parameters"] = {"binary_data": True}
            return header, [raw[tensor.name] for tensor in signature.inputs]
        shared = shared_tensors(raw, signature, target.output_bytes)
        key = shared.file.key
        try:
            register = {"key": key, "offset": 0, "byte_size": shared.file.size}
            self._connection.request("POST", f"/v2/systemsharedmemory/region/{key}/register", register)
        finally:
            shared.file.unlink()
        self._region = key
        for entry in (*inputs, *outputs):
            entry["parameters"] = _placed(key, shared.parts[entry["name"]])
        return header, []


def _placed(region: str, part: SharedRange) -> dict[str, Any]:
    return {
        "shared_memory_region": region,
        "shared_memory_byte_size": part.byte_size,
        "shared_memory_offset": part.offset,
    }
