"""Arguments that cannot be read are said as an error with a hint, and near names are found."""

import inspect
import re
from collections.abc import Callable
from typing import Annotated

import pytest
import tyro

from pellucid.cli.arguments import read_arguments, rename_parameters
from pellucid.cli.commands import VERBS, load_command
from pellucid.cli.options import Members, Settings, optional
from pellucid.cli.text_options import ValidSource
from pellucid.config.tables import OLD_OPTIONS
from pellucid.errors import ConfigError


def cook(
    dish: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DISH")],
    /,
    *,
    out: Annotated[str, tyro.conf.arg(metavar="FOLDER", help="where to")],
    oven_heat: Annotated[int | None, optional("N", "degrees")] = None,
    set: Settings = (),
    quick: bool = False,
) -> int:
    """Cook a dish.

    example: pellucid cook soup --out pot
    """
    seen.append((dish, out, oven_heat, set, quick))
    return 7


seen: list[tuple[object, ...]] = []


def read(*args: str) -> Callable[[], int]:
    seen.clear()
    return read_arguments("cook", cook, args)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["soup", "--out", "pot"], ("soup", "pot", None, (), False)),
        (["--out=pot", "soup", "--quick"], ("soup", "pot", None, (), True)),
        (["soup", "--out", "pot", "--oven-heat", "200"], ("soup", "pot", 200, (), False)),
        (["soup", "--out", "pot", "--out", "pot", "--oven-heat=1", "--oven-heat=2"], ("soup", "pot", 2, (), False)),
        (["soup", "--out", "pot", "--oven_heat=-1"], ("soup", "pot", -1, (), False)),
        (["soup", "--out", "pot", "--set", "a=1", "--set", "b=x y"], ("soup", "pot", None, ("a=1", "b=x y"), False)),
    ],
)
def test_arguments_are_filled_in(args: list[str], expected: tuple[object, ...]) -> None:
    run = read(*args)
    assert seen == [], "the command has not run yet"
    assert run() == 7
    assert seen == [expected]


