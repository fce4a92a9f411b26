"""The command line: one file per verb, with imports of large libraries inside the command."""
