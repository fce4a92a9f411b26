"""What a CPU needs for speed where the paper's operations are slow there: cheap dropout, products in half precision."""
