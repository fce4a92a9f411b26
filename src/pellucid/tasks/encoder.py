"""An encoder without a head: text in, to be looked at; what it finds is for a classifier to be trained on."""

from typing import Any, ClassVar, NoReturn, Self

from pellucid.config import TASKS, Task
from pellucid.errors import ConfigError
from pellucid.model.families import EncoderOnly
from pellucid.tasks.classifier import Text
from pellucid.tasks.task import TextModel
from pellucid.tasks.tracing import trace_text
from pellucid.text.tokenizers import Tokenizers
from pellucid.tracing.trace import Trace
from pellucid.weights.folder import SavedModel

BEGIN_WITH_IT = 'train a classifier that begins with it: `init_from=`, and a recipe of `task = "classify"`'
"""The hint to whoever asks for what an encoder cannot give alone."""


class TextEncoder(TextModel[EncoderOnly]):
    """An encoder without a head, as BERT is published: it can be traced, saved, and started from."""

    task: ClassVar[Task] = TASKS["encode"]

    @classmethod
    def _opened(cls, saved: SavedModel, tokenizers: Tokenizers) -> Self:
        assert isinstance(saved.model, EncoderOnly), "the task's record says so"
        return cls(saved.model, tokenizers, saved.decode)

    def trace(self, text: Text, *, residual: bool = False) -> Trace:
        """Records all attentions of the pass over a text, or over a pair (first, second) with its segments.

        With `residual`, the residual stream, too.

        Raises DataError for a pair where the model has no segments, and for what exceeds its positions.
        """
        first, second = (text, None) if isinstance(text, str) else text
        return trace_text(self.model, self.tokenizers.source, first, second, residual=residual)

    def evaluate(self, *args: Any, **options: Any) -> NoReturn:
        """Raises ConfigError: nothing says what it should find."""
        raise ConfigError(
            "an encoder without a head has no task that it could be scored by",
            BEGIN_WITH_IT,
        )

    def answer(self, *args: Any, **options: Any) -> NoReturn:
        """Raises ConfigError: it gives no answers."""
        raise ConfigError("an encoder without a head gives no answers", BEGIN_WITH_IT)
