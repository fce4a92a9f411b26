"""Section 5: the loss, the schedule, the optimizer, the loop, and the state of a run."""
