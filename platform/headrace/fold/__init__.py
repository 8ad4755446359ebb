"""The kernel: every operator once, as pure functions over Arrow tables.

Law: `fold` depends on its arguments alone. It reads no file and no clock, draws no random number, and knows nothing of
Spark. The stream, a backfill, a rebuild and the tests all call it.

A micro-batch goes through the steps of an operator (see `contract.Step`). Each step takes rows, and the part of the state
that these rows touch. It gives rows for the next step, output rows, and changes of the state. How rows are cut into
micro-batches, into buckets of key hashes and into pieces does not change any table.
"""
