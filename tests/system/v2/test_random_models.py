"""Random models of ONNX, served by the protocol and called as tritonclient does, answer as ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.http import InferRequestedOutput

from nnhal.arrays import Array
from tests.support.model_server import Served
from tests.support.onnx_operators import MAKERS
from tests.support.random_models import Case, examples, models
from tests.support.tritonclients import Triton, input_of

NAME, SHARED = "random", "shared memory"
APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}


def answers(served: Served, case: Case, way: str) -> dict[str, Array]:
    """Load the model, run it, and unload it.

    ``way`` is one of ``grpc``, ``http`` (tensors as bytes), ``json`` and ``shared memory`` (by gRPC).
    """
    protocol = "grpc" if way in ("grpc", SHARED) else "http"
    with Triton(protocol, APIS[protocol], getattr(served, protocol)) as triton:
        triton.client.load_model(NAME, config='{"max_batch_size": 0}', files={"file:1/model.onnx": case.content})
        described = triton.shown("get_model_metadata", NAME)
        assert [tensor["name"] for tensor in described.get("inputs", [])] == [*case.inputs]
        assert [tensor["name"] for tensor in described["outputs"]] == [*case.expected]
        outputs, how = None, {}
        if way == "json" and not any(array.dtype == np.float16 for array in (case.inputs | case.expected).values()):
            outputs, how = (
                [InferRequestedOutput(name, binary_data=False) for name in case.expected],
                {"binary_data": False},
            )
        if way == SHARED:
            return by_shared_memory(triton, case)
        inputs = [input_of(triton.api, name, array, **how) for name, array in case.inputs.items()]
        answer = triton.client.infer(NAME, inputs, outputs=outputs)
        return {name: decoded(answer.as_numpy(name)) for name in case.expected}


def by_shared_memory(triton: Triton, case: Case) -> dict[str, Array]:
    """Run it with the tensors of one region, one behind the other: those of numbers, if they have elements."""
    sizes = {name: a.nbytes for name, a in (case.inputs | case.expected).items() if a.dtype.kind != "O" and a.nbytes}
    offsets = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    region = shm.create_shared_memory_region(NAME, NAME, sum(sizes.values()) + 1)
    try:
        triton.client.register_system_shared_memory(NAME, NAME, sum(sizes.values()) + 1)
        inputs = [input_of(triton.api, name, array) for name, array in case.inputs.items()]
        outputs = [triton.api.InferRequestedOutput(name) for name in case.expected]
        for tensor in (*inputs, *outputs):
            if tensor.name() in sizes:
                tensor.set_shared_memory(NAME, sizes[tensor.name()], offsets[tensor.name()])
        for name in case.inputs.keys() & sizes.keys():
            shm.set_shared_memory_region(region, [case.inputs[name].reshape(-1)], offsets[name])
        answer = triton.client.infer(NAME, inputs, outputs=outputs)
        return {
            name: shm.get_contents_as_numpy(region, array.dtype, array.shape, offsets[name]).copy()
            if name in sizes
            else decoded(answer.as_numpy(name))
            for name, array in case.expected.items()
        }
    finally:
        triton.client.unregister_system_shared_memory(NAME)
        shm.destroy_shared_memory_region(region)


def decoded(array: Array) -> Array:
    """The strings of an array of bytes; another array as it is."""
    if array.dtype.kind != "O":
        return array
    words = [word if isinstance(word, str) else word.decode() for word in array.reshape(-1)]
    return np.array(words, object).reshape(array.shape)


@examples(40)
@given(
    case=st.booleans().flatmap(lambda empties: models(MAKERS, 4, empties)),
    way=st.sampled_from(["http", "json", "grpc", SHARED]),
)
def test_random_models_are_answered_as_by_onnxruntime(served: Served, case: Case | None, way: str) -> None:
    if case is not None:
        assert case.differences(answers(served, case, way)) == []
