"""A day of the tables on one page: read without Spark, drawn as SVG, one file without scripts."""
