"""JSON objects as columns of the declared types, or why one is malformed.

Law: what is read is a function of the text and of the types: RFC 8259, and for each type the values of `json_values`. It
does not depend on the texts that are read with it, nor on the way in which it is read: by Arrow's reader, many at a time
(`json_columns`), or one by one (`strict_json`), where Arrow refuses a text, or takes what is no JSON.
"""
