"""Planning a training for a time budget: pace, shape, steps, and what score to expect."""
