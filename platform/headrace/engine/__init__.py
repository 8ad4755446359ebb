"""The engine: it folds increments of the log with the kernel, and keeps what the folds leave in the lake.

Law: what the tables hold follows from the log alone. How an increment is cut into buckets and pieces, and whether a
micro-batch is folded again after a crash, changes no table.

The order of commits of a node is: outputs, then state with progress. A micro-batch counts once its state is committed.
"""
