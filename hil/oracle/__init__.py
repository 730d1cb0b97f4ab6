"""The comparison: what a board offered, what was acknowledged to it, what arrived."""
