"""A training run and its folder: opens, plans, trains, resumes and describes it."""
