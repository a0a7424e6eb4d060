"""What recall keeps beside a log: chunks of an index and vectors, each moved on by one writer at a time."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from langchain_sessions._core.edge import to_micros
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ANYONE, Owner, SessionKey
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._values import (
    IndexChange,
    IndexProgress,
    IndexQuery,
    SearchedLogs,
    ShelfChange,
    StoredChunk,
    StoredShelf,
    shelf_key,
)
from langchain_sessions.stores._vectors import NewSigns, VectorChange, VectorProgress
from langchain_sessions.testing.faces import Face, PrivateLoop, SettableClock, faced
from langchain_sessions.testing.suites.base import StoreSuite, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.service import SessionService
    from langchain_sessions.stores._base import SessionStore

_KIND = "words-1"


class _Beginning:
    """What each test begins with: the store by one of its faces, and ada's `s1` with `m1` … `m6`."""

    @pytest.fixture
    def kept(self, store: SessionStore, face: Face, loop: PrivateLoop) -> SessionStore:
        """The store by one of its faces."""
        return faced(store, face, loop)

    @pytest.fixture
    def now(self, clock: SettableClock) -> int:
        """The present."""
        return to_micros(clock())

    @pytest.fixture
    def key(self, app: str, ada: SessionService) -> SessionKey:
        """The session with six messages."""
        ada.append("s1", numbered(6))
        return SessionKey(app, "s1", "ada")

    @staticmethod
    def searched(key: SessionKey, now: int, *, all_of: Owner | None = None) -> SearchedLogs:
        """The log of a session; or those of all sessions of an owner."""
        if all_of is not None:
            return SearchedLogs(app=key.app, owner=all_of, session_id=None, now=now)
        return SearchedLogs(app=key.app, owner=key.owner, session_id=key.id, now=now)


