"""The end of a training run: after its steps, by a time budget, on a plateau, out of patience, or on request.

It includes the learning rate of each step, as the decay of a stable rate precedes the end. A decision is logged, and
saved before the next step, so that a resumed run repeats it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pellucid.config import TrainConfig
from pellucid.training.interrupts import Interrupts
from pellucid.training.log import RunLog
from pellucid.training.ranks import DistributedContext
from pellucid.training.schedule import (
    UNDECIDED,
    BudgetClock,
    DecayPlan,
    Schedule,
    evaluate_schedule,
    plan_decay,
    plan_decay_from,
)
from pellucid.training.state import RunState


@dataclass
class StopCriteria:
    """Determines the number of steps of a run, and the learning rate of each. Decisions are stored in `state`."""

    config: TrainConfig
    schedule: Callable[[int], float]
    """Returns the learning rate of a step, counted from 1. A custom schedule's rate is multiplied by the decay's factor
    after the clock has started it."""
    state: RunState
    log: RunLog
    ranks: DistributedContext
    clock: BudgetClock | None = None
    """Ends a run with a time budget; if None, the settings determine the end."""
    requested: bool = False
    """True after a hook or another thread has requested the end after this step."""

    @property
    def decay_plan(self) -> DecayPlan:
        """Returns the plan for the end of the run, as far as it is known."""
        if self.state.falls_at:
            return DecayPlan(self.state.falls_at, self.state.last_step)
        return plan_decay(self.config) if self.clock is None else UNDECIDED

    @property
    def last_step(self) -> int:
        """Returns the step that ends the run: the configured step, unless a decision has changed it."""
        return self.state.last_step or self.decay_plan.last_step

    @property
    def is_over(self) -> bool:
        """Returns True after the last step."""
        return self.state.step >= self.last_step

    def is_due(self, every: int) -> bool:
        """Returns True at every `every`-th step and at the last one."""
        return self.state.step % every == 0 or self.state.step == self.last_step

    def learning_rate(self, step: int) -> float:
        """Returns the rate of a step: the schedule's, times the factors requested by hooks."""
        if isinstance(self.schedule, Schedule):
            rate = self.schedule(step, self.decay_plan)
        else:
            rate = evaluate_schedule(self.schedule, step) * (self.decay_plan.rest(step) if self.state.falls_at else 1.0)
        return rate * self.state.rate_factor

    def agree(self, interrupts: Interrupts) -> int | None:
        """Returns the signal that any rank has received; a request on any rank becomes a request on all.

        The factor of the rate is rank 0's.
        """
        if self.ranks.world_size == 1:
            return interrupts.received
        own = float(interrupts.received or 0), float(self.requested), self.state.rate_factor
        signals, requests, factors = zip(*self.ranks.all_gather(own), strict=True)
        self.requested, self.state.rate_factor = any(requests), factors[0]
        return int(max(signals)) or None

    def stop_on_request(self) -> None:
        """Makes this step the last one if a hook has requested it."""
        if self.requested and not self.is_over:
            self._stop("requested by a hook")

    @property
    def is_out_of_patience(self) -> bool:
        """Returns True if validation has not improved for `train.patience` validations, and the rate cannot decay."""
        patience = self.config.patience
        return bool(patience) and self.state.bad_validations >= patience and not self._rate_decays_first

    def stop_out_of_patience(self) -> None:
        """Makes this step the last one, since validation has not improved for too long."""
        state, patience = self.state, self.config.patience
        reason = f"{patience} validations without a new best (`train.patience`); the best was at step"
        falling = "; the validation loss was still falling: a larger `train.patience` may help"
        self._stop(
            f"{reason} {state.best_step:,}{falling if state.bad_losses < patience else ''}",
            bad_validations=state.bad_validations,
        )

    def decay_on_plateau(self) -> bool:
        """Starts the decay of a stable rate if the validation loss has not decreased for too long.

        Returns True if it does. The run ends with the decay, however much time is left.
        """
        state, config = self.state, self.config
        stable = self._rate_decays_first and config.warmup_steps < state.step < self.decay_plan.decay_start
        if not config.patience or state.bad_losses < config.patience or not stable:
            return False
        ending = plan_decay_from(state.step, config)
        state.stopped_early = True
        self._decay(ending)
        self.log.write("plateau", state.step, last_step=ending.last_step, lowest_loss=state.lowest_loss)
        without = f"{config.patience} validation{'s' * (config.patience > 1)} without a loss below"
        self.log.log_line(
            f"step {state.step:,}: {without} {state.lowest_loss:.3f} (`train.patience`): the learning rate decay "
            f"starts; step {ending.last_step:,} is the last"
        )
        return True

    def decay_in_time(self) -> bool:
        """Starts the decay of the rate, or shortens it, if the time budget requires it. Returns True if it does."""
        state, before = self.state, self.last_step
        decaying = bool(state.falls_at)
        in_warmup = decaying and state.falls_at < self.config.warmup_steps  # its peak depends on where it began
        if self.clock is None or state.step >= before or in_warmup:
            return False
        ending = (
            self.clock.shorten_decay(self.decay_plan, state.step) if decaying else self.clock.plan_ending(state.step)
        )
        if self.ranks.world_size > 1:  # rank 0's clock
            falls_at, last_step = self.ranks.all_gather((ending.decay_start, ending.last_step) if ending else (0, 0))[0]
            ending = DecayPlan(int(falls_at), int(last_step)) if last_step else None
        if ending is None:
            return False
        self._decay(ending)
        virtual = {"falls_at": ending.decay_start} if decaying else {}
        self.log.write("clock", state.step, **virtual, last_step=ending.last_step)
        what = (
            f"fewer steps fit into the remaining time, so the decay ends before step {before:,}"
            if decaying
            else "the learning rate decay starts"
        )
        self.log.log_line(f"step {state.step:,}: {what}; step {ending.last_step:,} is the last")
        return True

    @property
    def _rate_decays_first(self) -> bool:
        """Returns True if a run that does not improve ends with a decay of its rate, and not at once."""
        return self.config.schedule == "wsd" and (isinstance(self.schedule, Schedule) or self.clock is not None)

    def _decay(self, ending: DecayPlan) -> None:
        self.state.falls_at, self.state.last_step = ending.decay_start, ending.last_step
        if self.clock is not None:
            self.clock.falls(ending, self.state.step)
        self.log.ends_at(ending.last_step)

    def _stop(self, reason: str, **values: int) -> None:
        state = self.state
        state.last_step, state.stopped_early = state.step, True
        self.log.write("stop", state.step, **values, best_step=state.best_step)
        self.log.log_line(f"step {state.step:,} is the last of {self.config.steps:,}: {reason}")
