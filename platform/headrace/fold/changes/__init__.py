"""Changes of tables: what tables, joins and groups give to one another, and what a node shows of them.

Law: a change is one row per key and log commit, with the row before and the row after. Its place is that of the record
that caused it, and it has nothing of the micro-batch, the bucket or the file in which it was found.
"""
