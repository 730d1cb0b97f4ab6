"""Delta tables in folders, written without Spark's help and without any jar."""
