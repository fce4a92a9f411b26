"""Notes at the end of a translation, of lines that are longer than those that the model was trained on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pellucid.tasks.translator import Translation
    from pellucid.text.training_text import TrainingText


class TextNotes:
    """Counts, over all of a stream, the lines and sentences that are longer than what the model was trained on."""

    def __init__(self, text: "TrainingText | None") -> None:
        """Takes what the model's training lines were; None: not known, and nothing is said."""
        from pellucid.text.training_text import TrainingText

        self.text: TrainingText = text or TrainingText()
        self.cut: int = 0
        self.too_long: int = 0
        self.longest: int = 0

    def add(self, found: "Iterable[Translation]") -> None:
        """Takes the translations of some lines into account."""
        for translation in found:
            lengths = [sentence.length for sentence in translation.sentences]
            self.cut += len(lengths) > 1 and self.text.is_too_long(sum(lengths))
            self.too_long += sum(map(self.text.is_too_long, lengths))
            self.longest = max([self.longest, *lengths])

    def lines(self) -> list[str]:
        """Returns what there is to say at the end, a line each."""
        from pellucid.tasks.translator import too_long_text

        found = []
        if self.cut:
            are = "line is" if self.cut == 1 else "lines are"
            found.append(
                f"{self.cut:,} {are} longer than nearly all that the model was trained on: the sentences in "
                f"{'it' if self.cut == 1 else 'them'} were translated one by one (--json shows them, --segment off "
                "leaves lines whole)"
            )
        if self.too_long:
            found.append(too_long_text(self.too_long, self.longest, self.text))
        return found
