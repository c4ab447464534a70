"""KServe's client against a server with the models of tests: ``kserve_client.py HTTP_ADDRESS GRPC_ADDRESS``.

Runs where KServe is installed and nnhal need not be; ``make peers`` makes such an environment.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

GIVEN = {
    "FP32": np.array([[0.5, -1.5, 2.0, 0.0]], np.float32),
    "FP64": np.array([[0.5, -1.5, 2.0, 0.0]], np.float64),
    "FP16": np.array([[0.5, -1.5, 2.0, 0.0]], np.float16),
    "INT8": np.array([[-128, 127, 0, 1]], np.int8),
    "INT64": np.array([[-(2**63), 2**63 - 1, 0, 1]], np.int64),
    "UINT8": np.array([[0, 255, 1, 2]], np.uint8),
    "BOOL": np.array([[True, False, True, True]]),
    "BYTES": np.array([[b"", b"a", "käse".encode(), b"a b"]], object),
}


def request(model: str, datatype: str, array: Any, binary: bool) -> InferRequest:
    """One input, ``x``."""
    tensor = InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    wanted = [RequestedOutput("y", {"binary_data": binary})]
    return InferRequest(model, [tensor], request_id="k1", request_outputs=wanted)


def require_same(answer: Any, array: Any) -> None:
    """The output is the input, and the request's id came back."""
    assert answer.id == "k1", answer.id
    (output,) = answer.outputs
    found = output.as_numpy()
    if array.dtype == object:
        found = np.array([item.encode() if isinstance(item, str) else item for item in found.reshape(-1)], object)
    np.testing.assert_array_equal(found.reshape(array.shape), array)


async def by_rest(address: str) -> None:
    """HTTP, with tensors as JSON and as binary data."""
    base = f"http://{address}"
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    assert await client.is_server_live(base)
    assert await client.is_server_ready(base)
    assert await client.is_model_ready(base, "tanh")
    assert not await client.is_model_ready(base, "nobody")
    for datatype, array in GIVEN.items():
        for binary in (True, False):
            if datatype != "FP16" or binary:
                model = f"echo_{datatype.lower()}"
                require_same(await client.infer(base, request(model, datatype, array, binary), model_name=model), array)
    try:
        await client.infer(base, request("nobody", "FP32", GIVEN["FP32"], True), model_name="nobody")
    except Exception as error:
        assert "404" in str(error), error
    else:
        raise AssertionError("an unknown model was served")
    await client.close()


async def by_grpc(address: str) -> None:
    async with InferenceGRPCClient(address) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("tanh")
        for datatype, array in GIVEN.items():
            binary = datatype in ("FP16", "BYTES")
            require_same(await client.infer(request(f"echo_{datatype.lower()}", datatype, array, binary)), array)


def main() -> None:
    http, grpc = sys.argv[1:]
    asyncio.run(by_rest(http))
    asyncio.run(by_grpc(grpc))


if __name__ == "__main__":
    main()
