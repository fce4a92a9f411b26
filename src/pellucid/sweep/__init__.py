"""Many trainings as one experiment: settings and seeds from a file, what each responded, and all runs of a folder."""
