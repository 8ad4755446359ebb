"""Delta tables of the lake as Iceberg tables: the same Parquet files, named a second time.

Laws:
- a snapshot of the mirror names exactly the files of one version of the Delta table, and that version is its property
  `delta.version`. Headrace's tables have no deletion vectors, partitions or renamed columns, so their rows are equal;
- columns that begin with `__` are in no schema of the mirror;
- each round compares what the catalog names with what Delta names, and commits the difference against the snapshot that it
  has read. After a crash, a lost answer or a second mirror the next round finds what is left to do: the mirror may be
  behind, and is never wrong;
- the mirror is read by nobody here. It holds back no stream, and no row depends on it.
"""
