"""Both sides of a join in a bucket: their rows are numbered, brought onto timelines, and joined by number."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.feeds import LEFT, RIGHT
from headrace.fold.changes.deltas import AFTER, BEFORE, SIGN, commits, delta_schema, picked
from headrace.fold.changes.ordering import PLACE, int64, places
from headrace.fold.contract import EVENT, HASH, INGESTED, KEY
from headrace.fold.joins.refer import LEFT_HASH, LEFT_KEY
from headrace.fold.joins.timelines import NO_ROW, Moments, RightRows, lives, touched
from headrace.fold.keys import group
from headrace.fold.segments import distinct

MATCHED = "__matched"  # of a join whose values the caller computes: there is a right row


class ByKey(Protocol):
    """The fields that every join has (see `match_rows.ForeignKeyJoin`)."""

    left_columns: pa.Schema
    right_columns: pa.Schema
    key: tuple[str, ...]
    values: tuple[tuple[str, str, str], ...]
    raw: bool


class Joined(ByKey, Protocol):
    """The fields of a join by a foreign key."""

    columns: pa.Schema
    inner: bool
    per_commit: bool


def joined_columns(join: ByKey) -> pa.Schema:
    """The key of the left rows, then the values; MATCHED if the caller goes on from there."""
    sides = {LEFT: join.left_columns, RIGHT: join.right_columns}
    keys = [join.left_columns.field(name) for name in join.key]
    values = [
        sides[side].field(column).with_name(name).with_nullable(True) for name, side, column in join.values
    ]
    return pa.schema([*keys, *values, *([pa.field(MATCHED, pa.bool_())] if join.raw else [])])


class Sides:
    """The rows of a bucket, numbered: those known from before, then those that change."""

    def __init__(
        self,
        join: Joined,
        left: pa.Table,
        right: pa.Table,
        known_left: pa.Table,
        known_right: pa.Table,
    ) -> None:
        self.join, self.left = join, left
        self.all_left, self.all_right = with_known(known_left, left), with_known(known_right, right)
        of_both = pa.chunked_array([*self.all_left[KEY].chunks, *self.all_right[KEY].chunks], pa.binary())
        keys = group(of_both).codes
        # The numbers of all left rows by the key that they refer to, and by their own key.
        self.left_codes = keys[: self.all_left.num_rows], group(self.all_left[LEFT_KEY]).codes
        new = [commits(rows, per_commit=join.per_commit) for rows in (left, right)]
        self.moments = Moments(distinct(np.concatenate(new)))
        self.left_at = self._moments_of(self.left_codes[0], new[0])
        self.right_at = self._moments_of(keys[self.all_left.num_rows :], new[1])
        self.known_left = known_left.num_rows
        self.versions = RightRows(self.moments, self.right_at, self.all_right[SIGN].to_numpy())

    def deltas(self) -> pa.Table:
        """The changes of the join: of left rows that change, and of left rows whose right row changes."""
        signs = self.all_left[SIGN].to_numpy()
        came = np.arange(self.known_left, len(signs))
        gone, there = came[signs[came] == BEFORE], came[signs[came] == AFTER]
        stays, change = self._touched(signs)
        moment, cause = (of[change] for of in self.versions.changes())
        parts = [delta_schema(self.join.columns).empty_table()]
        if len(gone):
            parts.append(self._joined(gone, self.versions.at(self.left_at[gone], before=True), BEFORE))
        if len(there):
            parts.append(self._joined(there, self.versions.at(self.left_at[there]), AFTER))
        if len(stays):
            parts.append(self._joined(stays, self.versions.at(moment, before=True), BEFORE, cause))
            parts.append(self._joined(stays, self.versions.at(moment), AFTER, cause))
        return pa.concat_tables(parts)

    def _moments_of(self, keys: np.ndarray, new: np.ndarray) -> np.ndarray:
        known = len(keys) - len(new)
        return np.concatenate([self.moments.of(keys[:known], None), self.moments.of(keys[known:], new)])

    def _touched(self, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs: left rows that stay while their right row changes, and the numbers of these changes."""
        changes, _ = self.versions.changes()
        row, end = lives(self.moments, self.left_at, signs, self.left_codes[1])
        life, change = touched(self.left_at[row], end, changes)
        return row[life], change

    def _joined(
        self, left: np.ndarray, right: np.ndarray, sign: int, cause: np.ndarray | None = None
    ) -> pa.Table:
        """Left rows with right rows, by number; `cause`: the right rows that cause the change, None: the left rows do."""
        join = self.join
        if join.inner:
            which = right != NO_ROW
            left, right = left[which], right[which]
            cause = None if cause is None else cause[which]
        theirs = pa.array(right, mask=right == NO_ROW)
        own = [*join.key, *self._columns(LEFT), LEFT_KEY, LEFT_HASH]
        of_left = picked(self.all_left.select([*dict.fromkeys([*own, EVENT, *PLACE])]), left)
        of_right = self.all_right.select([*dict.fromkeys([*self._columns(RIGHT), EVENT, *PLACE])]).take(
            theirs
        )
        columns = {name: of_left[name] for name in join.key}
        for name, side, column in join.values:
            columns[name] = (of_left if side == LEFT else of_right)[column]
        if join.raw:
            columns[MATCHED] = pa.array(right != NO_ROW)
        columns |= {
            KEY: of_left[LEFT_KEY],
            HASH: of_left[LEFT_HASH],
            SIGN: pa.array(np.full(len(left), sign, np.int8)),
        }
        columns[EVENT], caused = self._cause(of_left, of_right, right, sign, cause)
        columns |= {name: caused[name] for name in PLACE}
        return pa.table(columns).select(delta_schema(join.columns).names).cast(delta_schema(join.columns))

    def _cause(
        self, of_left: pa.Table, of_right: pa.Table, right: np.ndarray, sign: int, cause: np.ndarray | None
    ) -> tuple[pa.ChunkedArray, pa.Table]:
        """Event time and place of changes."""
        if cause is not None:
            caused = self.all_right.select([EVENT, *PLACE]).take(pa.array(cause))
        elif sign == BEFORE:
            caused = of_left
        else:
            caused = self._later(of_left, of_right, right)
        if sign == BEFORE:
            return caused[EVENT], caused
        own = [of_left[EVENT], of_right[EVENT]]
        dated = [*own, caused[EVENT]] if cause is not None and self.join.per_commit else own
        return pc.max_element_wise(*dated), caused

    def _later(self, of_left: pa.Table, of_right: pa.Table, right: np.ndarray) -> pa.Table:
        """The place of the left row, or of the right one if that came in the same commit and behind it."""
        came = (right != NO_ROW) & (right >= self.all_right.num_rows - self._new_right)
        if self.join.per_commit:
            came &= int64(of_left[INGESTED]) == int64(of_right[INGESTED])
        which = np.flatnonzero(came)
        own, other = of_left.select(PLACE), of_right.select(PLACE).take(pa.array(which))
        rank = places(pa.concat_tables([own.take(pa.array(which)), other]))
        later = rank[len(which) :] > rank[: len(which)]
        found = np.arange(own.num_rows)
        found[which[later]] = own.num_rows + np.flatnonzero(later)
        return pa.concat_tables([own, other]).take(pa.array(found)) if later.any() else own

    def _columns(self, side: str) -> list[str]:
        return [column for _, of, column in self.join.values if of == side]

    @property
    def _new_right(self) -> int:
        return int((self.right_at % self.moments.width > 0).sum())


def with_known(known: pa.Table, arrived: pa.Table) -> pa.Table:
    """Rows known from before, then rows that come; what the state does not hold of them is null."""
    names = [name for name in arrived.column_names if name in known.column_names]
    return (
        pa.concat_tables([known.select(names), arrived], promote_options="default")
        .select(arrived.column_names)
        .combine_chunks()
    )
