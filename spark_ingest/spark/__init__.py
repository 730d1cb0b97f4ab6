"""What runs inside of Spark: sources, sinks, transforms and the job. Only here is PySpark known."""
