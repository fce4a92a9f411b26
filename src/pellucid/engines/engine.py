"""The interface of an engine (ids in, ids and log-probabilities out), and the engine of one PyTorch model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pellucid.config import DecodeConfig, ModelConfig, SamplingConfig
from pellucid.decoding.hypothesis import Hypothesis
from pellucid.errors import ConfigError

if TYPE_CHECKING:  # a translator without PyTorch does not load these modules
    import hashlib

    import numpy as np
    import numpy.typing as npt
    import torch

    from pellucid.decoding.beam import SearchFunction
    from pellucid.decoding.constraints import Constraints
    from pellucid.model.families import Model

Pair = tuple[Sequence[int], Sequence[int]]
"""The ids that the encoder and the decoder read in a pass."""
Weights: TypeAlias = "npt.NDArray[np.float32]"
Ability = Literal["model", "trace", "save", "sample", "search", "constraints"]
"""The names of the abilities that an engine may lack."""


class Engine(ABC):
    """Searches, samples and scores ids: the part of a Translator that depends on the library that computes."""

    noun: ClassVar[str] = "a translator"
    remedy: ClassVar[str] = ""
    lacks: ClassVar[Mapping[Ability, str]] = {}
    """The abilities that the engine lacks, with their error messages."""

    def require(self, ability: Ability) -> None:
        """Raises ConfigError if the engine lacks an ability."""
        if ability in self.lacks:
            raise ConfigError(f"{self.noun} {self.lacks[ability]}", self.remedy)

    @property
    @abstractmethod
    def config(self) -> ModelConfig:
        """The sizes and the shape of the model."""

    @property
    def model(self) -> Any:
        """The PyTorch model. Raises ConfigError if the engine has no single one."""
        self.require("model")
        raise NotImplementedError

    @property
    def device(self) -> "torch.device":
        """The PyTorch device of the engine. Raises ConfigError if the engine has no PyTorch model."""
        found: torch.device = next(self.model.parameters()).device
        return found

    @abstractmethod
    def about(self) -> str:
        """Returns a description of the model for a summary."""

    @abstractmethod
    def add_weights(self, digest: "hashlib._Hash") -> str:
        """Adds all weights to a digest; returns the type of device that they are on."""

    @abstractmethod
    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        """Yields the index and the n best hypotheses, best first, of each source, as they are found."""

    @abstractmethod
    def sample(
        self, sources: list[list[int]], sampling: SamplingConfig, config: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        """Returns one sampled output of each source, whose random numbers depend on its index."""

    @abstractmethod
    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        """Returns the log-probabilities of each target's tokens and of its end token, whose sum is its score."""

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        """Returns the cross-attention weights (T, S) of a head, of each pair of ids; None if the engine records none.

        Args:
            pairs: the ids that the encoder and the decoder read, special ones included.
            head: the layer and the head; None: the mean of all.
        """
        return None

    def search_all(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> list[list[Hypothesis]]:
        """Returns the n best hypotheses of each source, best first."""
        found = dict(self.search(sources, config, by, constraints))
        return [found[place] for place in range(len(sources))]

    def scores(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[float]:
        """Returns the log-probability of each target given its source."""
        return [math.fsum(values) for values in self.log_probs(sources, targets, config)]

    def read(self, sources: list[list[int]], texts: Sequence[str]) -> list[list[int]]:
        """Returns the input of `search` for sources, from the ids of the translator's tokenizer and their texts."""
        return sources

    def find_too_long(self, source: Sequence[int], config: DecodeConfig) -> str:
        """Returns the reason why a source is too long for a model of an ensemble; empty if it fits."""
        return ""


class PyTorchEngine(Engine):
    """Pellucid's search over one PyTorch model, which it puts into evaluation mode."""

    def __init__(self, model: "Model") -> None:
        self._model: Any = model.eval()

    @property
    def config(self) -> ModelConfig:
        return self._model.config

    @property
    def model(self) -> Any:
        return self._model

    def get_step_model(self) -> Any:
        """Returns the StepModel of a search: the model, or an object that computes its steps faster."""
        return self._model

    def about(self) -> str:
        config, parameters = self.config, list(self._model.parameters())
        stacks = [str(n) for n in (config.num_encoder_layers, config.num_decoder_layers) if n]
        return (
            f"{type(self._model).__name__} of {' + '.join(stacks)} layers, d_model {config.d_model}, "
            f"{sum(p.numel() for p in parameters):,} parameters on {parameters[0].device}"
        )

    def add_weights(self, digest: "hashlib._Hash") -> str:
        import torch

        from pellucid.weights.tensors import parameters

        weights = parameters(self._model)
        for name, tensor in weights.items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return next(iter(weights.values())).device.type

    def search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        by: "SearchFunction | None",
        constraints: "Constraints | None",
    ) -> Iterable[tuple[int, list[Hypothesis]]]:
        from pellucid.decoding import batched_search

        model = self.get_step_model()
        return enumerate(batched_search.search(model, sources, config, by, constraints=constraints))

    def sample(
        self, sources: list[list[int]], sampling: SamplingConfig, config: DecodeConfig, places: list[int]
    ) -> list[Hypothesis]:
        from pellucid.decoding import batched_search

        return batched_search.sample_outputs(self.get_step_model(), sources, sampling, config, places)

    def log_probs(self, sources: list[list[int]], targets: list[list[int]], config: DecodeConfig) -> list[list[float]]:
        from pellucid.decoding.scoring import output_log_probs

        return output_log_probs(self._model, sources, targets, config)

    def cross_weights(self, pairs: Sequence[Pair], head: tuple[int, int] | None) -> list[Weights] | None:
        from pellucid.tracing.cross_weights import record_cross_weights

        return record_cross_weights(self._model, pairs, head)
