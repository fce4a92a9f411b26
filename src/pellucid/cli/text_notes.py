"""Notes at the end of a translation: lines longer than the training lines, and flagged lines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pellucid.tasks.translation import Translation
    from pellucid.text.training_text import TrainingTextStats


class TextNotes:
    """Counts the lines and sentences of a stream that are longer than the model's training lines.

    Also counts the flagged lines by the kinds of their flags.
    """

    def __init__(self, text: "TrainingTextStats | None") -> None:
        """Takes statistics of the model's training lines; if None (unknown), there are no notes."""
        from pellucid.tasks.flag_report import FlagCounts
        from pellucid.text.training_text import TrainingTextStats

        self.text: TrainingTextStats = text or TrainingTextStats()
        self.cut: int = 0
        self.too_long: int = 0
        self.longest: int = 0
        self.flags: FlagCounts = FlagCounts()

    def add(self, found: "Sequence[Translation]") -> None:
        """Counts the translations of some lines."""
        self.flags.add(found)
        for translation in found:
            lengths = [sentence.length for sentence in translation.sentences]
            self.cut += len(lengths) > 1 and self.text.is_too_long(sum(lengths))
            self.too_long += sum(map(self.text.is_too_long, lengths))
            self.longest = max([self.longest, *lengths])

    def lines(self) -> list[str]:
        """Returns the notes, one per line."""
        from pellucid.tasks.segmenter import too_long_text

        found = []
        if self.cut:
            are = "line is" if self.cut == 1 else "lines are"
            found.append(
                f"{self.cut:,} {are} longer than nearly all training lines of the model: the sentences in "
                f"{'it' if self.cut == 1 else 'them'} were translated one by one (--json shows them, --segment off "
                "disables this)"
            )
        if self.too_long:
            found.append(too_long_text(self.too_long, self.longest, self.text))
        if self.flags.reused or self.flags.aided:
            found.append(
                f"{self.flags.reused:,} of {self.flags.lines:,} line{'s' if self.flags.lines != 1 else ''} reused from "
                f"the memory, {self.flags.aided:,} translated with its terms"
            )
        if self.flags.flagged:
            of = f"{self.flags.lines:,} line{'s' if self.flags.lines != 1 else ''}"
            are = "is" if self.flags.lines == 1 else "are"
            left = f"; {self.flags.untranslated:,} left untranslated" if self.flags.untranslated else ""
            kinds = f"{self.flags.format_kinds()}{left}"
            found.append(f"{self.flags.flagged:,} of {of} {are} flagged: {kinds} (--report FILE lists them)")
        return found