class IndexSuite(_Beginning, StoreSuite):
    """Chunks never change, a new one may take the place of old ones, a change is planned from where the index ends."""

    @staticmethod
    def indexed(
        progress: IndexProgress, number: int, upto: int, replaced: Sequence[int] = (), kind: str = _KIND
    ) -> IndexChange:
        """A step that puts what follows into a chunk."""
        chunk = StoredChunk(number, upto, upto - progress.indexed_to, 9, progress.generation + 1, b"traits%d" % upto)
        buckets = {"pa": b"1%d" % upto, "past": b"2%d" % upto, "pb": b"3", "\N{CJK UNIFIED IDEOGRAPH-5317}": b"4"}
        return IndexChange(
            progress=progress, fingerprint=kind, indexed_to=upto, replaced=tuple(replaced), chunk=chunk, buckets=buckets
        )

    def query(
        self, searched: SearchedLogs, *, most_scanned: int = 100, held: frozenset[tuple[int, int, int]] = frozenset()
    ) -> IndexQuery:
        """A query that asks for a bucket, and for those that begin alike."""
        return IndexQuery(
            searched=searched,
            fingerprint=_KIND,
            buckets=("\N{CJK UNIFIED IDEOGRAPH-5317}", "none"),
            beginnings=("pa",),
            most_scanned=most_scanned,
            held=held,
        )

    def test_a_log_without_an_index_is_its_tail(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        progress = kept.find_index(key, _KIND, now)
        assert progress[1:] == (6, 0, 0, ())
        read = kept.load_index(self.query(self.searched(key, now)))
        assert read.behind == []
        assert [row.seq for row in read.logs[0].tail] == [1, 2, 3, 4, 5, 6]
        assert kept.load_index(self.query(self.searched(key, now), most_scanned=5)).behind == [key]

    def test_an_index_moves_on(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), 1, 4), now) is True
        progress = kept.find_index(key, _KIND, now)
        assert progress[1:4] == (6, 4, 1)
        assert [(chunk[0], chunk[1]) for chunk in progress.chunks] == [(1, 4)]
        (log,) = kept.load_index(self.query(self.searched(key, now))).logs
        assert [(chunk.number, chunk.last_seq, chunk.traits) for chunk in log.chunks] == [(1, 4, b"traits4")]
        found = {name: bytes(data) for name, data in log.buckets[1].items()}
        assert found == {"pa": b"14", "past": b"24", "\N{CJK UNIFIED IDEOGRAPH-5317}": b"4"}
        assert [row.seq for row in log.tail] == [5, 6]
        held = frozenset({(progress.skey, 1, log.chunks[0].written)})
        assert kept.load_index(self.query(self.searched(key, now), held=held)).logs[0].chunks[0].traits == b""

    def test_of_an_index_no_more_is_read_than_is_asked_for(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        for number, upto in ((1, 2), (2, 4)):
            assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), number, upto), now)
        query = self.query(self.searched(key, now))
        (log,) = kept.load_index(query).logs
        assert set(log.buckets) == {1, 2}
        for some in ((), (2,), (2, 9), (1, 2, 7)):
            (part,) = kept.load_index(replace(query, of_chunks=some)).logs
            assert set(part.buckets) == set(some) & {1, 2}
            assert part.chunks == log.chunks
        known = {(log.session.skey, log.generation): tuple(chunk._replace(traits=b"") for chunk in log.chunks)}
        again = replace(query, chunks=known)
        assert kept.load_index(again).logs[0].chunks == log.chunks
        assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), 3, 6), now)
        (moved,) = kept.load_index(again).logs
        assert [chunk.number for chunk in moved.chunks] == [1, 2, 3]
        assert moved.generation > log.generation

    def test_of_two_writers_one_gets_through(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        progress = kept.find_index(key, _KIND, now)
        assert kept.write_index(key, self.indexed(progress, 1, 4), now) is True
        assert kept.write_index(key, self.indexed(progress, 1, 6), now) is False
        assert kept.find_index(key, _KIND, now).indexed_to == 4

    def test_a_chunk_takes_the_place_of_others(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        for upto in (2, 4):
            assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), upto, upto), now)
        old = kept.find_index(key, _KIND, now)
        whole = kept.load_chunks(key, old, [2, 4], now)
        assert whole is not None
        assert [(chunk.number, chunk.traits, len(buckets)) for chunk, buckets in whole] == [
            (2, b"traits2", 4),
            (4, b"traits4", 4),
        ]
        assert kept.write_index(key, self.indexed(old, 2, 6, replaced=[2, 4]), now)
        assert kept.load_chunks(key, old, [2, 4], now) is None
        assert [chunk[0] for chunk in kept.find_index(key, _KIND, now).chunks] == [2]
        (log,) = kept.load_index(self.query(self.searched(key, now))).logs
        assert (bytes(log.buckets[2]["pa"]), log.tail) == (b"16", [])

    def test_an_index_of_another_kind_is_replaced(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        assert kept.write_index(key, self.indexed(kept.find_index(key, "old", now), 1, 4, kind="old"), now)
        assert kept.find_index(key, _KIND, now)[2:] == (0, 1, ())
        assert kept.load_index(self.query(self.searched(key, now))).behind == [key]
        assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), 7, 6), now)
        (log,) = kept.load_index(self.query(self.searched(key, now))).logs
        assert [chunk.number for chunk in log.chunks] == [7]

    def test_it_goes_with_its_log(self, kept: SessionStore, key: SessionKey, ada: SessionService, now: int) -> None:
        progress = kept.find_index(key, _KIND, now)
        assert kept.write_index(key, self.indexed(progress, 1, 6), now)
        ada.delete("s1")
        assert kept.write_index(key, self.indexed(progress, 1, 6), now) is False
        for call in (
            lambda: kept.find_index(key, _KIND, now),
            lambda: kept.load_index(self.query(self.searched(key, now))),
        ):
            with pytest.raises(SessionNotFoundError):
                call()
        ada.create("s1")
        assert kept.find_index(key, _KIND, now)[1:] == (0, 0, 0, ())
        assert kept.write_index(key, self.indexed(progress, 1, 6), now) is False

    def test_a_shelf_is_a_copy_that_goes_with_any_of_its_logs(
        self, kept: SessionStore, key: SessionKey, ada: SessionService, now: int
    ) -> None:
        ada.create("s2")
        ada.append("s2", numbered(2))
        searched = self.searched(key, now, all_of="ada")
        query = replace(self.query(searched), most_apart=0, longest_shelved=100)
        waiting = {log.key.id: log for log in kept.load_index(query).unshelved}
        if not waiting:
            pytest.skip("this store keeps no shelves")
        assert [(name, log.last_seq, log.indexed_to) for name, log in waiting.items()] == [("s1", 6, 0), ("s2", 2, 0)]
        logs = {log.skey: log.last_seq for log in waiting.values()}
        number = secrets.randbits(62)
        shelf = StoredShelf(number, _KIND, 12, b"traits")
        change = ShelfChange(app=key.app, owner="ada", shelf=shelf, buckets={"pa": b"1", "no": b"2"}, logs=logs)
        assert kept.write_shelf(replace(change, replaced=(5,))) is False
        assert kept.write_shelf(replace(change, logs={**logs, 2**40: 1})) is False
        assert kept.write_shelf(change) is True
        read = kept.load_index(query)
        assert (list(read.unshelved), read.logs, read.apart) == ([], [], frozenset())
        assert [(each.number, each.slots, bytes(each.traits)) for each in read.shelves] == [(number, 12, b"traits")]
        assert {name: bytes(data) for name, data in read.shelf_buckets[number].items()} == {"pa": b"1"}
        held = replace(query, held=frozenset({shelf_key(number)}))
        assert [each.traits for each in kept.load_index(held).shelves] == [b""]
        whole = kept.load_index(replace(query, only=(), whole_shelves=(number,))).shelf_buckets[number]
        assert {"pa", "no"} <= set(whole)
        assert not kept.load_index(replace(query, searched=self.searched(key, now, all_of="grace"))).shelves
        ada.append("s2", numbered(1))
        moved = kept.load_index(replace(query, most_apart=1))
        assert [(log.session.id, len(log.tail)) for log in moved.logs] == [("s2", 3)]
        assert moved.apart == {waiting["s2"].skey}
        ada.delete("s1")
        assert not kept.load_index(replace(query, most_apart=9)).shelves
        assert kept.write_shelf(replace(change, replaced=(number,))) is False

    def test_a_search_of_many_logs_is_one_read(
        self, kept: SessionStore, key: SessionKey, ada: SessionService, grace: SessionService, now: int
    ) -> None:
        ada.create("s2")
        ada.append("s2", numbered(2))
        grace.create("s3")
        grace.append("s3", numbered(1))
        assert kept.write_index(key, self.indexed(kept.find_index(key, _KIND, now), 1, 6), now)
        read = kept.load_index(self.query(self.searched(key, now, all_of="ada")))
        assert [(log.session.id, len(log.chunks), len(log.tail)) for log in read.logs] == [("s1", 1, 0), ("s2", 0, 2)]
        assert len(kept.load_index(self.query(self.searched(key, now, all_of=ANYONE))).logs) == 3
        found = kept.load_events(self.searched(key, now, all_of="ada"), {"s1": SeqSet.of([2, 6]), "s3": SeqSet.of([1])})
        assert [(each.session.id, [row.seq for row in each.rows.rows]) for each in found] == [("s1", [2, 6])]
        scanned = kept.scan_logs(self.searched(key, now, all_of="ada"), EventQuery(keyword="m2"))
        assert [(each.session.id, [row.seq for row in each.rows.rows]) for each in scanned.slices] == [
            ("s1", [2]),
            ("s2", [2]),
        ]
        assert scanned.after is None


