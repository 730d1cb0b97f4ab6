"""Which segments a batch has, and which readings in them an earlier one had. Pure."""
