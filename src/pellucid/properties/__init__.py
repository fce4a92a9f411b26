"""The properties of a model's passes: outputs must not depend on later positions, padding, other texts of a batch."""
