"""Avro's bytes as columns.

Law: what becomes of a record is a function of its bytes and of the schemas that its id and its topic name: not of the chunk
in which it came, nor of whether the driver decodes it or a task. Any bytes are decided about.

Why not Spark's `from_avro`: small commits are sequenced in the driver's Python, without a job. Two decoders would be two
meanings, and Spark's gives null without a reason. `fastavro` decodes in both places, record by record in C.

Avro's bytes carry no checksum: damaged bytes that still decode are a record. What fastavro takes beyond Avro's specification
is the same everywhere: any byte but 0 is true, and an index below 0 counts from the last branch or symbol.
"""
