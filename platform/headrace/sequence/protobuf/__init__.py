"""Protobuf's bytes as columns.

Law: what becomes of a record is a function of its bytes and of the topic's message: not of the chunk in which it came, nor
of whether the driver decodes it or a task. Any bytes are decided about. Fields that the message does not have are passed
over, as in each reader of Protobuf.

Why not Spark's `from_protobuf`: see `headrace.sequence.avro`. `protobuf` decodes in both places, record by record in C.
"""
