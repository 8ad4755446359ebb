"""Reads Spark's DDL for columns and types, and says where and why it cannot.

Law: what this reader accepts, Spark accepts with the same meaning; the types are those that a log can hold.
Source: Spark 4.1, sql/api SqlBaseParser.g4 (colTypeList, dataType) and StructType.toDDL for the normal form.
"""

from __future__ import annotations

import re
from typing import NoReturn

from headrace.description.wording import closest, listed
from headrace.errors import DescriptionError
from headrace.expressions.types import bare_or_quoted

Field = tuple[str, str, bool]
"""Name, type in its normal form, nullable."""

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<word>[A-Za-z0-9_]+)|(?P<mark>[<>(),:])|(?P<other>\S))",
    re.DOTALL,
)
_SYNONYMS = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
}
_BACKQUOTES = "Put a name that is not made of A-Z, 0-9 and _ in backquotes."
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
_PLAIN = ("BOOLEAN", *_NUMBERS, "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_ALL = (*_PLAIN, "DECIMAL(p,s)", "ARRAY<…>", "MAP<…, …>", "STRUCT<name: …>")
_MEANT = {
    foreign: meant
    for meant, names in {
        "STRING": (
            "TEXT",
            "VARCHAR",
            "CHAR",
            "CHARACTER",
            "STR",
            "UUID",
            "JSON",
            "VARIANT",
            "TIME",
            "ENUM",
            "CLOB",
            "NVARCHAR",
        ),
        "BOOLEAN": ("BOOL", "BIT"),
        "TINYINT": ("INT8",),
        "SMALLINT": ("INT16", "INT2"),
        "INT": ("INT32", "INT4"),
        "BIGINT": ("INT64", "INTERVAL"),
        "FLOAT": ("FLOAT32", "FLOAT4"),
        "DOUBLE": ("FLOAT64", "FLOAT8"),
        "DECIMAL(p,s)": ("NUMBER",),
        "TIMESTAMP": ("DATETIME", "TIMESTAMPTZ"),
        "BINARY": ("BYTES", "BLOB"),
        "ARRAY<…>": ("LIST",),
        "STRUCT<name: …>": ("RECORD", "OBJECT"),
    }.items()
    for foreign in names
}


def quote(name: str) -> str:
    """The name in backquotes, as Spark reads it."""
    return "`" + name.replace("`", "``") + "`"


class DdlReader:
    """One pass over a DDL text: `DdlReader(text, what).fields()`."""

    def __init__(self, ddl: str, what: str) -> None:
        self._ddl, self._what = ddl, what
        self._tokens = [(m.lastgroup or "", m[m.lastgroup or 0], m.start(m.lastgroup or 0))
                        for m in _TOKEN.finditer(ddl)]  # fmt: skip
        self._next = 0

    def fields(self, *, colon: bool = False) -> list[Field]:
        """All columns, to the end of the text. In: colon  whether they are those of a STRUCT, each with a colon."""
        fields = [self._field(colon=colon)]
        while self._take(","):
            fields.append(self._field(colon=colon))
        if self._peek()[0]:
            self._fail("expected a comma between columns" + self._about_the_rest())
        return fields

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "", len(self._ddl))

    def _take(self, *expected: str) -> bool:
        kind, text, _ = self._peek()
        matches = kind in ("word", "mark") and text.upper() in expected
        self._next += matches
        return matches

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            self._fail(f"expected '{mark}'")

    def _field(self, *, colon: bool) -> Field:
        name = self._name()
        if self._take(":") and not colon:
            self._next -= 1
            self._fail("expected a type", "Outside STRUCT<…> no colon stands between name and type.")
        data_type = self._type()
        nullable = True
        if self._take("NOT"):
            self._need("NULL")
            nullable = False
        if self._take("COMMENT"):
            self._comment()
        return name, data_type, nullable

    def _comment(self) -> None:
        if self._peek()[0] != "text":
            self._fail("expected the comment in quotation marks")
        self._next += 1

    def _name(self) -> str:
        kind, text, _ = self._peek()
        self._next += 1
        if kind == "quoted" and text[1:-1].strip():
            return text[1:-1].replace("``", "`")
        if kind == "word" and not text[0].isdigit():
            return text
        self._next -= 1
        self._fail("expected a column name", _BACKQUOTES)

    def _type(self) -> str:
        kind, text, position = self._peek()
        if kind != "word":
            self._fail("expected a type", _BACKQUOTES if kind == "other" else f"Types are {listed(_ALL)}.")
        self._next += 1
        name = _SYNONYMS.get(text.upper(), text.upper())
        if name in _PLAIN:
            return name
        if name == "DECIMAL":
            return self._decimal()
        if name in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(name)
        self._unknown_type(text, position)

    def _decimal(self) -> str:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._need(")")
        if not (1 <= precision <= 38 and scale <= precision):
            self._fail(
                f"DECIMAL({precision},{scale}) does not exist", "Precision is 1 to 38, scale 0 to precision."
            )
        return f"DECIMAL({precision},{scale})"

    def _number(self) -> int:
        kind, text, _ = self._peek()
        if kind != "word" or not text.isdigit():
            self._fail("expected a whole number")
        self._next += 1
        return int(text)

    def _nested(self, name: str) -> str:
        self._need("<")
        if name == "STRUCT":
            inner = self._struct_fields()
        else:
            inner = self._type()
            if name == "MAP":
                self._need(",")
                inner += ", " + self._type()
        self._need(">")
        return f"{name}<{inner}>"

    def _struct_fields(self) -> str:
        fields = [self._field(colon=True)]
        while self._take(","):
            fields.append(self._field(colon=True))
        names = [name.lower() for name, _, _ in fields]
        for position, name in enumerate(names):
            if name in names[:position]:
                self._fail(
                    f"STRUCT has two fields '{fields[position][0]}'", "Names are compared without case."
                )
        return ", ".join(
            f"{bare_or_quoted(name)}: {data_type}" + ("" if nullable else " NOT NULL")
            for name, data_type, nullable in fields
        )

    def _about_the_rest(self) -> str:
        word = self._peek()[1].upper()
        return (
            f"; {word} is not supported here" if word in ("DEFAULT", "GENERATED", "COLLATE", "NULL") else ""
        )

    def _unknown_type(self, text: str, position: int) -> NoReturn:
        meant = _MEANT.get(text.upper()) or closest(text, _ALL)
        hint = f"Did you mean {meant}? " if meant else ""
        raise DescriptionError(
            f"{self._what}: unknown type '{text}' at position {position + 1} of {self._ddl!r}.",
            hint=f"{hint}Types are {listed(_ALL)}.",
        )

    def _fail(self, problem: str, hint: str | None = None) -> NoReturn:
        _, text, position = self._peek()
        where = f"near '{text}' at position {position + 1}" if text else "at the end"
        raise DescriptionError(f"{self._what}: cannot read {self._ddl!r}: {problem} {where}.", hint=hint)
