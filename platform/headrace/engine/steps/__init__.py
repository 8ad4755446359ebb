"""Row-wise steps as tasks evaluate them, and records for which one raises."""
