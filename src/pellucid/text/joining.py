"""What stands between two sentences on a line: a space, or nothing where the script writes none."""

import re

_WITHOUT_SPACES = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # Japanese kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]"  # Thai, Lao, Tibetan, Burmese, Khmer
)


def writes_spaces(text: str) -> bool:
    """Returns whether most letters of a text are of scripts that put spaces between words; so does Korean."""
    without = len(_WITHOUT_SPACES.findall(text))
    return without == 0 or 2 * without < sum(map(str.isalpha, text))


def space_between(before: str, after: str) -> str:
    """Returns what a writer puts between two sentences: a space where both are of scripts that write spaces."""
    return " " if writes_spaces(before) and writes_spaces(after) else ""
