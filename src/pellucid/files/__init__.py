"""Reading and writing files: what strangers wrote, what must not be lost."""
