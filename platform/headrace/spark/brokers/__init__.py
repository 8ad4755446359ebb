"""Records and settings of Kafka, read by its own client."""
