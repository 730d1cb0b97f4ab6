"""From the broker to tables: the collector and its segments, and what reads them."""
