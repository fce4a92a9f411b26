"""`pellucid recipes`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import RECIPES, flag, optional
from pellucid.cli.terminal import fitted, is_fitted

if TYPE_CHECKING:
    from pellucid.config import Recipe


def recipes(
    name: Annotated[str, tyro.conf.Positional, optional("[NAME]", "a recipe to print", "all are listed"), RECIPES] = "",
    /,
    *,
    schema: Annotated[
        bool, flag("print the JSON Schema of a recipe, by which an editor checks and completes one")
    ] = False,
) -> int:
    """List the shipped recipes: what each trains, how much there is to fetch, how long it takes. Or print one to copy.

    An editor that knows TOML completes the keys of a recipe whose first line is `#:schema recipe.schema.json`, beside
    that file.

    example: pellucid recipes multi30k-de-en > my-recipe.toml
    example: pellucid recipes --schema > recipe.schema.json
    """
    import json
    from pathlib import Path

    from pellucid.config import Recipe, shipped_recipes
    from pellucid.errors import ConfigError

    if schema:
        from pellucid.config.schema import recipe_schema

        if name:
            raise ConfigError("`--schema` is of every recipe, not of one", f"leave `{name}` out")
        print(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))
        return 0
    files = shipped_recipes()
    if name:
        Recipe.load(name)  # says what is wrong where there is none
        from pellucid.streams.streams import writer

        with writer("-") as file:  # it is to be copied, so it is UTF-8 whatever the terminal is
            file.write(files.get(name, Path(name)).read_text(encoding="utf-8"))
        return 0
    width = max(map(len, files))
    for shipped in files:
        recipe = Recipe.load(shipped)
        line = f"{shipped:<{width}}  {recipe.description}; {_data(recipe)}; {recipe.time or 'time not measured'}"
        print(fitted(line, width + 2) if is_fitted() else line)
    return 0


def _data(recipe: "Recipe") -> str:
    """Returns how much there is to fetch where its texts are not on this machine yet."""
    from pellucid.data.catalogue import catalogue, total_size
    from pellucid.data.locate import TEXT_FIELDS

    texts = [path for field in TEXT_FIELDS for path in recipe.data.files(field)]
    files = {catalogue()[text].path: catalogue()[text] for text in texts if text in catalogue()}
    return f"data: {total_size(files.values())}" if files else "texts of your own"
