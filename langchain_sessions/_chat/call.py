"""One model call around which a conversation is kept: what is stored before it, what it is shown, what comes of it."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langchain_sessions._chat import prompt as prompts
from langchain_sessions._chat.fit import compact_before, prompt_costs, shorten
from langchain_sessions._chat.graph_state import NO_STATE, GraphState
from langchain_sessions._chat.news import News, Request, message_of, results_alone, run_of
from langchain_sessions._chat.outbound import acknowledgement
from langchain_sessions._chat.prompt import PromptContext
from langchain_sessions._chat.replies import awaits_results, cut_short, is_cut_by_window
from langchain_sessions._chat.store_run import (
    CallMessages,
    mark_run,
    store_ending,
    store_messages,
    take_up_call,
    take_up_edits,
    told_by_content,
    without_call,
)
from langchain_sessions._compaction.background import compact_later
from langchain_sessions._compaction.triggers import known_window
from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import TURN_OF
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import (
    EventNotFoundError,
    PromptTooLongError,
    ReplyNotStoredError,
    SessionEndedError,
    SessionNotFoundError,
)
from langchain_sessions.events import EventKind, InvocationStatus, SessionEvent, Standing
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.asides import Asides
    from langchain_sessions._chat.replies import ReplyRecorder
    from langchain_sessions._chat.session_memory import ChatOptions, SessionMemory
    from langchain_sessions._compaction.plan import ModelCall
    from langchain_sessions.modes import PromptDraft

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Call:
    """One model call in progress. Made by `begin`.

    Attributes:
        memory: How the conversation is kept.
        address: The session.
        request: What was said, as far as the model is asked it.
        news: What of it the log did not hold.
        invocation_id: The run that it belongs to.
        model: What is known of the model.
        configurable: The `configurable` of the call.
        state: What the graph holds around it.
        asides: What others show in it beside what was said; None where nobody does.
        appended: What was stored of it so far.
        context: What stands in the session for it; None where that has to be loaded anew.
        was_shortened: Whether the prompt was too long before, and was made shorter.
        drafted: The draft of the prompt that would go out now; None where it has to be made anew.
        shown: What the model was shown last of what we know.
        added: What the template of a chain adds to that, for the count.
        noted: What is noted beside the reply of its prompt.
        is_refused: Whether a rewind took back what it answers, so that the log did not take it.
        keeping: Which messages of it are stored, and when.
    """

    memory: SessionMemory
    address: Address
    request: Request
    news: News
    invocation_id: str
    model: ModelCall
    configurable: Mapping[str, Any]
    state: GraphState = NO_STATE
    asides: Asides | None = None
    appended: tuple[SessionEvent, ...] = ()
    context: PromptContext | None = None
    was_shortened: bool = False
    drafted: PromptDraft | None = None
    shown: Sequence[BaseMessage] = ()
    added: Sequence[BaseMessage] = ()
    noted: Mapping[str, Any] | None = None
    is_refused: bool = False
    keeping: CallMessages = field(init=False)

    def __post_init__(self) -> None:
        """Nothing of it is stored yet."""
        self.keeping = CallMessages(self.options.store)

    @property
    def options(self) -> ChatOptions:
        """How the conversation is kept."""
        return self.memory.options

    @property
    def answered(self) -> int:
        """The newest position that the log had of the turn when the model was asked; 0 where it had nothing of it."""
        return max((event.seq for event in self.appended), default=self.news.answers)

    # -- before the model ----------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls,
        memory: SessionMemory,
        address: Address,
        request: Request,
        *,
        run_id: str,
        model: ModelCall,
        configurable: Mapping[str, Any],
        state: GraphState = NO_STATE,
        asides: Asides | None = None,
        added: Sequence[BaseMessage] = (),
    ) -> Flow[Call]:
        """Open the session, store what is new in the request, compact if it is time.

        Args:
            memory: How the conversation is kept.
            address: The session.
            request: What was said, as far as the model is asked it.
            run_id: Names the run, where it is a new one.
            model: What is known of the model.
            configurable: The `configurable` of the call.
            state: What the graph holds around the call; edits in it are taken up.
            asides: What others show in it beside what was said; it is not stored.
            added: What a chain's template adds to the prompt.

        Raises:
            SessionNotFoundError: The session belongs to somebody else.
            SessionEndedError: It has ended.
        """
        call = cls(
            memory=memory,
            address=address,
            request=request,
            news=News(),
            invocation_id=run_id,
            model=model,
            configurable=configurable,
            added=added,
            state=state,
            asides=asides,
        )
        context = yield from call._look_at_log()
        try:
            try:
                yield from call._store_request(context)
            except EventNotFoundError:
                if not call.is_refused:
                    raise
                # A rewind came between the two, and is taken for one that came before.
                call.is_refused, call.invocation_id, call.context = False, run_id, None
                yield from call._store_request((yield from call._look_at_log()))
            compaction = call.options.compaction
            has_window = model.context_window or getattr(model.model, "profile", None)
            if compaction is not None and (compaction.where == "before" or has_window):
                yield from compact_before(call, compaction)
        except BaseException as error:
            yield from call.fail(None, error)
            raise
        return call

    def _look_at_log(self) -> Flow[PromptContext]:
        """Load what stands in the session, with a graph's edits, and tell what is new beside it."""
        options, body, state = self.options, self.request.body, self.state
        try:
            context = yield from self._take_up_edits()
        except SessionNotFoundError:
            if (alone := results_alone(body)) and not state.messages:
                raise without_call(alone[0].tool_call_id) from None  # which nobody has, and so opens no session
            yield from ask(self.address.sessions.open, self.address.session_id)
            context = PromptContext()
        self.news = yield from prompts.look_for_news(options, self.address, context, body, state)
        if self.news.fresh and not self.news.answers and results_alone(body):
            self.news = yield from take_up_call(options, self.address, self.news)
        if self.news.invocation_id is not None:
            self.invocation_id = self.news.invocation_id
        elif not self.news.ended and not self.news.told and self.news.newest <= context.version:
            # A checkpoint may have logged a part of the turn between the two looks: then this one lacks it.
            self.context = context
        return context

    def _take_up_edits(self) -> Flow[PromptContext]:
        """Load what stands in the session, with a graph's edits."""
        held = self.state.messages
        # A graph may have edited whatever it holds, so what is compared reaches as far back as its state does.
        size = prompts.enough(self, len(held))
        context = yield from prompts.load_context(self, None, size)
        if (yield from take_up_edits(self.options, self.address, context.events, held)):
            context = yield from prompts.load_context(self, None, size)
        return context

    def _store_request(self, context: PromptContext) -> Flow[None]:
        """Store what is new in the request."""
        options, news = self.options, self.news
        if news.is_taken_back:
            return
        for run in news.given_up:
            if run in news.ended:
                self.news = news = yield from store_ending(options, self.address, news, run)
            else:
                yield from self._mark(run, InvocationStatus.FAILED)
        if news.ended:
            yield from self._take_up_edits()  # of runs that stand from here on
        system = self._new_system(context)
        examples = [told_by_content(m, options.branch) for m in news.examples] if options.store_examples else []
        fresh = [*system, *examples, *self.keeping.question(news.fresh)]
        if fresh or not news.is_open:
            self.appended = tuple((yield from self._append(fresh, InvocationStatus.OPEN, answers=news.answers)))
            yield from self._adopt_runs(context.version)

    def _new_system(self, context: PromptContext) -> list[SystemMessage]:
        """The request's system message, if it is to be stored and says something new."""
        merged = prompts.merge_system(self.request.system) if self.options.store_system else None
        if merged is None:
            return []
        stored = prompts.newest_system(context.events) or context.older_system
        return [] if stored is not None and equal(stored.content, merged.content) else [merged]

    def _adopt_runs(self, version: int) -> Flow[None]:
        """Take up the runs of questions that a checkpoint logged between the look at the log and the append."""
        events = [event for event in self.appended if event.kind is EventKind.MESSAGE and event.seq > version]
        runs = [run for event in events if (run := run_of(event)) is not None and run.startswith(TURN_OF)]
        if not runs:
            return
        if self.news.invocation_id is None and all(event.invocation_id is None for event in events):
            self.invocation_id = runs[-1]
            yield from self._mark(runs[-1], InvocationStatus.OPEN)
        others = {run: Standing.LIVE for run in runs if run != self.invocation_id}
        self.news = replace(self.news, others={**self.news.others, **others})

    # -- the prompt ----------------------------------------------------------------------------------------

    def prompt(self) -> Flow[list[BaseMessage]]:
        """What the model is shown: one system block, few-shots, what is remembered, what is being said."""
        draft = yield from self.draft()
        history = [message_of(event) for event in draft.history]
        parts: list[Sequence[BaseMessage]] = [(*self.request.summary, *self.news.examples), history, draft.tail]
        if self.asides is not None:
            parts = [*self.asides.put_between(self.asides.of_messages(parts[0]), *parts[1:])]
        longest, reader = self.options.max_characters, self.model.model
        how: dict[str, Any] = {"tools": self.model.tools, "is_shortened": self.was_shortened}
        prompt = prompts.assemble(draft.system, *parts, max_characters=longest, reader=reader, **how)
        if self.options.compaction is not None:
            known = {id(message): event.tokens for event, message in zip(draft.history, history, strict=True)}
            self._count([*self.added, *prompt], known, draft.history)
        self.shown = prompt
        return prompt

    def _count(self, prompt: Sequence[BaseMessage], *known: Any) -> None:
        """Note what the prompt counts for, for whatever triggers ask."""
        try:
            self.model = self.memory.budget.measured(self.model, self._conversation, prompt, *known)
        except Exception as error:  # noqa: BLE001 - a tool that cannot be counted must not cost the answer
            _log.warning("A prompt was not counted: %s", type(error).__name__)

    @property
    def _conversation(self) -> tuple[object, ...]:  # of this viewer
        return (log_of(self.address.sessions).owner, self.address.session_id, self.options.branch)

    def draft(self) -> Flow[PromptDraft]:
        """What is remembered, in the form that the modes give it."""
        if self.drafted is None:
            self.drafted = yield from prompts.draft_of(self)
        return self.drafted

    # -- a prompt that is too long -------------------------------------------------------------------------

    def is_shorter_after(self, error: Exception) -> Flow[bool]:
        """Whether the prompt was refused as too long, for the first time, and is shorter now."""
        if self.was_shortened or not self.memory.is_overflow(error):
            return False
        return (yield from shorten(self))

    def is_shorter_after_cut(self, reply: BaseMessage | None) -> Flow[bool]:
        """Whether the window cut the reply, for the first time, and the prompt is shorter now."""
        if self.was_shortened or not (isinstance(reply, AIMessage) and cut_short(reply)):
            return False
        if not is_cut_by_window(reply, known_window(self.model)):
            return False
        return (yield from shorten(self))

    def explanation(self, error: BaseException, recorder: ReplyRecorder) -> PromptTooLongError | None:
        """What to raise for a prompt that could not be made to fit; None where the error is another."""
        if isinstance(error, Exception) and self.memory.is_overflow(error):
            parts = prompt_costs(self, recorder.asked_last)
            return PromptTooLongError(self.address.session_id, parts, known_window(self.model))
        return None

    # -- after the model -----------------------------------------------------------------------------------

    def learn(self, recorder: ReplyRecorder) -> None:
        """Take in what the provider reported of the prompt."""
        self.noted = self.memory.budget.learn(self.model, self._conversation, self.shown, recorder)

    def finish(
        self, said: Sequence[BaseMessage], *, consumed: Sequence[str] = (), ended: bool = False, goes_on: bool = False
    ) -> Flow[None]:
        """Store what was answered. The run is done, unless it asks for tools.

        Args:
            said: The reply, with the calls and the results that came with it.
            consumed: Calls of the reply that a structured output was made from.
            ended: Nobody will answer its calls.
            goes_on: The model is asked once more with the results that came with it: of an output that was not valid.

        Raises:
            ReplyNotStoredError: It could not be stored, and `on_store_error` is `raise`.
        """
        awaits = goes_on or (not (consumed or ended) and awaits_results(said))
        kept = self.keeping.answer(said, awaits=awaits)
        if kept:
            kept += [acknowledgement(call) for call in consumed]
        status = self._status_after(said, is_open=awaits and bool(kept))
        try:
            yield from self._store_reply(kept, status)
            if not awaits:
                yield from self._compact_in_background(kept)
        except (SessionNotFoundError, SessionEndedError, EventNotFoundError) as error:
            # Deleted, ended or taken back while the model spoke: the answer is still delivered.
            _log.warning("A reply was not stored: %s", error)
            if self.is_refused:
                yield from self.fail(None, error)
        except Exception as error:
            self._report("The answer was delivered but not stored", error)
            if self.options.on_store_error == "raise":
                raise ReplyNotStoredError(self.address.session_id, said) from error
        except BaseException:
            # Cancelled on the way. The answer is there, and to append it again stores nothing twice.
            with suppress(SessionNotFoundError, SessionEndedError, EventNotFoundError):
                yield from self._append(kept, status, is_reply=True, answers=self.answered, noted=self.noted)
            raise

    def _status_after(self, said: Sequence[BaseMessage], *, is_open: bool) -> InvocationStatus:
        """How far the run is with a reply."""
        has_answer = any(isinstance(message, AIMessage) for message in self.news.tail)
        if said and not not_empty(said) and not has_answer:
            return InvocationStatus.FAILED  # an answer without a word leaves the question unanswered
        return InvocationStatus.OPEN if is_open else InvocationStatus.DONE

    def _store_reply(self, kept: Sequence[BaseMessage], status: InvocationStatus) -> Flow[None]:
        stored = yield from self._append(kept, status, is_reply=True, answers=self.answered, noted=self.noted)
        for run, standing in self.news.others.items():
            if standing is not Standing.LIVE:
                yield from self._mark(run, status)
        # Only now: a question that is its own best match would take a place among what it recalls.
        yield from self._index([*self.appended, *stored])

    def _compact_in_background(self, kept: Sequence[BaseMessage]) -> Flow[None]:
        compaction, model = self.options.compaction, self.model
        if compaction is not None and compaction.where == "background":
            if model.prompt_tokens is not None:
                grown = model.prompt_tokens + self.memory.budget.count_messages(kept, model.model)
                model = replace(model, prompt_tokens=grown)
            log, on = log_of(self.address.sessions), self.address.session_id
            yield from compact_later(log, on, compaction, branch=self.options.branch, call=model, ancestors=True)

    def interrupt(self, partial: AIMessage | None, *, steps: Sequence[BaseMessage] = ()) -> Flow[None]:
        """The reader left: keep what arrived. A question that got no word of answer is not replayed."""
        status = InvocationStatus.INTERRUPTED if steps or partial is not None else InvocationStatus.FAILED
        try:
            if steps:
                kept = self.options.store(steps)
                self.appended += tuple((yield from self._append(kept, status, answers=self.answered)))
            if part := self.keeping.part(partial):
                yield from self._append(part, status, answers=self.answered, interrupted=True)
            elif not steps:
                yield from self._append([], status)
            if status is InvocationStatus.INTERRUPTED:
                yield from self._index(self.appended)
        except EventNotFoundError as error:
            yield from self.fail(None, error)  # taken back as well
        except Exception as error:  # noqa: BLE001 - nobody is left to tell but the log
            self._report("What arrived before the reader left was not stored", error)

    def fail(self, partial: AIMessage | None, error: BaseException) -> Flow[None]:
        """The call failed: mark the run, and keep what arrived in a run of its own, out of a retry's way.

        Where a rewind took back what was to be answered nothing failed: what it left of the run stays in sight.
        """
        status = InvocationStatus.INTERRUPTED if self.is_refused else InvocationStatus.FAILED
        try:
            yield from self._append([], status)
            for run in self.news.others:
                yield from self._mark(run, status)
            if (part := self.keeping.part(partial)) and not self.news.is_taken_back:
                yield from store_messages(
                    self.options,
                    self.address,
                    part,
                    InvocationStatus.FAILED,
                    invocation_id=f"attempt:{uuid.uuid4().hex}",
                    interrupted=True,
                    error_code=type(error).__name__,
                )
        except (SessionNotFoundError, SessionEndedError):
            return
        except Exception as unmarked:  # noqa: BLE001 - the caller is told what went wrong with the call itself
            self._report("A failed call was not marked", unmarked)

    # -- the log -------------------------------------------------------------------------------------------

    def _append(
        self, messages: Sequence[BaseMessage], status: InvocationStatus, **more: Any
    ) -> Flow[list[SessionEvent]]:
        """Append messages as the next of this run, and say how far it has got. Nothing, where it was taken back."""
        if self.news.is_taken_back:
            return []
        how = {**more, "invocation_id": self.invocation_id, "first_ordinal": self.news.stored + len(self.appended)}
        try:
            return (yield from store_messages(self.options, self.address, messages, status, **how))
        except EventNotFoundError:
            self.is_refused = True
            raise

    def _mark(self, invocation_id: str, status: InvocationStatus) -> Flow[None]:
        return mark_run(self.options, self.address, invocation_id, status)

    def _index(self, events: Sequence[SessionEvent]) -> Flow[None]:
        for mode in self.options.modes:
            yield from mode.index(self.address, events)

    def _report(self, what: str, error: Exception) -> None:
        """Say in the log what the store did not take; no text of messages, no driver's words."""
        run = self.address.session_id, self.invocation_id
        _log.error("%s: session %r, run %r: %s", what, *run, type(error).__name__)
