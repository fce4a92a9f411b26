"""Pellucid: a Transformer toolkit that reads like the paper and runs like an engine.

    import pellucid

    pellucid.train("multi30k-de-en", "run", data_dir="data")
    translator = pellucid.Translator.load("run")
    translator.translate(["Ein Hund läuft über eine Wiese."])[0].text

The names in `__init__.pyi`, here and in `pellucid.weights`, are public; modules below are internal. A name is imported
when it is first used: `import pellucid` itself loads no torch.
"""

from typing import Any

from pellucid.engines import converters
from pellucid.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)


def _convert_for_ctranslate2(*args: Any) -> None:
    from pellucid.conversion.for_engines import convert_for_ctranslate2

    convert_for_ctranslate2(*args)


converters["ctranslate2"] = _convert_for_ctranslate2
