"""Memory of a sequence's requests: instances that share the state of the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.errors import NnhalError
from nnhal.types import Memory, Priority
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime import PreparedPlan, TensorBinding
from nnhal_service.runtime.memory.state import CarriedState
from nnhal_service.serving.instances.bindable_model import BindableLoadedModel, BoundLoadedModel
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.instances.runner import RequestRunner
from nnhal_service.serving.queue.batch import StartBatch

_log = get_logger(__name__)


class StatefulModel:
    """The BindableModel of a loaded model for one sequence: all that is bound shares one state. One run at a time."""

    def __init__(self, model: BindableLoadedModel) -> None:
        self._model = model
        self._state: CarriedState | None = None
        self.memory_kind, self.alignment, self.priority = model.memory_kind, model.alignment, model.priority
        self.plan: PreparedPlan | None = model.plan

    @property
    def is_current(self) -> bool:
        return self._state is None or self._state.is_current

    def begin(self) -> None:
        """Have the next run begin with the initial state."""
        if self._state is not None:
            self._state.forget()

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> BoundLoadedModel:
        """As BindableModel; the first call allocates the state."""
        if self._state is None:
            self._state = self._model.new_state()
        return self._model.bind(inputs, outputs, pools, measure, priority, self._state)

    def close(self) -> None:
        """Release the state, when what is bound to it has been released."""
        state, self._state = self._state, None
        if state is not None:
            state.leave()


MakeRunner = Callable[[StatefulModel], tuple[InstancePool, RequestRunner]]
"""Makes the instances of a sequence, and what runs requests on them."""


class StatefulMemory:
    """The SequenceMemory of a model that has a state."""

    def __init__(self, model: BindableLoadedModel, make: MakeRunner) -> None:
        self._model = StatefulModel(model)
        self._instances, self._runner = make(self._model)

    @property
    def start(self) -> StartBatch:
        return self._runner.start

    @property
    def is_current(self) -> bool:
        return self._model.is_current

    def begin(self) -> None:
        self._model.begin()

    def close(self) -> None:
        try:
            self._instances.close()
            self._model.close()
        except NnhalError as error:
            _log.warning("the memory of a sequence is not released", reason=str(error))


class StatelessMemory:
    """The SequenceMemory of a model without a state: all sequences run on the model's own instances."""

    def __init__(self, start: StartBatch) -> None:
        self._start = start

    @property
    def start(self) -> StartBatch:
        return self._start

    @property
    def is_current(self) -> bool:
        return True

    def begin(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """There is nothing to release."""
