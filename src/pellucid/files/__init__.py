"""Reading and writing files: untrusted input, atomic output."""