class VectorSuite(_Beginning, StoreSuite):
    """A vector per event, in sets that are made by one embedder."""

    @staticmethod
    def embedded(
        progress: VectorProgress, seqs: Sequence[int], upto: int, *, anew: bool = False, kind: str = "e1"
    ) -> VectorChange:
        """A step that adds vectors."""
        vectors = {seq: b"%s/%d" % (kind.encode(), seq) for seq in seqs}
        return VectorChange(progress=progress, fingerprint=kind, embedded_to=upto, vectors=vectors, anew=anew)

    def test_vectors_are_added(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        progress = kept.find_vectors(key, now)
        assert progress[1:7] == ("s1", 6, 0, 0, "", ())
        assert kept.write_vectors(key, self.embedded(progress, [1, 3], 3, anew=True), now) is True
        assert kept.write_vectors(key, self.embedded(progress, [2], 3, anew=True), now) is False
        progress = kept.find_vectors(key, now)
        assert progress[2:6] == (6, 3, 1, "e1")
        assert kept.write_vectors(key, self.embedded(progress, [5], 6), now) is True
        (progress,) = kept.list_vectors(self.searched(key, now))
        assert progress[2:6] == (6, 6, 1, "e1")
        found = kept.load_vectors(self.searched(key, now), {progress: SeqSet.between(2, 6)})
        assert found == {(progress.skey, 3): b"e1/3", (progress.skey, 5): b"e1/5"}

    def test_another_set_takes_its_place(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        assert kept.write_vectors(key, self.embedded(kept.find_vectors(key, now), [1, 2], 6, anew=True), now)
        old = kept.find_vectors(key, now)
        assert kept.write_vectors(key, self.embedded(old, [2], 2, anew=True, kind="e2"), now)
        progress = kept.find_vectors(key, now)
        assert progress[3:6] == (2, 2, "e2")
        everything = SeqSet.between(1, 6)
        assert kept.load_vectors(self.searched(key, now), {old: everything}) == {}
        assert kept.load_vectors(self.searched(key, now), {progress: everything}) == {(progress.skey, 2): b"e2/2"}

    def test_they_go_with_their_log(
        self, kept: SessionStore, key: SessionKey, ada: SessionService, grace: SessionService, now: int
    ) -> None:
        grace.create("s2")
        progress = kept.find_vectors(key, now)
        assert kept.write_vectors(key, self.embedded(progress, [1], 6, anew=True), now)
        assert [each.session_id for each in kept.list_vectors(self.searched(key, now, all_of="ada"))] == ["s1"]
        held = kept.find_vectors(key, now)
        ada.delete("s1")
        assert kept.list_vectors(self.searched(key, now)) == []
        assert kept.load_vectors(self.searched(key, now), {held: SeqSet.between(1, 6)}) == {}
        ada.create("s1")
        assert kept.find_vectors(key, now)[3:7] == (0, 0, "", ())
        assert kept.write_vectors(key, self.embedded(progress, [1], 6, anew=True), now) is False

    @classmethod
    def signed(cls, progress: VectorProgress, seqs: Sequence[int], upto: int, *instead_of: int) -> VectorChange:
        """A step that adds vectors with a part of the signs."""
        signs = NewSigns(upto, b"s%d" % upto, SeqSet.of(seqs), instead_of)
        return replace(cls.embedded(progress, seqs, upto, anew=not progress.generation), signs=signs)

    def test_signs_lie_beside_vectors_in_parts(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        for upto in (1, 3):
            assert kept.write_vectors(key, self.signed(kept.find_vectors(key, now), [upto], upto), now)
        (progress,) = kept.list_vectors(self.searched(key, now))
        assert (progress.signs, progress.signed_to, progress.embedded_to) == ((1, 3), 3, 3)
        everything = {progress.of_signs: SeqSet.of(progress.signs)}
        skey, searched = progress.skey, self.searched(key, now)
        assert kept.load_vectors(searched, everything) == {(skey, 1): b"s1", (skey, 3): b"s3"}
        assert kept.load_vectors(searched, {progress: SeqSet.between(1, 6)}).keys() == {(skey, 1), (skey, 3)}
        # A part takes the place of others; who knows less than is there writes nothing.
        assert kept.write_vectors(key, self.signed(progress, [5], 6, 3), now)
        assert kept.write_vectors(key, replace(self.signed(progress, [5], 6, 1, 3), embedded_to=6), now) is False
        progress = kept.find_vectors(key, now)
        assert progress.signs == (1, 6)
        found = kept.load_vectors(searched, {progress.of_signs: SeqSet.of((1, 3, 6))})
        assert found == {(skey, 1): b"s1", (skey, 6): b"s6"}
        assert kept.write_vectors(key, self.embedded(progress, [1], 6, anew=True, kind="e2"), now)
        assert kept.find_vectors(key, now).signs == ()
        assert kept.load_vectors(searched, {progress.of_signs: SeqSet.of((1, 6))}) == {}

    def test_an_index_that_is_built_anew_leaves_signs(self, kept: SessionStore, key: SessionKey, now: int) -> None:
        assert kept.write_vectors(key, self.signed(kept.find_vectors(key, now), [1], 6), now)
        assert kept.write_index(key, IndexSuite.indexed(kept.find_index(key, _KIND, now), 1, 6), now)
        progress = kept.find_vectors(key, now)
        assert progress.signs == (6,)
        assert len(kept.load_vectors(self.searched(key, now), {progress.of_signs: SeqSet.of((6,))})) == 1

    def test_signs_of_what_was_overwritten_are_not_kept(
        self, kept: SessionStore, key: SessionKey, ada: SessionService, now: int
    ) -> None:
        planned = self.signed(kept.find_vectors(key, now), [1, 2], 3)
        ada.blank("s1", seqs=[2])
        assert kept.write_vectors(key, planned, now) is False
        progress = kept.find_vectors(key, now)
        assert kept.write_vectors(key, self.signed(progress, [1, 3], 3), now)
        ada.blank("s1", seqs=[3])
        progress = kept.find_vectors(key, now)
        assert (progress.signs, progress.embedded_to) == ((), 3)
        assert kept.load_vectors(self.searched(key, now), {progress.of_signs: SeqSet.of((3,))}) == {}
        assert kept.load_vectors(self.searched(key, now), {progress: SeqSet.between(1, 6)}).keys() == {
            (progress.skey, 1)
        }
        # What is kept of parts in memory is known by the newest overwriting.
        for upto in (1, 3):
            assert kept.write_vectors(key, self.signed(kept.find_vectors(key, now), [], upto), now)
        found = kept.find_vectors(key, now)
        assert (found.signs, found.blanked_at) == ((1, 3), found.last_seq)
        assert kept.list_vectors(self.searched(key, now)) == [found]
