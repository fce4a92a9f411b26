"""What a model attends to: statistics of its heads, alignments, what heads are worth; and views of all of it."""
