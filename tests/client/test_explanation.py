"""An explanation as it comes over the wire."""

from __future__ import annotations

from nnhal.v1 import framework_pb2 as wire
from nnhal_client.explanation import ArenaStory, ImageLayoutStory, explanation_from_wire


def test_an_operation_has_its_costs_its_values_and_its_pin() -> None:
    operation = wire.OperationExplanation(
        nodes=["conv"],
        operation="CONV_2D",
        device="npu",
        costs=[wire.DeviceCost(device="npu", modelled_ns=5), wire.DeviceCost(device="cpu", modelled_ns=7)],
        refusals=[wire.DeviceRefusal(device="gpu", reason="DTYPE: got INT8")],
        inputs=["x"],
        outputs=["y", "z"],
        pin="name:conv",
    )
    (story,) = explanation_from_wire(wire.ModelExplanation(operations=[operation])).operations
    assert story.costs == {"npu": 5, "cpu": 7}
    assert story.refusals == {"gpu": "DTYPE: got INT8"}
    assert (story.inputs, story.outputs, story.pin) == (("x",), ("y", "z"), "name:conv")


def test_the_arena_has_values_at_addresses_during_steps() -> None:
    value = wire.ArenaValue(value="v", memory="ashmem", offset=64, bytes=256, first_step=1, last_step=3)
    decoded = explanation_from_wire(wire.ModelExplanation(arena_values=[value]))
    assert decoded.arena_values == (ArenaStory("v", "ashmem", 64, 256, 1, 3),)
    assert decoded.measured is None


def test_pins_name_operations_by_the_numbers_of_the_model() -> None:
    operations = [
        wire.OperationExplanation(operation="TRANSPOSE", added=True),
        wire.OperationExplanation(operation="CONV_2D", number=0),
        wire.OperationExplanation(operation="RELU", nodes=["relu"], number=1),
    ]
    layout = wire.ImageLayoutExplanation(channels_last=True, wanting=["npu"], other_ns=5.0)
    told = explanation_from_wire(wire.ModelExplanation(operations=operations, image_layout=layout))
    assert [told.pin_of(place) for place in range(3)] == ["", "index:0", "name:relu"]
    assert [story.operation for story in told.transpositions] == ["TRANSPOSE"]
    assert told.image_layout == ImageLayoutStory(True, ("npu",), 5.0, "")
    assert explanation_from_wire(wire.ModelExplanation()).image_layout is None
