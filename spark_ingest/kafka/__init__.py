"""Where a site has Kafka: the collector's other end. The only part that knows its client."""
