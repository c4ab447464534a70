from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nnhal_ray.metrics import merged

PAGE = """# HELP runs_total Runs of a model.
# TYPE runs_total counter
runs_total{model="a b, c"} 3.0
runs_total{model="{}"} 4.0
# HELP up Whether it is up.
# TYPE up gauge
up 1.0
"""


def test_each_sample_has_the_node_and_each_metric_is_described_once() -> None:
    families = {family.name: family for family in text_string_to_metric_families(merged([("n1", PAGE), ("n2", PAGE)]))}
    assert families.keys() == {"runs", "up"}
    assert families["runs"].documentation == "Runs of a model."
    assert [(s.labels["node"], s.labels["model"], s.value) for s in families["runs"].samples] == [
        ("n1", "a b, c", 3.0),
        ("n1", "{}", 4.0),
        ("n2", "a b, c", 3.0),
        ("n2", "{}", 4.0),
    ]
    assert [(s.labels, s.value) for s in families["up"].samples] == [({"node": "n1"}, 1.0), ({"node": "n2"}, 1.0)]


def test_a_node_that_did_not_answer_has_no_samples() -> None:
    assert merged([("n1", ""), ("n2", "up 1.0\n")]) == 'up{node="n2"} 1.0\n'


def test_what_is_no_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="'not a sample!' is no sample"):
        merged([("n1", "not a sample!\n")])
