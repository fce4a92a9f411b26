"""A corpus that an earlier version recorded, by the earlier names of options, is this request's or another's."""

from typing import Any

from pellucid.config.tables import OLD_OPTIONS
from pellucid.synthetic_data.augmentation import AugmentRequest
from pellucid.synthetic_data.corpus import describe_difference
from pellucid.tasks.search_options import SearchOptions

REQUEST = AugmentRequest(
    models=("run",), input="mono", teaching=SearchOptions(sample=True, epsilon_cutoff=0.1), num_samples=2,
    drop_flagged=("loop",), add_copies=True,
)  # fmt: skip


def _recorded(**changes: Any) -> dict[str, Any]:
    """The record that the version before the names wrote."""
    old = {new: old for old, (new, *_) in OLD_OPTIONS.items()} | {"epsilon_cutoff": "epsilon"}
    table = {old.get(name, name): value for name, value in REQUEST.table.items()}
    assert {"draws", "guards", "copies", "epsilon"} <= table.keys()
    assert not {"num_samples", "drop_flagged", "add_copies", "epsilon_cutoff"} & table.keys()
    return {**table, **changes}


def test_the_same_request_is_recognized() -> None:
    assert describe_difference(_recorded(), REQUEST.table) == ""
    settings = ["data.joint_vocab=false", "train.schedule=stable"]
    before, now = ["data.joint=false", "train.schedule=stable"], settings
    assert describe_difference({"overrides": before}, {"overrides": now}) == ""


def test_another_request_is_named_by_the_options_of_today() -> None:
    assert describe_difference(_recorded(draws=3), REQUEST.table) == (
        "was made with `num_samples=3`, this command has `num_samples=2`"
    )
    assert "`add_copies=False`" in describe_difference(_recorded(copies=False), REQUEST.table)
    assert "`epsilon_cutoff=0.2`" in describe_difference(_recorded(epsilon=0.2), REQUEST.table)
