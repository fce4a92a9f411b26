"""Planning a training run for a time budget: throughput, shape, steps, and the expected score."""
