"""Which segments a batch of Spark's has, and which readings in them were in an earlier one. Pure."""
