"""Which rows of a group are there after each of its commits, and the first of them in some order.

A *question* is a group after one commit, as a number; the questions of a group follow one another. A row is there from one
question to another one. Work grows with the rows, the questions and the answers, not with rows times questions.
"""

from __future__ import annotations

import numpy as np

from headrace.fold.segments import begins, distinct


def first_alive(
    begin: np.ndarray, end: np.ndarray, rank: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first rows that are there at each question.

    In:  begin, end  of each row the first question at which it is there, and the first at which it is there no longer
         rank        of each row its place in the order, from 0, each number once
         most        how many rows of a question are wanted
    Out: questions, and for each a row, sorted by question and rank
    Law: an interval of questions is the union of two intervals of one length 2^n. The first rows of an interval of 2^n
         questions are handed down to its halves, until each interval is one question.
    """
    row_of_rank = np.empty(len(rank), np.int64)
    row_of_rank[rank] = np.arange(len(rank))
    rows = np.flatnonzero(end > begin)
    level = _floor_log2(end[rows] - begin[rows])
    question, found = np.empty(0, np.int64), np.empty(0, np.int64)
    for of in range(int(level.max(initial=0)), -1, -1):
        mine = rows[level == of]
        question = np.concatenate([question, begin[mine], end[mine] - (1 << of)])
        found = np.concatenate([found, rank[mine], rank[mine]])
        question, found = _first(question, found, max(len(rank), 1), most)
        if of:
            half = 1 << (of - 1)
            question, found = np.concatenate([question, question + half]), np.concatenate([found, found])
    return question, row_of_rank[found]


def _first(question: np.ndarray, rank: np.ndarray, width: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The lowest ranks of each question, each once. In: width  how many ranks there are."""
    both = distinct(question * np.int64(width) + rank)
    question, rank = both // width, both % width
    first = begins(question)
    place = np.arange(len(question)) - np.maximum.accumulate(np.where(first, np.arange(len(question)), 0))
    kept = place < most
    return question[kept], rank[kept]


def _floor_log2(lengths: np.ndarray) -> np.ndarray:
    """The logarithm of whole numbers above 0, rounded down; exact below 2^53."""
    found: np.ndarray = np.frexp(lengths.astype(np.float64))[1] - 1
    return found


def ends_of(
    group: np.ndarray, member: np.ndarray, question: np.ndarray, leaves: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Until when rows are there.

    In:  group, member  numbers of the group and of the row's identity
         question       at which the row comes or leaves; below all others: it was there before
         leaves         whether it leaves; at one question a row leaves before it comes again
         last           of each row the question beyond all of its group
    Out: of each row that comes the question at which it leaves; of one that leaves any number
    """
    order = np.lexsort((~leaves, question, member, group))
    same = np.zeros(len(order), bool)
    if len(order):
        same[:-1] = (group[order][1:] == group[order][:-1]) & (member[order][1:] == member[order][:-1])
    ends = last.copy()
    followed = np.flatnonzero(same)
    ends[order[followed]] = question[order[followed + 1]]
    return ends
