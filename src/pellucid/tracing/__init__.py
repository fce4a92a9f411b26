"""Records what each attention of a pass works on, where the model computes it, and keeps it in a trace and its file."""
