"""Tasks: what a model can be for. One record a task holds all that the rest of the package asks by a task's name.

A task more is a record here and one module with its class, a `TextModel` (see pellucid/tasks/task.py).
"""

from dataclasses import dataclass
from typing import Literal

from pellucid.config.model import Family, ModelConfig

TrainedTask = Literal["translate", "classify", "generate"]
"""The names of the tasks that a recipe trains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One thing that a model can be for."""

    name: str
    """As recipes, model folders and the command line's verb have it."""
    noun: str
    """A model of this task with its article, as in "a translator"."""
    family: Family
    """The stacks of its models, as `ModelConfig.family` tells them."""
    classes: bool = False
    """True where the model has a head that tells classes apart."""
    home: str
    """The module of the class that does it."""
    class_name: str
    method: str = ""
    """The class's method that does it."""
    use: str
    """The way to use such a model, as a hint says it."""
    command: str = ""
    """The way to use it on the command line, as a model's card says it."""
    starts_from: tuple[str, ...] = ()
    """The tasks of the models that a training may start from."""
    trained_on: str = ""
    """The items that a training text consists of, as in "pairs"."""
    targets: str = ""
    """The texts that stand beside each text that it learns from and is scored on; empty: texts stand alone."""
    unit: str = "token"
    """The unit that losses are counted by."""
    metrics: tuple[str, ...] = ()
    """The scores that can be measured of such a model: "loss", "bleu", "accuracy"."""
    pipeline_tag: str
    """The name that model hubs have for the task."""

    @property
    def title(self) -> str:
        """The noun as a heading begins with it."""
        return self.noun[0].upper() + self.noun[1:]

    @property
    def stacks(self) -> str:
        """The stacks of its models in words."""
        words = {"encoder-decoder": "an encoder and a decoder", "encoder": "an encoder alone"}
        return words.get(self.family, "a decoder alone")

    def fits(self, model: ModelConfig) -> bool:
        """Tells whether a model of this shape can be for the task."""
        return model.family == self.family and bool(model.num_classes) == self.classes


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="translate",
            noun="a translator",
            family="encoder-decoder",
            home="pellucid.tasks.translator",
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
            home="pellucid.tasks.classifier",
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
            home="pellucid.tasks.language_model",
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
            home="pellucid.tasks.encoder",
            class_name="TextEncoder",
            use='pellucid.train with `init_from=` and a recipe of `task = "classify"`, which gives it one',
            pipeline_tag="feature-extraction",
        ),
    )
}
"""All tasks by name. Of several that fit a shape the first is what a model is for where nothing else is said."""


def task_of(model: ModelConfig) -> Task:
    """Returns the task that a model of this shape is for."""
    return next(task for task in TASKS.values() if task.fits(model))


def task_of_family(family: str) -> Task:
    """Returns the task that a model with these stacks is for, as long as nothing is known of its head."""
    return next(task for task in TASKS.values() if task.family == family and not task.classes)
