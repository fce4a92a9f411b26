"""An encoder without a head, which can be traced and saved, and from which a classifier can be trained."""

from typing import Any, ClassVar, NoReturn, Self

from pellucid.config import TASKS, Task
from pellucid.errors import ConfigError
from pellucid.model.families import EncoderOnly
from pellucid.tasks.classifier import Text
from pellucid.tasks.task import TextModel
from pellucid.tasks.tracing import trace_text
from pellucid.text.tokenizers import TokenizerPair
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel

BEGIN_WITH_IT = 'train a classifier that begins with it: `init_from=`, and a recipe of `task = "classify"`'
"""The hint of errors for an ability that an encoder alone lacks."""


class TextEncoder(TextModel[EncoderOnly]):
    """An encoder without a head, as BERT is published: it can be traced, saved and fine-tuned."""

    task: ClassVar[Task] = TASKS["encode"]

    @classmethod
    def _from_saved(cls, saved: SavedModel, tokenizers: TokenizerPair) -> Self:
        assert isinstance(saved.model, EncoderOnly), "the task's record has them"
        return cls(saved.model, tokenizers, saved.decode)

    def trace(self, text: Text, *, residual: bool = False) -> Trace:
        """Records all attentions of the pass over a text, or over a pair (first, second) with its segments.

        With `residual`, the residual stream, too.

        Raises DataError for a pair if the model has no segments, and for texts that exceed its positions.
        """
        first, second = (text, None) if isinstance(text, str) else text
        return trace_text(self.model, self.tokenizers.source, first, second, residual=residual)

    def evaluate(self, *args: Any, **options: Any) -> NoReturn:
        """Raises ConfigError: an encoder alone has no labels to evaluate."""
        raise ConfigError(
            "an encoder without a head cannot be scored",
            BEGIN_WITH_IT,
        )

    def process_lines(self, *args: Any, **options: Any) -> NoReturn:
        """Raises ConfigError: an encoder alone has no output."""
        raise ConfigError("an encoder without a head has no output to return", BEGIN_WITH_IT)
