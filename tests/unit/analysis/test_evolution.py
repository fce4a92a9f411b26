"""A text by the checkpoints of a run, and what the viewer is given beside traces."""

from pathlib import Path

import numpy as np
import pytest

from pellucid.analysis.ablation import Ablation, Head, HeadEffect
from pellucid.analysis.alignment import Gold
from pellucid.analysis.evolution import Evolution, evolution
from pellucid.analysis.flow import compute_rollout
from pellucid.analysis.statistics import make_sink_mask, statistics
from pellucid.errors import CheckpointError
from pellucid.tasks.translator import Translator
from pellucid.training.state import read_checkpoint_weights
from pellucid.views.page_data import overlay, view_extras
from pellucid.weights.tensors import set_parameters

TEXT = "a b c"


@pytest.fixture(scope="module")
def evolved(finished_run: Path) -> Evolution:
    return evolution(finished_run, TEXT)


def test_there_is_a_trace_a_checkpoint(evolved: Evolution, finished_run: Path) -> None:
    places = sorted((finished_run / "checkpoints").iterdir())
    assert evolved.steps == [int(path.name[5:]) for path in places]
    assert len(evolved.traces) == len(places) > 1
    translator = Translator.load(finished_run, "cpu")
    target = translator.translate([TEXT])[0].text
    for number, path in enumerate(places):
        set_parameters(translator.model, read_checkpoint_weights(path), "a checkpoint")
        expected = translator.trace(TEXT, target)
        for name, attention in expected.attentions.items():
            np.testing.assert_array_equal(evolved.traces[number][name].weights(0, 0), attention.weights(0, 0))
            found = statistics(attention, make_sink_mask(expected.sequences[attention.keys]))
            np.testing.assert_array_equal(evolved.statistics[name]["entropy"][number], found["entropy"])
    assert evolved.extras()["steps"] == evolved.steps


def test_a_folder_without_checkpoints(finished_run: Path, tmp_path: Path) -> None:
    for path in finished_run.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CheckpointError, match="has no checkpoints"):
        evolution(tmp_path, TEXT)


def test_views_are_given_what_they_need_and_nothing_else(evolved: Evolution) -> None:
    traces = evolved.traces[-2:]
    assert view_extras(traces, {"heads", "matrix"}) == {}
    found = view_extras(traces, {"compare", "flow", "alignment"}, gold=[None, Gold(frozenset({(0, 1)}), frozenset())])
    assert found["alignment"]["gold"] == [None, {"sure": [[0, 1]], "possible": []}]
    assert set(found["compare"]["distances"][0]) == {"encoder.self", "decoder.self", "cross"}
    flow = found["flow"]["traces"][0]["cross"]
    np.testing.assert_allclose((flow["rollout"] / 255.0) ** 2, compute_rollout(traces[0])["cross"], atol=0.004)
    assert flow["first"] == 0
    np.testing.assert_array_equal(flow["norms"], traces[0]["cross"].value_norms)


def test_a_long_text_is_given_its_last_rollout_alone(evolved: Evolution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.views.page_data.MOST_ROLLOUT", 4)
    trace = evolved.traces[0]
    flow = view_extras([trace], {"flow"})["flow"]["traces"][0]["cross"]
    assert flow["first"] == trace["cross"].num_layers - 1
    assert len(flow["rollout"]) == 1


def test_an_ablation_lies_over_the_heads() -> None:
    heads = [Head("cross", layer, head) for layer in range(2) for head in range(3)]
    changes = {
        head: {
            "loss": HeadEffect(1.0, head.layer + head.head / 10, (head.layer, 9.0)),
            "bleu": HeadEffect(0, -5, (-6, -4)),
        }
        for head in heads
    }
    found = overlay(Ablation({"loss": 1.0, "bleu": 50.0}, changes, 10))
    assert found["metric"] == "loss"
    assert found["attentions"]["cross"]["values"] == [[0, 0.1, 0.2], [1, 1.1, 1.2]]
    assert found["attentions"]["cross"]["low"] == [[0, 0, 0], [1, 1, 1]]
    assert (
        overlay(Ablation({"loss": 1.0, "bleu": 50.0}, changes, 10), "bleu")["attentions"]["cross"]["high"][0][0] == -4
    )
