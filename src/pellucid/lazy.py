"""Lazy imports: public names are listed in a package's stub and imported on first use (PEP 562)."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` lists its public names.

    Each name is a line `from MODULE import NAME as NAME` in the stub, which type checkers and editors read as well.
    """
    stub = (pkgutil.get_data(package, "__init__.pyi") or b"").decode("utf-8")
    homes = {words[3]: words[1] for line in stub.splitlines() if (words := line.split())[:1] == ["from"]}
    names = sorted(homes)
    others = ["__version__"] if "\n__version__: str" in stub else []

    def get_attribute(name: str) -> Any:
        if name in others:
            from importlib.metadata import version  # lazy: it takes half of the time of `import pellucid`

            return version(package)
        if name not in homes:
            from pellucid.errors import did_you_mean

            raise AttributeError(f"module `{package}` has no attribute `{name}`{did_you_mean(name, names)}")
        home = import_module(homes[name])
        return import_module(f"{package}.{name}") if home.__name__ == package else getattr(home, name)

    return get_attribute, lambda: [*names, *others], names
