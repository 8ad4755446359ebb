"""The fold of an increment: stages, tasks, buckets."""
