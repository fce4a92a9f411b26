"""`pellucid recipes`."""

from typing import Annotated

import tyro


def recipes(
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help="a recipe to print whole")] = "", /
) -> int:
    """List the shipped recipes, or print one as TOML, every setting included.

    example: pellucid recipes multi30k-de-en > my-recipe.toml
    """
    from pellucid.config import Recipe, shipped_recipes

    if name:
        print(Recipe.load(name).to_toml(), end="")
    else:
        for shipped in shipped_recipes():
            print(f"{shipped:<20} {Recipe.load(shipped).description}")
    return 0
