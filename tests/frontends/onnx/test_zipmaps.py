"""Classifiers that end with maps from classes to probabilities."""

from __future__ import annotations

import numpy as np

from nnhal_frontends import import_model
from tests.support.shaped_models import classifier


def test_who_wants_tensors_gets_the_probabilities() -> None:
    imported = import_model(classifier().SerializeToString(), tensors_only=True)
    label, probabilities = imported.outputs
    assert (label.name, label.kind) == ("label", "")
    assert (probabilities.name, probabilities.element_type, probabilities.shape, probabilities.kind) == (
        "probabilities",
        np.dtype(np.float32),
        (0, 3),
        "",
    )


def test_others_get_the_maps_which_have_a_name() -> None:
    assert import_model(classifier().SerializeToString()).outputs[1].kind == "a sequence of maps"


def test_a_model_without_maps_stays_as_it_is() -> None:
    content = classifier(zips=False).SerializeToString()
    assert import_model(content, tensors_only=True).outputs == import_model(content).outputs
