"""The command line: one file a verb, with heavy imports inside the command."""
