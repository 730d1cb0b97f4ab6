"""Readings that stay in the journal until a program behind the broker has them.

The program is spark_ingest/, or any that sends receipts.
"""
