"""The public names: sorted, importable, documented."""

import inspect

import pytest

import pellucid


def test_names_are_sorted_and_unique() -> None:
    assert list(pellucid.__all__) == sorted(set(pellucid.__all__))


def test_names_are_listed() -> None:
    assert set(pellucid.__all__) <= set(dir(pellucid))


@pytest.mark.parametrize("name", pellucid.__all__)
def test_name_is_importable_and_documented(name: str) -> None:
    public = getattr(pellucid, name)
    if name == "__version__":
        assert public[0].isdigit()
        return
    documentation = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    assert documentation, f"`pellucid.{name}` has no docstring"
    assert not documentation.startswith(f"{name}("), f"`pellucid.{name}` has only the docstring of its fields"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pellucid.no_such_name  # type: ignore[attr-defined]
