"""`pellucid recipes`."""

from typing import TYPE_CHECKING, Annotated

import tyro

from pellucid.cli.options import RECIPES, flag, optional
from pellucid.terminal import show

if TYPE_CHECKING:
    from pellucid.config import Recipe


def recipes(
    name: Annotated[str, tyro.conf.Positional, optional("[NAME]", "recipe to print", "list all recipes"), RECIPES] = "",
    /,
    *,
    schema: Annotated[
        bool, flag("print the JSON Schema of recipes, with which an editor checks and completes a recipe")
    ] = False,
) -> int:
    """List the shipped recipes with the task, the size of the download and the training time of each. Or print a
    recipe, as a start for a new one.

    An editor with TOML support completes the keys of a recipe that has `#:schema recipe.schema.json` as its first line
    and is in the same folder as that file.

    example: pellucid recipes multi30k-de-en > my-recipe.toml
    example: pellucid recipes --schema > recipe.schema.json
    """
    import json
    from pathlib import Path

    from pellucid.config import Recipe, list_shipped_recipes
    from pellucid.errors import ConfigError

    if schema:
        from pellucid.config.schema import recipe_schema

        if name:
            raise ConfigError("`--schema` is for all recipes, not for one", f"leave `{name}` out")
        print(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))
        return 0
    files = list_shipped_recipes()
    if name:
        Recipe.load(name)  # raises an error for an unknown name
        from pellucid.streams.streams import writer

        with writer("-") as file:  # the output is a file to copy: always UTF-8, whatever the terminal uses
            file.write(files.get(name, Path(name)).read_text(encoding="utf-8"))
        return 0
    width = max(map(len, files))
    for shipped in files:
        recipe = Recipe.load(shipped)
        line = f"{shipped:<{width}}  {recipe.description}; {_data(recipe)}; {recipe.time or 'time not measured'}"
        show(line, width + 2)
    return 0


def _data(recipe: "Recipe") -> str:
    """Returns the size of the download if the recipe's texts are not on this machine yet."""
    from pellucid.data.catalogue import catalogue, total_size
    from pellucid.data.locate import TEXT_FIELDS

    texts = [path for field in TEXT_FIELDS for path in recipe.data.files(field)]
    files = {catalogue()[text].path: catalogue()[text] for text in texts if text in catalogue()}
    return f"data: {total_size(files.values())}" if files else "your own texts"
