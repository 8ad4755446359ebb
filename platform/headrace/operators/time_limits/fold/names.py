"""The columns that the steps of time limits share."""

FROM, START, SUB = "__from", "__start", "__sub"  # of a record, of an entry, of an update (see `updates`)
BEFORE, AFTER = "__before_ms", "__after_ms"  # of a row: the expiry time of its partition before and after it
STAMP = "__stamp_ms"  # of an update: its timestamp
# Columns of a wait: timestamp and offset of the update that opened it.
OPENED, OPENED_OFFSET = ("__opened_ms", "__opened_offset")
DUE = "__due_ms"  # of a wait by the wall clock: when it is over
RECORDS = "__records"  # records that a wait is the last to hold
EARLY = "__early"  # whether a bound let a wait end
OWN, EXPIRY = "__own_ms", "__expiry_ms"  # of a partition: own stream time and expiry time
# Columns of a row: own stream time before it, and the limit in force.
OWN_BEFORE, LIMIT = ("__own_before_ms", "__limit_ms")
LEFT_AT, LEFT_OFFSET, LEFT_SUB, LEFT_STREAM, LEFT_CLOCK = (
    "__left_at_ms",
    "__left_offset",
    "__left_sub",
    "__left_stream_ms",
    "__left_clock_ms",
)
# Columns of a result: its event time, and the commit time at which it left.
TIMESTAMP, SEQUENCE = ("__timestamp", "__sequence")
EMITTED_AT = "__emitted_at"  # of a result: the stream time of the row at which it left
