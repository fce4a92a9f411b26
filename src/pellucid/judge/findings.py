"""The result of a check: what is right, what is wrong by which mistakes, and what the judge does not know."""

from dataclasses import dataclass

from pellucid.judge.mistakes import MISTAKES, UNKNOWN, Language

CONVENTIONS = {
    "keep": ("it reads a mask as True = may attend", "마스크의 True를 '볼 수 있음'으로 읽습니다"),
    "hide": ("it reads a mask as True = hidden", "마스크의 True를 '가림'으로 읽습니다"),
    "add": ("it adds the mask to the scores", "마스크를 점수에 더합니다"),
}
"""The meanings of a mask, in English and Korean."""


@dataclass(frozen=True)
class Finding:
    """A judgement on one exercise.

    Attributes:
        name: the exercise, as `attention`.
        right: True if the part computes what it should; its mistakes are then notes, which cost nothing in training.
        mistakes: ids of the mistakes, rows of `pellucid.judge.mistakes`; `("unknown",)` if the judge cannot name it.
        details: for each mistake what its sentence takes from the code, as a line number; may be empty.
        mask: the meaning of a mask in this part: "keep", "hide", "add", or an empty string.
        batch_first: True for inputs (B, L, D), False for (L, B, D), None where it is unknown.
    """

    name: str
    right: bool
    mistakes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    mask: str = ""
    batch_first: bool | None = None

    @property
    def is_unknown(self) -> bool:
        """Returns True if the judge knows neither that the part is right nor its mistake."""
        return self.mistakes == (UNKNOWN,)

    @property
    def sentence(self) -> str:
        """Returns the finding in English, a sentence for each mistake."""
        return self.describe("en")

    def describe(self, language: Language) -> str:
        """Returns the finding in a language, a sentence for each mistake."""
        said = [MISTAKES[id].describe(language, detail) for id, detail in self._rows()]
        if self.right and self.mask and not said:
            said = [CONVENTIONS[self.mask][language == "ko"]]
        return "; ".join(said)

    def list_lines(self, language: Language = "en") -> list[str]:
        """Returns lines as `right NAME`, `wrong NAME: ID: sentence` for each mistake, or `unknown NAME`."""
        if self.right:
            return [f"right {self.name}"]
        if self.is_unknown:
            return [f"unknown {self.name}"]
        return [f"wrong {self.name}: {id}: {MISTAKES[id].describe(language, text)}" for id, text in self._rows()]

    def list_notes(self, language: Language = "en") -> list[str]:
        """Returns notes beyond the lines: mistakes without consequences, and what is known about an unknown one."""
        if not (self.right or self.is_unknown):
            return []
        return [f"{self.name}: {MISTAKES[id].describe(language, text)}" for id, text in self._rows()]

    def _rows(self) -> list[tuple[str, str]]:
        details = (*self.details, *[""] * len(self.mistakes))
        return list(zip(self.mistakes, details, strict=False))
