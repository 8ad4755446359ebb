"""Rows as the bytes of a format: Avro, Protobuf, JSON with a schema, with the wire format of registries or without.

Law: the bytes of a row are a function of the row, of the format and of the schema's id in the registry.
A row that the format cannot hold is refused with a reason; no row raises.
"""

from headrace.sinks.encoding.encoder import Encoder, RowEncoder, encoder_of

__all__ = ["Encoder", "RowEncoder", "encoder_of"]
