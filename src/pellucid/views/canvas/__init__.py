"""Drawing: rectangles, text and colours, as SVG and PNG."""
