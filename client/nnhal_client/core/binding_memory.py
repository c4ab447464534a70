"""The memory of one binding: where inputs and outputs lie in it, and what the framework gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import le
from typing import Protocol

import numpy as np

from nnhal.arrays import Array
from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.descriptor import Descriptor
from nnhal.extensions.values import PADDING_BYTES, Value, padded
from nnhal.tensors import GUESS, ClientMemory, Tensor, TensorMemory
from nnhal.types.layout import Dimensions, describe
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.tensors import fill, input_dimensions, require_known

_DEFAULT = ClientMemory()


class DomainMemoryHandle(Protocol):
    """Memory of ``Framework.allocate``."""

    @property
    def handle(self) -> int:
        """The framework's number of it."""


class BindingMemory:
    """The memory of all inputs and outputs of a model, but for those in memory of ``Framework.allocate``."""

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, DomainMemoryHandle],
        varies: bool = False,
        memory: ClientMemory = _DEFAULT,
    ) -> None:
        """``dimensions`` are those of inputs whose dimensions the model does not say, and of outputs if they are known.
        If it ``varies``, those of inputs are the largest, and each run has its own.

        Raises ValueError if dimensions of an input are missing, or if either names what is no input or output.
        """
        names = {tensor.name for tensor in (*inputs, *outputs)}
        require_known(dimensions, inputs, outputs)
        if not memories.keys() <= names:
            raise ValueError(f"got memory for {sorted(memories)}, expected some of {sorted(names)}")
        self._memories = dict(memories)
        self._varies = varies
        self._bound_inputs, self._bound_outputs = inputs, outputs
        own_inputs = [tensor for tensor in inputs if tensor.name not in memories]
        own_outputs = [tensor for tensor in outputs if tensor.name not in memories]
        self._unknown = [tensor for tensor in own_outputs if tensor.is_open]
        self.dimensions = {
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in inputs},
            **{tensor.name: input_dimensions(tensor, dimensions) for tensor in own_inputs},
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in outputs},
        }
        """The dimensions of each input and output at binding."""
        self._memory = found = TensorMemory(
            {t.name: max(1, t.bytes_of(self.dimensions[t.name])) for t in own_inputs},
            {t.name: t.byte_size or max(GUESS, t.bytes_of(self.dimensions[t.name])) for t in own_outputs},
            memory.create,
            memory.alignment,
        )
        # What makes views holds the pool alone: with this object, it would be in a reference cycle.
        views = {
            t.name: partial(t.view, found.pool_of(t.name), found.locations[t.name].offset)
            for t in (*own_inputs, *own_outputs)
        }
        shown = {t.name: (0,) if t.is_open else t.dimensions for t in own_outputs}
        self.inputs = Views({t.name: views[t.name] for t in own_inputs}, self.dimensions)
        self.outputs = Views({t.name: views[t.name] for t in own_outputs}, shown)

    @property
    def has_unknown_dimensions(self) -> bool:
        """Return whether an output in the pool gets its dimensions from a run."""
        return bool(self._unknown)

    def room(self, name: str) -> int:
        """The bytes that an output has in the pool; 0 if it lies in memory of ``Framework.allocate``."""
        location = self._memory.locations.get(name)
        return 0 if location is None else location.length

    def fill(self, arrays: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs. Raises ValueError if names, element types or dimensions differ."""
        fill(self.inputs, arrays)

    def put(self, name: str, value: Value) -> None:
        """Copy a value into an input, encoded if it is no tensor of numbers. Raises as ``Binding.put``."""
        view = self.inputs.get(name)
        if view is None:
            raise ValueError(f"no input {name!r} in memory of the binding; there are {sorted(self.inputs)}")
        (tensor,) = (tensor for tensor in self._bound_inputs if tensor.name == name)
        stored = tensor.array(value)
        if tensor.element_type is None and stored.size != view.size:
            needed = stored.size + PADDING_BYTES
            if needed > view.size:
                raise ValueError(
                    f"the value of input {name!r} needs {needed:,} bytes of memory, of {view.size:,}: "
                    f"bind(dimensions={{{name!r}: ({needed},)}}) makes room"
                )
            stored = np.frombuffer(padded(stored.tobytes(), view.size), np.uint8)
        fill({name: view}, {name: stored})

    def value(self, name: str) -> Value:
        """Copy an output's value. Raises as ``Binding.value``."""
        if name not in self.outputs:
            raise ValueError(f"no output {name!r} in memory of the binding; there are {sorted(self.outputs)}")
        (tensor,) = (tensor for tensor in self._bound_outputs if tensor.name == name)
        return tensor.value(self.outputs[name])

    def resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        """Show outputs in the dimensions that a run has reported."""
        for tensor in self._unknown:
            found = dimensions.get(tensor.name)
            if found is not None:
                self.outputs.show(tensor.name, found)

    def has_room(self, lengths: Mapping[str, Dimensions]) -> bool:
        return all(is_within(found, self.dimensions[name]) for name, found in lengths.items())

    def resize_inputs(self, lengths: Mapping[str, Dimensions]) -> None:
        for name, dimensions in lengths.items():
            self.inputs.show(name, dimensions)

    def shortage(self, dimensions: Mapping[str, Dimensions]) -> str:
        """Say which outputs need more memory, and how they get it, after a run that has reported dimensions."""
        reasons, needed = [], {}
        for tensor in self._unknown:
            found, room = dimensions.get(tensor.name, ()), self.room(tensor.name)
            size = tensor.bytes_of(found) if found and 0 not in found else 0
            if 0 < size <= room:
                continue
            needed[tensor.name] = str(found) if size else "…"
            got = describe(found or tensor.dimensions)
            reasons.append(
                f"output {tensor.name!r} of dimensions {got} has {room:,} bytes" + f" of {size:,}" * bool(size)
            )
        given = ", ".join(f"{name!r}: {found}" for name, found in needed.items())
        return f": {'; '.join(reasons)}; bind(dimensions={{{given}}}) makes room" if reasons else ""

    def bind_request(
        self, model: str, measure_timing: bool, direct: bool, prepares: bool, issue: Callable[[Descriptor], int]
    ) -> wire.BindRequest:
        """The request that binds a model, named as in the session, to this memory; ``issue`` puts descriptors.

        ``prepares`` asks for a plan for the dimensions of the inputs at once.
        """
        return wire.BindRequest(
            model=model,
            inputs=[self._bound(t, self.dimensions[t.name] if t.is_open else ()) for t in self._bound_inputs],
            outputs=[self._bound(tensor, ()) for tensor in self._bound_outputs],
            pools=[memory_to_wire(memory, issue) for memory in self._memory.pools],
            measure_timing=measure_timing,
            wants_run_channel=direct and not measure_timing,
            prepares_dimensions=prepares,
            takes_turns=True,
            lengths_by_run=self._varies,
        )

    def _bound(self, tensor: Tensor, dimensions: Dimensions) -> wire.TensorBinding:
        memory = self._memories.get(tensor.name)
        if memory is not None:
            return wire.TensorBinding(name=tensor.name, memory=memory.handle, dimensions=dimensions)
        location = location_to_wire(self._memory.locations[tensor.name])
        return wire.TensorBinding(name=tensor.name, location=location, dimensions=dimensions)


class Views(Mapping[str, Array]):
    """Views of memory by name. One whose dimensions have changed is made when it is asked for."""

    def __init__(
        self, makers: Mapping[str, Callable[[Dimensions], Array]], dimensions: Mapping[str, Dimensions]
    ) -> None:
        self._makers = makers
        self._dimensions = {name: dimensions[name] for name in makers}
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._makers[name](self._dimensions[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return repr(dict(self))

    def show(self, name: str, dimensions: Dimensions) -> None:
        if self._dimensions[name] != dimensions:
            self._dimensions[name] = dimensions
            self._made.pop(name, None)


def is_within(dimensions: Dimensions, most: Sequence[float]) -> bool:
    return len(dimensions) == len(most) and all(map(le, dimensions, most))
