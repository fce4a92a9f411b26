"""Draws still pictures: the engine of shapes, text and colours that writes SVG and PNG, and knows no attention."""
