"""Draws still pictures: an engine of shapes, text and colors that writes SVG and PNG, independent of attention."""
