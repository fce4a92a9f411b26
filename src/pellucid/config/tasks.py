"""The tasks of models. One record per task contains everything that the rest of the package looks up by a task's name.

A new task requires a record here and one module with its class, a `TextModel` (see pellucid/tasks/task.py).
"""

from dataclasses import dataclass
from typing import Literal

from pellucid.config.model import Family, ModelConfig

TrainedTask = Literal["translate", "classify", "generate"]
"""The names of the tasks that a recipe trains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task of models."""

    name: str
    """The name in recipes and model folders, and the verb of the command line."""
    noun: str
    """The noun for a model of this task with its article, as in "a translator"."""
    family: Family
    """The stacks of its models, as in `ModelConfig.family`."""
    classes: bool = False
    """True if the model has a classification head."""
    home: str
    """The module of the task's class; a relative name is in the package `tasks`."""
    class_name: str
    method: str = ""
    """The method of the class that performs the task."""
    use: str
    """The classes and verbs for such a model, for hints."""
    command: str = ""
    """An example on the command line, for model cards."""
    starts_from: tuple[str, ...] = ()
    """The tasks of the models that a training may start from."""
    trained_on: str = ""
    """The examples of a training text, as in "pairs"."""
    targets: str = ""
    """The targets of the texts in training and evaluation; empty: texts have no targets."""
    unit: str = "token"
    """The unit of which losses are averages."""
    metrics: tuple[str, ...] = ()
    """The scores that exist for such a model: "loss", "bleu", "accuracy"."""
    pipeline_tag: str
    """The name of the task on model hubs."""

    @property
    def title(self) -> str:
        """The noun with a capital letter, for headings."""
        return self.noun[0].upper() + self.noun[1:]

    @property
    def stacks(self) -> str:
        """The stacks of its models as text."""
        words = {"encoder-decoder": "an encoder and a decoder", "encoder": "an encoder alone"}
        return words.get(self.family, "a decoder alone")

    def fits(self, model: ModelConfig) -> bool:
        """Returns True if a model of this shape can perform the task."""
        return model.family == self.family and bool(model.num_classes) == self.classes


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="translate",
            noun="a translator",
            family="encoder-decoder",
            home=".translator",
            class_name="Translator",
            method="translate",
            use="pellucid.Translator, or `pellucid translate`",
            command="pellucid translate FOLDER < source.txt > target.txt",
            starts_from=("translate",),
            trained_on="pairs",
            targets="translations",
            metrics=("loss", "bleu"),
            pipeline_tag="translation",
        ),
        Task(
            name="classify",
            noun="a classifier",
            family="encoder",
            classes=True,
            home=".classifier",
            class_name="Classifier",
            method="classify",
            use="pellucid.Classifier, or `pellucid classify`",
            command="pellucid classify FOLDER < texts.txt > labels.txt",
            starts_from=("classify", "encode"),
            trained_on="texts with labels",
            targets="labels",
            unit="text",
            metrics=("loss", "accuracy"),
            pipeline_tag="text-classification",
        ),
        Task(
            name="generate",
            noun="a language model",
            family="decoder",
            home=".language_model",
            class_name="LanguageModel",
            method="generate",
            use="pellucid.LanguageModel, or `pellucid generate`",
            command="pellucid generate FOLDER < prompts.txt",
            starts_from=("generate",),
            trained_on="texts",
            metrics=("loss",),
            pipeline_tag="text-generation",
        ),
        Task(
            name="encode",
            noun="an encoder without a head",
            family="encoder",
            home=".encoder",
            class_name="TextEncoder",
            use='pellucid.train with `init_from=` and a recipe of `task = "classify"`, which gives it one',
            pipeline_tag="feature-extraction",
        ),
    )
}
"""All tasks by name. If several tasks fit a shape, the first is the default."""


def get_task(model: ModelConfig) -> Task:
    """Returns the default task of a model of this shape."""
    return next(task for task in TASKS.values() if task.fits(model))


def task_of_family(family: str) -> Task:
    """Returns the task of a model with these stacks and without a classification head."""
    return next(task for task in TASKS.values() if task.family == family and not task.classes)
