"""Speed on the machine at hand: what it can do at most, and how near a model comes to that."""
