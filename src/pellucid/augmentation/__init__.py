"""Text of one language becomes pairs: a model writes the other side, and a recipe says how to train on both."""
