"""Still pictures. A layout puts shapes on a Drawing, which knows no file format; svg.py and painted.py write it out.

Reading order: text, drawing, colours, svg, painted; grid and chart, which most pictures are made of; then a file a
picture.
"""
