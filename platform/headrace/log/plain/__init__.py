"""Plain records: typed, judged, sequenced and written by Arrow, a column at a time, where Spark takes a row at a time.

Most records are plain: their values are what the topic declares, in JSON that every parser reads alike, and their chains are
short. Of these Arrow makes rows of the log in a fraction of the CPU. Whatever else comes in a micro-batch is *odd*, and
decided by Spark's expressions (`headrace.log.decode`), which know every case: then the whole micro-batch is.

Law: a micro-batch that is taken here leads to the rows, the stream time and the guard's state to which Spark's expressions
     lead. Arrow's parser is the stricter one; what it takes, and Spark would read otherwise, is called odd
     (`tests/laws/test_plain.py` holds the two against each other).
"""
