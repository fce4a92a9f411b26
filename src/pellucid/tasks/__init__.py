"""The front doors: a model, a tokenizer and a search as one object."""
