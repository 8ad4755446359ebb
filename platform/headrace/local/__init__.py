"""What one machine needs to run everything: the jars, a Kafka broker, realistic traffic."""
