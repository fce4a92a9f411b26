"""Records the inputs of each attention during a forward pass, and stores them in a trace and its file."""
