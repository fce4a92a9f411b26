"""Lines in, lines out: translating, classifying, generating and scoring files, resumable."""
