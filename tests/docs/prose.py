"""Plain English, as far as a program can judge it: sentences of documents, and what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.documents import prose

WORDS_MAX = 35
CELL_LETTERS_MAX = 320
SENTENCE_END = re.compile(r"(?:(?<=[.!?:∎])|(?<=[.!?][*)]))\s+(?=[A-Z0-9`*\"(∎]|[a-z]\b)")
SPAN = re.compile(r"`[^`\n]*`")
TARGET = re.compile(r"\]\([^)]*\)")
# What a reader stumbles over, and what to write in its place.
STUMBLES = {
    r"^(Who|Whoever|What)\b(?!.*\?$)": "name the actor as the subject",
    r"^Of [a-z`*]": "begin with the subject",
    r"\bis (Spark|Kafka|Delta|Dagster)'s$": "say where it runs: 'runs in Spark'",
    r"\bto whom asks\b": "say who asks: 'on request'",
    r"\bnobody thought of\b": "say what is unexpected",
    r"\bsays what it said\b": "say that it is unchanged",
    r"\bfor done\b": "say what was counted",
}


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Each sentence of a document with its line; code is one word, and a table's cells are sentences of their own."""
    paragraph: list[str] = []
    begun = 0
    for number, line in enumerate([*prose_lines(path), ""], start=1):
        text = line.strip()
        starts = re.match(r"([-*>]|\d+\.)\s+", text)
        if not text or text.startswith(("#", "|", "![", "<!--")) or starts:
            yield from _split(begun, paragraph)
            paragraph, begun = [], number
            if text.startswith("|"):
                yield from _cells(number, text)
            elif starts:
                paragraph = [text[starts.end() :]]
            continue
        begun = begun if paragraph else number
        paragraph.append(text)
    yield from _split(begun, paragraph)


def prose_lines(path: Path) -> list[str]:
    """The document's lines with those of code blocks left empty, so that numbers stay."""
    text = path.read_text(encoding="utf-8")
    kept = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    assert prose(path)
    return kept.splitlines()


def stumbles(path: Path) -> list[str]:
    """The sentences that one of the patterns finds, with what to do."""
    return [
        f"{path.name}:{line}: {advice}: {sentence[:90]}"
        for line, sentence in sentences(path)
        for pattern, advice in STUMBLES.items()
        if re.search(pattern, sentence)
    ]


def long_sentences(path: Path) -> list[str]:
    """The sentences of more than `WORDS_MAX` words."""
    return [
        f"{path.name}:{line}: {len(sentence.split())} words: {sentence[:90]}"
        for line, sentence in sentences(path)
        if len(sentence.split()) > WORDS_MAX
    ]


def long_cells(path: Path) -> list[str]:
    """The cells of tables that take more than two lines on a wide page."""
    return [
        f"{path.name}:{number}: {len(cell)} letters: {cell[:60]}"
        for number, line in enumerate(prose_lines(path), start=1)
        if line.startswith("|")
        for cell in line.split("|")
        if len(TARGET.sub("]", cell)) > CELL_LETTERS_MAX
    ]


def _cells(number: int, line: str) -> Iterator[tuple[int, str]]:
    for cell in re.split(r"(?<!\\)\|", line):
        yield from _split(number, [cell])


def sentences_of(text: str) -> list[str]:
    """The sentences of a text without lists and tables; code is one word, and a link its words."""
    words = TARGET.sub("]", SPAN.sub("`code`", " ".join(text.split())))
    return [sentence for sentence in SENTENCE_END.split(words) if sentence]


def _split(line: int, paragraph: list[str]) -> Iterator[tuple[int, str]]:
    for sentence in sentences_of(" ".join(paragraph)):
        yield line, sentence