def test_a_second_text_is_refused_where_one_is_taken_and_other_options_are_the_last_given() -> None:
    def taste(*, salt: ValidSource = "", out: str = "") -> int:
        seen.append((salt, out))
        return 0

    with pytest.raises(ConfigError, match=r"^`--salt` takes one file, but is given twice: `much` and `little`$"):
        read_arguments("taste", taste, ["--salt", "much", "--salt=little"])
    seen.clear()
    read_arguments("taste", taste, ["--salt", "much", "--salt", "much", "--out", "pot", "--out=pan"])()
    assert seen == [("much", "pan")]


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["soup", "--outt", "pot"], "pellucid cook has no option `--outt`; did you mean `--out`?"),
        (["soup", "--oven-hat=3"], "pellucid cook has no option `--oven-hat`; did you mean `--oven-heat`?"),
        (["--xyzzy"], "pellucid cook has no option `--xyzzy`"),
    ],
)
def test_an_unknown_option_is_named_with_its_neighbour(args: list[str], error: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(error)}$") as raised:
        read(*args)
    assert raised.value.hint == "options: --help, --out, --oven-heat, --set, --quick"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["soup"], "--out FOLDER"),
        (["--out", "pot"], "DISH"),
        (["soup", "--out"], "--out"),
        (["soup", "--out", "pot", "--quick=3"], "3"),
        (["soup", "bread", "--out", "pot"], "bread"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(args: list[str], named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(*args)
    assert named in str(raised.value)
    assert not set("│╭╰─\n") & set(str(raised.value))
    assert "---" not in str(raised.value), "the same without UTF-8"
    assert raised.value.hint == "pellucid cook --help lists all options"


@pytest.mark.parametrize("heat", [["--oven-heat", "hot"], ["--oven-heat=hot"], ["--oven_heat", "2.5"]])
def test_a_word_where_a_number_is_taken(heat: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^`--oven.heat (hot|2\.5)` is not a whole number$") as raised:
        read("soup", "--out", "pot", *heat)
    assert raised.value.hint == f"give a whole number, as in `{heat[0].partition('=')[0]} 5`"


def test_a_setting_is_given_by_set() -> None:
    with pytest.raises(ConfigError, match=r"^pellucid cook has no option `--lr`$") as raised:
        read("soup", "--out", "pot", "--lr", "0.1")
    assert raised.value.hint == "it is a setting: write `--set train.learning_rate=VALUE`"


@pytest.mark.parametrize(
    ("verb", "given", "meant"),
    [
        ("evaluate", "--against", "--baseline"),
        ("inspect", "--against", "--foil"),
        ("inspect", "--words", "--merge-words"),
        ("translate", "--num-beam-groups=4", "--beam-groups"),
        ("translate", "--no_repeat_ngram", "--no-repeat-ngram-size"),
        ("translate", "--epsilon", "--epsilon-cutoff"),
        ("train", "--plan", "--dry-run"),
        ("sweep", "--plan", "--dry-run"),
        ("augment", "--draws", "--num-samples"),
        ("score", "--normalize", "--length-normalize"),
        ("average", "--of", "--strategy"),
        ("doctor", "--kills", "--num-kills"),
        ("convert", "--bare-source", "--source-without-bos"),
    ],
)
def test_an_option_by_another_name_is_answered_with_ours(verb: str, given: str, meant: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_arguments(verb, load_command(verb), [given, "1"])
    option = given.partition("=")[0]
    assert str(raised.value) == f"pellucid {verb} has no option `{option}`; did you mean `{meant}`?"


def test_each_option_of_an_earlier_version_belongs_to_a_verb() -> None:
    options = {name for verb in VERBS for name in inspect.signature(load_command(verb)).parameters}
    assert {new for names in OLD_OPTIONS.values() for new in names} <= options


def test_help_is_shown_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        read("--help")
    assert not exit_.value.code
    shown = capsys.readouterr()
    assert shown.err == ""
    for text in ("usage: pellucid cook", "example: pellucid cook soup", "--out FOLDER", "(default: from the model)"):
        assert text in shown.out


def serve(
    model: Annotated[str, tyro.conf.Positional],
    /,
    *,
    out: str = "",
    from_: str = "",
    fresh: bool = False,
    layer: int = 0,
    quantization: str = "",
    set: Settings = (),
    src_lang: str = "",
    tgt: str = "",
    tokens: bool = False,
    hide_special: bool = False,
    valid_src: str = "",
) -> int:
    """Have options whose names differ from those of parameters."""
    return 0


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("choose another `out=`", "choose another `--out`"),
        ("start over with `fresh=True`", "start over with `--fresh`"),
        ("`layer=-1` must be in 0..5", "`--layer -1` must be in 0..5"),
        ('unknown `quantization="int9"`', "unknown `--quantization int9`"),
        ('`quantization="a b"` or `from_=`', "`--quantization a b` or `--from`"),
        ("`overrides=` win; `source_language=`", "`--set` win; `--src-lang`"),
        ("name `references=` or `targets=`", "name `--tgt` or `--tgt`"),
        ('give `level="tokens"`', "give `--tokens`"),
        ("give `special=False`", "give `--hide-special`"),
        ("name `model=`", "name MODEL"),
        ("give `data.valid_src=`", "give `--valid-src`"),
    ],
)
def test_parameters_become_options(message: str, expected: str) -> None:
    assert rename_parameters(message, serve) == expected


@pytest.mark.parametrize(
    "message",
    [
        "`beam_size=5` is of another verb", "`train.steps=5` is a setting", "`d_model` (500) is one", "`out` is a file",
        "no file `a/out=b`", "`Out=` is not a parameter", "`x.quantization.y=`", "out=1 without quotes",
    ],
)  # fmt: skip
def test_what_the_verb_has_no_option_for_stays(message: str) -> None:
    assert rename_parameters(message, serve) == message


@pytest.mark.parametrize("args", [["--herbs"], ["--herbs", "--quick"]])
def test_an_option_with_nothing_behind_it(args: list[str]) -> None:
    """As of a variable that is empty."""

    def season(*, herbs: Members = (), quick: bool = False) -> int:
        return 0

    with pytest.raises(ConfigError, match=r"^`--herbs` has no value$"):
        read_arguments("season", season, args)
    read_arguments("season", season, ["--herbs", "thyme", "--quick"])


def test_values_stand_in_messages_as_they_are_given() -> None:
    def season(*, herbs: Members = (), out: str = "") -> int:
        return 0

    said = "made with `herbs=['dill', 'thyme']`, and now `herbs=['dill']` for `out='pot'`, `herbs=['di…`"
    expected = "made with `--herbs dill thyme`, and now `--herbs dill` for `--out pot`, `--herbs ['di…`"
    assert rename_parameters(said, season) == expected
