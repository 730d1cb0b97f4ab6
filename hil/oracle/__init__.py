"""What is held against what: what a board offered, what it was told, what arrived."""
