"""Several calls for one thread in one transaction; where that fails, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.modes import Mode
from langchain_sessions._sql.threads.staging import stage_unseen
from langchain_sessions._sql.threads.writing import ask_session, is_of_parent, put_checkpoint, put_writes
from langchain_sessions.errors import StoreUnavailableError
from langchain_sessions.stores.threads import PlanOutcome, PutPlan, PutResult, ThreadPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._core.rows import SessionKey, SessionRow
    from langchain_sessions._sql.driver.pipelining import Later
    from langchain_sessions._sql.driver.transaction import Transaction

_MAX_RACES = 20


class Run(Protocol):
    """Runs an operation in a transaction; a bound method with an async twin."""

    def __call__(self, mode: Mode, operation: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """Run it."""
        ...


def commit_plans(run: Run, plans: Sequence[ThreadPlan]) -> Flow[list[PlanOutcome]]:
    """Commit plans together; those that this did not write, each alone."""
    written: list[_Attempt | None] = [None] * len(plans)
    if len(plans) > 1:
        try:
            written = yield from ask(run, _mode(plans), run_plans, plans)
        except Exception:
            written = [None] * len(plans)
    outcomes: list[PlanOutcome] = []
    for plan, attempt in zip(plans, written, strict=True):
        if attempt is not None and attempt.is_stored:
            outcomes.append(attempt.result)
        else:
            outcomes.append((yield from _commit_alone(run, plan)))
    return outcomes


def _commit_alone(run: Run, plan: ThreadPlan) -> Flow[PlanOutcome]:
    """Commit one plan, again where it lost a race."""
    for races in range(_MAX_RACES):
        try:
            (attempt,) = yield from ask(run, _mode([plan]), run_plans, [plan], wary=races > 0)
        except UniqueViolationError:
            continue
        except Exception as error:
            return error
        if attempt.is_stored:
            result: PlanOutcome = attempt.result
            return result
    return StoreUnavailableError(f"Thread {plan.key.id!r} could not be written: other writers keep winning.")


def _mode(plans: Sequence[ThreadPlan]) -> Mode:
    """How to run them: without waiting for the disk only where none of them has to."""
    may_lag = all(isinstance(plan, WritesPlan) and plan.may_lag for plan in plans)
    return Mode.RELAXED if may_lag else Mode.APPEND


@dataclass(slots=True)
class _Attempt:
    """What a transaction did about a plan, known once it is over."""

    result: PutResult | None = None
    sent_to: int | None = None
    """The session key that writes were sent for unseen; None where the session was looked at first."""
    session: Later | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it is stored."""
        if self.sent_to is None or self.session is None:
            return True
        return self.session.row is not None and self.session.row[0] == self.sent_to


def run_plans(tx: Transaction, plans: Sequence[ThreadPlan], *, wary: bool = False) -> list[_Attempt]:
    """Run several plans for one thread in one transaction. If one fails, none of them happened.

    Args:
        tx: The transaction.
        plans: The plans, writes before checkpoints.
        wary: Look at the session before anything is sent. Else writes are sent for the session as it was last seen,
            without waiting for it, and their outcome says whether it was.
    """
    attempts: list[_Attempt] = []
    session: SessionRow | None = None
    asked: dict[SessionKey, Later] = {}
    puts = [plan for plan in plans if isinstance(plan, PutPlan)]
    arrived: list[WritesPlan] = []
    for plan in plans:
        known = session if session is not None and plan.key.admits(session.user_id) else None
        if isinstance(plan, PutPlan):
            done = put_checkpoint(tx, plan, known, [item for item in arrived if is_of_parent(plan, item)])
            arrived = [item for item in arrived if not is_of_parent(plan, item)]
            session = done.session
            attempts.append(_Attempt(done))
        elif any(plan.key == put.key and is_of_parent(put, plan) for put in puts):
            arrived.append(plan)
            attempts.append(_Attempt())
        elif known is None and plan.named_in is not None and not wary:
            if plan.key not in asked:
                asked[plan.key] = ask_session(tx, plan.key, plan.draft.now)
            stage_unseen(tx, plan.named_in, plan, plan.rows(plan.named_in))
            attempts.append(_Attempt(None, plan.named_in, asked[plan.key]))
        else:
            session = put_writes(tx, plan, known)
            attempts.append(_Attempt())
    return attempts
