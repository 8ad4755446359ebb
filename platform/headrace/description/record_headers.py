"""Headers of the records that a processor takes: a column of its stream that only `Record.headers` shows."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from headrace.description.importable import within_partials
from headrace.description.processor import HEADERS_OF_RECORD, Processor
from headrace.description.processor_function import ProcessorFunction
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.stream import Stream


def with_headers(stream: Stream, processor: object) -> Stream:
    """The stream as a processor takes it: with the headers of its records if its code reads them.

    Raises: DescriptionError when the stream has a column of that name
    """
    if not _reads_headers(processor):
        return stream
    if HEADERS_OF_RECORD in (name.lower() for name in stream.columns or ()):
        raise DescriptionError(
            f"process: '{HEADERS_OF_RECORD}' is a column of the stream, and the processor reads record.headers.",
            hint=f"Rename it before: .select('{HEADERS_OF_RECORD} AS its_headers', …).",
        )
    return stream.with_column(HEADERS_OF_RECORD, "record_headers()")


def _reads_headers(processor: object) -> bool:
    """Whether a class says so, or its methods or the function name `headers`."""
    if isinstance(processor, ProcessorFunction):
        return _names_headers(processor.function)
    made = within_partials(processor)
    if not (isinstance(made, type) and issubclass(made, Processor)):
        return False
    own = [each for each in made.__mro__ if each.__module__ != Processor.__module__]
    return made.reads_headers or any(_names_headers(value) for each in own for value in vars(each).values())


def _names_headers(function: Callable[..., Any] | Any) -> bool:
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and "headers" in _names_of(code)


def _names_of(code: CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names}.union(*map(_names_of, inner))
