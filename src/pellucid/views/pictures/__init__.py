"""Draws the still picture of each view: `show_...` takes it out of a trace, `draw_...` lays it out."""
