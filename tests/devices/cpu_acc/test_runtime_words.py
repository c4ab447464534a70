from __future__ import annotations

import pytest

from nnhal.types import ErrorStatus
from nnhal_devices.cpu_acc.runtime_words import runtime_failure, words_of

_SOURCES = "/onnxruntime_src/onnxruntime/core/framework"
NO_MEMORY = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Expand node. Name:'a' Status Message: "
    f"{_SOURCES}/bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) "
    "Failed to allocate memory for requested buffer of size 17179869184\n"
)
NEGATIVE = (
    f"[ONNXRuntimeError] : 1 : FAIL : {_SOURCES}/op_kernel.cc:87 virtual OrtValue* onnxruntime::OpKernelContext::"
    "OutputMLValue(int, const onnxruntime::TensorShape&) [ONNXRuntimeError] : 1 : FAIL : tensor.cc:57 "
    "CalculateTensorStorageSize Tensor shape.Size() must be >= 0"
)
_NODE = "Non-zero status code returned while running %s node. Name:'%s' Status Message: "
INDEX = "indices element out of data bounds, idx=9 must be within the inclusive range [-3,2]"
OVERFLOW = (
    "/onnxruntime_src/onnxruntime/core/common/safeint.h:17 static void "
    "SafeIntExceptionHandler<onnxruntime::OnnxRuntimeException>::SafeIntOnOverflow() Integer overflow"
)


def test_memory_that_it_has_not_is_exhausted() -> None:
    failure = runtime_failure("ONNX Runtime failed", RuntimeError(NO_MEMORY))
    assert failure.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
    assert failure.message == "ONNX Runtime failed: the host has no memory left for 17179869184 bytes"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NEGATIVE, "CalculateTensorStorageSize Tensor shape.Size() must be >= 0"),
        (OVERFLOW, "Integer overflow"),
        (
            "Error No Op registered for Foo with domain_version of 13",
            "Error No Op registered for Foo with domain_version of 13",
        ),
        ("", "it gives no reason"),
        (f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {_NODE % ('Gather', 'pick')}{INDEX}", f"Gather 'pick': {INDEX}"),
        (f"Error in execution: {_NODE % ('Gather', '')}{INDEX}", f"Gather: {INDEX}"),
        (f"{_NODE % ('If', 'its')}{_NODE % ('Gather', 'pick')}{INDEX}", f"If 'its': Gather 'pick': {INDEX}"),
        (
            f"{_NODE % ('Gather', 'operation 3 (EMBEDDING_LOOKUP) 7')}{INDEX}",
            f"operation 3 (EMBEDDING_LOOKUP): {INDEX}",
        ),
    ],
)
def test_sources_and_signatures_are_left_out(text: str, words: str) -> None:
    assert words_of(RuntimeError(text)) == words
    assert runtime_failure("ONNX Runtime failed", RuntimeError(text)).status == ErrorStatus.GENERAL_FAILURE
