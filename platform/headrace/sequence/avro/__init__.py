"""Avro's bytes as columns.

Law: the outcome for a record is a function of its bytes and of the schemas that its id and its topic name. It does not
depend on the chunk in which the record came, nor on whether the driver or a task decodes it. Any bytes have an outcome.

Why not Spark's `from_avro`: small commits are sequenced in the driver's Python, without a job. Two decoders could differ,
and Spark's decoder gives null without a reason. `fastavro` decodes in both places, record by record in C.

Avro's bytes carry no checksum: damaged bytes that still decode are a record. fastavro accepts more than Avro's
specification, and does so in both places: any byte except 0 is true, and an index below 0 counts from the last branch or
symbol.
"""
