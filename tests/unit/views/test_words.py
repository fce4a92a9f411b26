"""The names of a model's parts: one list that stills and pages read."""

import re

import pytest

from pellucid.analysis.contributions import LogitComponent
from pellucid.views.words import log_line, name_part, name_stage, words


def test_each_name_has_both_languages_with_the_same_places() -> None:
    for key, (english, korean) in words().items():
        assert sorted(re.findall(r"{\w+}", english)) == sorted(re.findall(r"{\w+}", korean)), key
        assert re.search("[가-힣]", korean), key


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (LogitComponent("decoder.self layer 2 head 0", 1.0, "decoder.self", 2, 0), "layer 2, self-attention, head 0"),
        (LogitComponent("cross layer 1", 1.0, "cross", 1), "layer 1, cross-attention"),
        (LogitComponent("feed forward 3", 1.0, None, 3), "layer 3, feed-forward"),
        (LogitComponent("biases", 1.0), "biases"),
    ],
)
def test_a_part_is_named_as_the_page_names_it(part: LogitComponent, name: str) -> None:
    assert name_part(part) == name


def test_stages_and_what_has_no_name() -> None:
    assert name_stage("layer 0 self_attn") == "layer 0, self-attention"
    assert name_stage("embedding") == "embedding"
    assert log_line("a part of my own") == "a part of my own"
