"""The client's end of a run channel: direct runs of one execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from google.protobuf.message import DecodeError

from nnhal.errors import HalError, TransportError
from nnhal.link import Channel
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.types.layout import Dimensions, combine, describe
from nnhal.v1 import burst_pb2


class RemoteRunChannel:
    """A run channel, which the device closes when the binding ends. The caller sends calls and receives answers."""

    def __init__(
        self,
        channel: Channel,
        execution: int,
        may_fall_back: bool,
        outputs: Sequence[str] = (),
        known: Mapping[str, Dimensions] = MappingProxyType({}),
        inputs: Sequence[str] = (),
        declared: Mapping[str, Dimensions] = MappingProxyType({}),
    ) -> None:
        """``may_fall_back`` says whether a failed run may be repeated through the framework.

        ``outputs`` are the names of those outputs whose dimensions answers may report, in the order of their shapes,
        and an empty string for what is no output of the model. ``known`` are dimensions that answers do not report.
        ``inputs`` are the names of the execution's inputs, if runs give their lengths. ``declared`` are the dimensions
        of the model's outputs, which no answer may contradict, and neither ``known`` unless runs give lengths.
        """
        self.channel = channel
        self.may_fall_back = may_fall_back
        self._execution = execution
        self._call = burst_run(execution, NO_DEADLINE)
        self._outputs = tuple(outputs)
        self._known = dict(known)
        self._declared = declared
        self._positions = {name: position for position, name in enumerate(inputs) if name}
        self._good: bytes | None = None
        self._dimensions: Mapping[str, Dimensions] = {}

    def call(self, deadline_ns: int = NO_DEADLINE) -> bytes:
        """The datagram that runs the execution once."""
        return self._call if deadline_ns == NO_DEADLINE else burst_run(self._execution, deadline_ns)

    def resize(self, lengths: Mapping[str, Dimensions]) -> None:
        positions = self._positions
        found = [(positions[name], dimensions) for name, dimensions in lengths.items() if name in positions]
        self._call = burst_run(self._execution, NO_DEADLINE, found)

    def check(self, answer: bytes) -> Mapping[str, Dimensions]:
        """Return the dimensions of outputs that the model leaves open, by name: one object as long as they are equal.

        Raises HalError if the device has refused the run, TransportError if its answer is malformed, or contradicts the
        model.
        """
        if answer != self._good:  # runs whose outputs have the same dimensions have the same answer: it is decoded once
            self._dimensions = MappingProxyType({**self._known, **self._reported(answer)})
            self._good = answer
        return self._dimensions

    def _reported(self, message: bytes) -> dict[str, Dimensions]:
        try:
            answer = burst_pb2.BurstAnswer.FromString(message)
        except DecodeError as error:
            raise TransportError(f"the device answered {len(message)} bytes that are no BurstAnswer") from error
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        if not answer.result.output_sufficient_size:
            raise HalError(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, "an output does not fit its memory")
        shapes = [tuple(shape.dimensions) for shape in answer.result.output_shapes]
        if shapes and self._outputs and len(shapes) != len(self._outputs):
            raise TransportError(f"the device reported {len(shapes)} outputs, expected {len(self._outputs)}")
        found = {name: dimensions for name, dimensions in zip(self._outputs, shapes, strict=False) if name}
        for name, dimensions in found.items():
            declared = self._declared.get(name, ())
            if not self._positions:  # runs of other lengths are none that it was known for
                declared = self._known.get(name, declared)
            if 0 not in dimensions and combine(declared, dimensions) is None:
                got, expected = describe(dimensions), describe(declared)
                raise TransportError(f"the device reported dimensions {got} of output {name!r}, expected {expected}")
        return found
