"""The evidence that the oracle is compared by: rows of logs and tables, read here or by Spark."""
