"""Dropout and a linear layer that compute what PyTorch's do, and cost a CPU less. Section 5.4 names where dropout acts.

dropout.py draws fewer random numbers. linear.py multiplies with some rows of its matrix alone where that is all that is
needed, and in half precision where training asks for it.
"""
