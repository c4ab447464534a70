"""nnhal as a backend of ONNX: the interface of onnx.backend.base.

import nnhal_tools.onnx_backend as backend

outputs = backend.run_model(model, [image])

Models run on a framework process of this module's own, which starts with the first model and ends with this process,
unless ``framework`` is a session to use.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from nnhal.arrays import Array
from nnhal.extensions.values import Value
from nnhal_client.framework import Framework, connect
from nnhal_client.model import Model
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed

DEVICES: Mapping[str, tuple[str, ...]] = {"CPU": ("cpu_acc", "cpu_ref")}
"""The devices that run models, in order of preference, by ONNX's name for a device."""


class NnhalRep(BackendRep):
    """A loaded model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Sequence[Value] | Mapping[str, Value], **kwargs: Any) -> tuple[Value, ...]:
        """The outputs for one set of inputs, in the model's order or by name.

        Raises ValueError if the inputs do not fit the model, HalError if a device refuses them.
        """
        names = [tensor.name for tensor in self.model.inputs]
        given = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=False))
        outputs = self.model.run(given)
        results = namedtupledict("Outputs", [tensor.name for tensor in self.model.outputs])
        return results(*(outputs[tensor.name] for tensor in self.model.outputs))

    def __del__(self) -> None:
        self.model.unload()


class NnhalBackend(Backend):
    """The framework and its devices."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", framework: Framework | None = None, **kwargs: Any
    ) -> NnhalRep:
        """Load a model. Raises ValueError if the device is unknown, HalError if the model cannot be loaded."""
        del kwargs  # part of the interface, for other backends
        if not cls.supports_device(device):
            raise ValueError(f"device {device!r}, expected one of {sorted(DEVICES)}")
        session = framework or own_framework()
        with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
            path = Path(directory) / "model.onnx"
            onnx.save(model, path)
            return NnhalRep(session.load(path, DEVICES[device]))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Array],
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Value, ...]:
        """Run one node, of the newest opset or of ``opset_version``, and return its outputs."""
        del outputs_info  # shapes and types are inferred
        helper = onnx.helper
        names = [name for name in node.input if name]
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in zip(names, inputs, strict=True)
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        inferred = onnx.shape_inference.infer_shapes(model)
        return cls.prepare(inferred, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True if a device of that name is known."""
        return device.partition(":")[0] in DEVICES


@cache
def own_framework() -> Framework:
    """The session of this module, which ends with the process. Raises StartError."""
    stack = ExitStack()
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-"))
    testbed = stack.enter_context(Testbed(DEFAULT_TOPOLOGY, Path(directory)))
    session = stack.enter_context(connect(testbed.framework))
    owner = os.getpid()
    atexit.register(lambda: stack.close() if os.getpid() == owner else None)
    return session


prepare = NnhalBackend.prepare
run_model = NnhalBackend.run_model
run_node = NnhalBackend.run_node
supports_device = NnhalBackend.supports_device
