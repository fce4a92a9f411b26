"""Small models that learn what large ones write: a teacher's translations, what is kept of them, the student's run."""
