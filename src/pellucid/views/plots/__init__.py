"""The parts of a Transformer as pictures, each drawn from what the code that runs gives."""
