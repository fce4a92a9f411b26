"""Draws the still picture of each view: `show_...` selects data from a trace, `draw_...` lays it out."""
