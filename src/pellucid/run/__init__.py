"""One training as a folder: opened, planned, trained, resumed, described."""
