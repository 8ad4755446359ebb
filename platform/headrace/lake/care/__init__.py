"""Care of tables beside their appender."""
