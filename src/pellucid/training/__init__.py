"""Section 5: the loss, the schedule, the optimizer, the loop, and all state of a run in one place."""
