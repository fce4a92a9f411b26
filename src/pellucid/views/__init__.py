"""Pictures and pages of attention, of masks, positions and schedules."""
