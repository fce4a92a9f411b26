"""Shows attention as pages and pictures, and draws masks, positions, schedules and runs."""
