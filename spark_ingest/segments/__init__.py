"""The folder of Parquet segments: rows, files, footers, retention.

What is read from it next is in planning/.
"""
