"""The contract of a store as one suite of tests: subclass it, supply a store, run pytest.

    from langchain_sessions.testing import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self):
            store = MyStore()
            yield store
            store.close()

Every test runs on both faces and in an app of its own, so the fixture may also hand out one store for many tests.
A store that has only one face sets `faces = ("async",)`; one that is bound to an event loop overrides the fixture
`loop` with a `PrivateLoop` that lives as long as the store. For readable failures call
`pytest.register_assert_rewrite("langchain_sessions.testing")` in `conftest.py` before anything is imported from here.
"""

from __future__ import annotations

from langchain_sessions.testing.suites.appending import EditSuite, IdentitySuite, OrderSuite, VersionSuite
from langchain_sessions.testing.suites.archiving import ArchiveSuite
from langchain_sessions.testing.suites.blanking import BlankSuite
from langchain_sessions.testing.suites.exactness import ExactSuite, TimeSuite
from langchain_sessions.testing.suites.filtering import FilterSuite, PagingSuite
from langchain_sessions.testing.suites.indexing import IndexSuite, VectorSuite
from langchain_sessions.testing.suites.invocations import InvocationSuite
from langchain_sessions.testing.suites.owning import OwnerSuite
from langchain_sessions.testing.suites.refusing import RefusalSuite
from langchain_sessions.testing.suites.rewinding import ForkSuite, RewindSuite
from langchain_sessions.testing.suites.sessions import DeletionSuite, ExpirySuite, SessionSuite
from langchain_sessions.testing.suites.state import StateSuite
from langchain_sessions.testing.suites.threading import ThreadSuite
from langchain_sessions.testing.suites.viewing import BranchSuite, ContextSuite, PairingSuite


class StoreContract(
    OrderSuite,
    IdentitySuite,
    EditSuite,
    VersionSuite,
    RewindSuite,
    ForkSuite,
    InvocationSuite,
    BlankSuite,
    ArchiveSuite,
    BranchSuite,
    PairingSuite,
    ContextSuite,
    FilterSuite,
    PagingSuite,
    OwnerSuite,
    StateSuite,
    SessionSuite,
    ExpirySuite,
    DeletionSuite,
    ExactSuite,
    TimeSuite,
    RefusalSuite,
    ThreadSuite,
    IndexSuite,
    VectorSuite,
):
    """All that a store must do: how logs grow, what is read from them, what lies beside them, and who owns it."""
