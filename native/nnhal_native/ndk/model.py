"""Models as the library has them, made from the HAL's."""

from __future__ import annotations

from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, Subgraph
from nnhal.types import Model as HalModel
from nnhal.types.layout import is_extension
from nnhal_native.ndk.handle import Handle
from nnhal_native.ndk.library import asked, call, ffi, numbers, operand_type
from nnhal_native.ndk.memory import Memory

_CODES = 1 << 16


class Model(Handle):
    """ANeuralNetworksModel, finished."""

    def __init__(self, given: HalModel, graph: Subgraph | None = None) -> None:
        """Build ``graph`` of a model, by default what is executed.

        Raises NeuralNetworksError, BAD_DATA for what is invalid.
        """
        self._kept: list[object] = []  # memory and models that operands refer to
        super().__init__("Model", asked("Model_create", "ANeuralNetworksModel*"), self._kept)
        self._model = given
        self._graph = graph or given.main
        self._names = {entry.prefix: entry.name for entry in given.extension_name_to_prefix}
        for index, operand in enumerate(self._graph.operands):
            self._add_operand(index, operand)
        for operation in self._graph.operations:
            code = self._code(operation.type, "Operation")
            lists = [
                len(operation.inputs),
                numbers(operation.inputs),
                len(operation.outputs),
                numbers(operation.outputs),
            ]
            call("Model_addOperation", self.pointer, code, *lists)
        inputs, outputs = self._graph.input_indexes, self._graph.output_indexes
        call(
            "Model_identifyInputsAndOutputs", self.pointer, len(inputs), numbers(inputs), len(outputs), numbers(outputs)
        )
        call("Model_relaxComputationFloat32toFloat16", self.pointer, given.relax_computation_float32_to_float16)
        call("Model_finish", self.pointer)

    def _code(self, code: int, of: str) -> int:
        """Return the library's code of an operand or operation type: those of extensions have prefixes of its own."""
        if not is_extension(code):
            return int(code)
        prefix, number = divmod(code, _CODES)
        name = self._names[prefix].encode()
        return int(asked(f"Model_getExtension{of}Type", "int32_t", self.pointer, name, number))

    def _add_operand(self, index: int, operand: Operand) -> None:
        call("Model_addOperand", self.pointer, operand_type(operand, self._code(operand.type, "Operand")))
        extra = operand.extra_params
        if isinstance(extra, ChannelQuant):
            scales = ffi.new("float[]", list(extra.scales))
            given = ffi.new("ANeuralNetworksSymmPerChannelQuantParams*", (extra.channel_dim, len(extra.scales), scales))
            call("Model_setOperandSymmPerChannelQuantParams", self.pointer, index, given)
        elif isinstance(extra, bytes):
            call("Model_setOperandExtensionData", self.pointer, index, extra or ffi.NULL, len(extra))
        place = operand.location
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY:
            value = self._model.operand_values[place.offset : place.offset + place.length]
            call("Model_setOperandValue", self.pointer, index, value, len(value))
        elif operand.lifetime == OperandLifeTime.NO_VALUE:
            call("Model_setOperandValue", self.pointer, index, ffi.NULL, 0)
        elif operand.lifetime == OperandLifeTime.CONSTANT_POOL:
            memory = Memory(self._model.pools[place.pool_index])
            self._kept.append(memory)
            call("Model_setOperandValueFromMemory", self.pointer, index, memory.pointer, place.offset, place.length)
        elif operand.type == OperandType.SUBGRAPH:
            inner = Model(self._model, self._model.referenced[place.offset])
            self._kept.append(inner)
            call("Model_setOperandValueFromModel", self.pointer, index, inner.pointer)
