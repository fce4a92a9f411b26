"""PyTorch's dropout and linear layer, cheaper on a CPU; a reader of the model can take them for those.

dropout.py draws fewer random numbers, linear.py takes matrix products in half precision while it trains.
"""
