"""What attention weights tell: alignments, flow, statistics, what a head is worth."""
