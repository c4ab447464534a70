from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.sharing import SharingChoices, rule, sharing_choices
from nnhal_mlip.flow.errors import FlowError
from tests.support.mlip_flows import shared


def test_choices_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="got --by-cost and --public, expected one of them"):
        sharing_choices(True, True, False, None, [])
    with pytest.raises(ValueError, match="got --by-cost and --no-revert"):
        sharing_choices(False, True, True, None, [])


def test_small_layers_go_back_if_every_subgraph_is_weighed(digits: Path) -> None:
    model = read_flow_model(digits)
    kept = shared(model)
    assert len(kept.subgraphs) == 1 and not kept.reversions
    head = sharing_choices(False, True, False, None, ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2"])
    weighed = shared(model, head)
    assert not weighed.subgraphs
    assert any("modelled" in reversion.reason for reversion in weighed.reversions)
    unweighed = shared(model, head.model_copy(update={"weighing": "none"}))
    assert not unweighed.reversions
    assert ("flatten", "classifier") in [kernel.user_names for each in unweighed.subgraphs for kernel in each.kernels]


def test_the_first_layers_are_kept(digits: Path) -> None:
    found = shared(read_flow_model(digits), SharingChoices(keep=3))
    assert [kernel.user_names for kernel in found.subgraphs[0].kernels if kernel.user_names] == [
        ("conv1", "relu1"),
        ("pool1",),
    ]


def test_an_unknown_node_is_refused_with_those_there_are(digits: Path) -> None:
    with pytest.raises(FlowError, match="got 'conv9', expected names of nodes of the model: conv1, relu1"):
        shared(read_flow_model(digits), SharingChoices(to_host=("conv9",)))


def test_the_rule_is_told() -> None:
    rules = {
        rule(SharingChoices(public=public, weighing=each))
        for each in ("light", "every", "none")
        for public in (False, True)
    }
    assert len(rules) == 4
