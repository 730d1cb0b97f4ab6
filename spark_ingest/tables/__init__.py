"""The tables: schemas, partial rollups, checkpoints, Delta without Spark.

Streams that fill them are in spark/.
"""
