"""Memory of the NDK's API: the application's own, and memory that is made for certain roles."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.contexts import Closing
from nnhal.errors import NnhalError
from nnhal.memory import FilePool, open_pool, validate_bytes
from nnhal.types import Memory as SharedMemory
from nnhal.types import Operand
from nnhal.types.layout import Dimensions, combine, describe, is_extension, is_scalar
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.ndk.compilation import Compilation
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class Memory(Closing):
    """ANeuralNetworksMemory: shared memory of the application, or what ``MemoryDesc.create`` has made.

    The latter is used whole, for its roles only. It holds values once some were copied to it or an execution has
    written it, and none after that has failed. Use as a context, or ``close`` it.
    """

    def __init__(self, memory: SharedMemory | DomainMemory) -> None:
        """``memory`` of the application is shared memory, a part of a file or a hardware buffer."""
        self._memory = memory
        self.is_closed = False
        """Whether it is released."""

    @property
    def host(self) -> SharedMemory | None:
        """The application's memory; None for memory that was made for roles."""
        return None if isinstance(self._memory, DomainMemory) else self._memory

    @property
    def handle(self) -> int:
        """The framework's number of memory that was made for roles, else 0."""
        return self._memory.handle if isinstance(self._memory, DomainMemory) else 0

    @property
    def device(self) -> str:
        """The device whose own memory it is; empty for memory of the host."""
        return self._memory.device if isinstance(self._memory, DomainMemory) else ""

    def copy_to(self, destination: Memory) -> None:
        """ANeuralNetworksMemory_copy: copy all values; a destination that was made for roles holds none if that fails.

        Raises BAD_DATA if this memory holds no values, or if sizes, dimensions or types differ.
        """
        try:
            if isinstance(destination._memory, DomainMemory):
                destination._memory.copy_from(self._memory)
            elif isinstance(self._memory, DomainMemory):
                self._memory.copy_to(destination._memory)
            else:
                _copy(self._memory, destination._memory)
        except NnhalError as error:
            raise NeuralNetworksError.from_error(error) from error

    def close(self) -> None:
        """Release it; executions that use it keep it. Harmless when repeated."""
        self.is_closed = True
        if isinstance(self._memory, DomainMemory):
            self._memory.close()


class MemoryDesc:
    """ANeuralNetworksMemoryDesc: the roles of memory.

    Every method raises BAD_STATE if it is called too early or too late, and changes nothing if it fails.
    """

    def __init__(self) -> None:
        self._roles: dict[tuple[Compilation, bool, int], float] = {}
        """The likelihood of each role."""
        self._operand: Operand | None = None
        self._dimensions: Dimensions = ()
        self._finished = False

    def add_input_role(self, compilation: Compilation, index: int, frequency: float) -> None:
        """Add the role of an input of a finished compilation. ``frequency``, above 0 and at most 1, is its likelihood.

        Raises BAD_DATA if the role was added before, the frequency is out of range or the model has no such input; also
        if its type, scale, zero point, extra parameters or dimensions do not agree with those of other roles.
        """
        self._add(compilation, False, index, frequency)

    def add_output_role(self, compilation: Compilation, index: int, frequency: float) -> None:
        """Add the role of an output. Raises as ``add_input_role``."""
        self._add(compilation, True, index, frequency)

    def set_dimensions(self, dimensions: Sequence[int]) -> None:
        """Narrow the dimensions of its roles; 0 keeps a dimension. Raises BAD_DATA if they cannot be combined."""
        self._require_unfinished()
        given = tuple(dimensions)
        if min(given, default=0) < 0:
            _bad_data(f"dimensions {list(given)}, expected none below 0")
        if self._operand is not None:
            _require_tensor(self._operand, given)
        self._dimensions = self._combined(given, "the dimensions are")

    def finish(self) -> None:
        """End the description. Raises BAD_DATA if it has no role."""
        self._require_unfinished()
        if not self._roles:
            _bad_data("memory without a role, expected at least one")
        self._finished = True

    def create(self) -> Memory:
        """ANeuralNetworksMemory_createFromDesc.

        Raises OP_FAILED if no device has such memory, BAD_DATA if the roles are of several sessions.
        """
        if not self._finished:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the description of the memory is not finished")
        framework, *others = {compilation.framework for compilation, _, _ in self._roles}
        roles = [
            MemoryRole(compilation.loaded.name, is_output, index, frequency)
            for (compilation, is_output, index), frequency in self._roles.items()
            if compilation.is_sound  # another is not loaded, and never runs
        ]
        if others:
            _bad_data(f"roles of compilations of {1 + len(others)} sessions, expected one")
        if not roles:
            raise NeuralNetworksError(ResultCode.OP_FAILED, "no compilation can use the memory")
        try:
            return Memory(framework.allocate(roles, self._dimensions))
        except NnhalError as error:
            raise NeuralNetworksError.from_error(error) from error

    def _add(self, compilation: Compilation, is_output: bool, index: int, frequency: float) -> None:
        self._require_unfinished()
        name = f"{'output' if is_output else 'input'} {index}"
        compilation.require_ready()
        graph = compilation.model.main
        if (compilation, is_output, index) in self._roles:
            _bad_data(f"{name} of the same compilation is given twice")
        indexes = graph.output_indexes if is_output else graph.input_indexes
        if not 0 <= index < len(indexes):
            _bad_data(f"a role of {name}, the model has {len(indexes)}")
        if not 0 < frequency <= 1:
            _bad_data(f"{name} with frequency {frequency}, expected above 0 and at most 1")
        operand = graph.operands[indexes[index]]
        _require_like(operand, self._operand or operand, name)
        _require_tensor(operand, self._dimensions)
        self._dimensions = self._combined(operand.dimensions, f"{name} has")
        self._operand = self._operand or operand
        self._roles[compilation, is_output, index] = frequency

    def _combined(self, dimensions: Dimensions, what: str) -> Dimensions:
        combined = combine(self._dimensions, dimensions)
        if combined is None:
            message = f"{what} {describe(dimensions)}, the memory's so far are {describe(self._dimensions)}"
            raise NeuralNetworksError(ResultCode.BAD_DATA, message)
        return combined

    def _require_unfinished(self) -> None:
        if self._finished:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the description of the memory is finished already")


def _require_like(operand: Operand, first: Operand, name: str) -> None:
    compared = ("type",) if is_extension(operand.type) else ("type", "scale", "zero_point", "extra_params")
    for field in compared:
        got, expected = getattr(operand, field), getattr(first, field)
        if got != expected:
            _bad_data(f"{name} has {field} {got}, another role has {expected}")


def _require_tensor(operand: Operand, dimensions: Dimensions) -> None:
    if is_scalar(operand.type) and dimensions:
        _bad_data(f"dimensions {describe(dimensions)} for memory of a scalar")


def _copy(source: SharedMemory, destination: SharedMemory) -> None:
    size, room = validate_bytes(source, "the source"), validate_bytes(destination, "the destination")
    if size != room:
        _bad_data(f"a source of {size} bytes and a destination of {room}, expected as many")
    pool = open_pool(source, writable=False)
    data = pool.read(0, size) if isinstance(pool, FilePool) else pool.view(0, size)
    open_pool(destination, writable=True).write(0, data)


def _bad_data(message: str) -> None:
    raise NeuralNetworksError(ResultCode.BAD_DATA, message)
