"""Structured summaries: a schema of fields in place of free text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, cast

from langchain_core.messages import AIMessage
from langchain_core.utils.json import parse_json_markdown
from pydantic import BaseModel, Field, ValidationError

from langchain_sessions._compaction.plan import Outcome
from langchain_sessions._compaction.summarizer import Summary, cut_text, fit_text
from langchain_sessions._core.edge import require
from langchain_sessions.errors import SummaryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STRUCTURED_CHARACTERS = 1_000

Schema = type[BaseModel] | dict[str, Any]
"""A pydantic model, or a JSON schema of an object; with a text field named `summary`."""


class ConversationSummary(BaseModel):
    """A summary of a conversation."""

    title: str = Field(description="A title of at most eight words.")
    keywords: list[str] = Field(description="Three to ten words that one would search for.")
    summary: str = Field(description="What was said, as running text.")
    key_points: list[str] = Field(description="The points that matter, one sentence each.")
    key_facts: list[str] = Field(description="Facts with names, numbers and dates exactly as they were given.")
    sentiment: Literal["positive", "neutral", "negative"] = Field(description="The tone of what was said.")
    confidence: float = Field(ge=0, le=10, description="How complete and certain this summary is, from 0 to 10.")


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "array": (list,),
    "object": (dict,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def is_model(schema: Schema) -> TypeGuard[type[BaseModel]]:
    """Whether the schema is a pydantic model."""
    return isinstance(schema, type)


def check_schema(schema: Schema) -> Schema:
    """The schema, if a summary can be read out of it.

    Raises:
        InvalidInputError: It is none, or has no field `summary`.
    """
    is_schema = hasattr(schema, "model_fields") if is_model(schema) else isinstance(schema, dict)
    require(is_schema, "schema", "give a pydantic model, such as ConversationSummary, or a JSON schema")
    fields: Any = schema.model_fields if is_model(schema) else cast("dict[str, Any]", schema).get("properties", {})
    require("summary" in fields, "schema", "needs a text field named 'summary'")
    return schema


def schema_text(schema: Schema) -> str:
    """The schema for a model that has no structured output of its own."""
    document = schema.model_json_schema() if is_model(schema) else schema
    return json.dumps(document, ensure_ascii=False)


def read_structured(schema: Schema, answer: object, max_characters: int) -> Summary:
    """The summary in a model's structured answer.

    The text is the field `summary`, followed by the lists of sentences as far as they fit: what the model is to
    go on from has to hold the facts too.

    Raises:
        SummaryError: The answer does not fit the schema, or is blank.
    """
    fields = _validated(schema, answer)
    text = fields.get("summary")
    if text is None:
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    if not isinstance(text, str):
        raise SummaryError(Outcome.SUMMARY_FAILED, f"the field 'summary' is {type(text).__name__}, not text")
    details = {name: value for name, value in fields.items() if name not in ("title", "keywords", "summary")}
    return Summary(
        text=_with_lists(fit_text(text, max_characters), details, max_characters),
        title=fields.get("title"),
        keywords=tuple(fields.get("keywords") or ()),
        details=details,
    )


def _validated(schema: Schema, answer: object) -> dict[str, Any]:
    if is_model(schema):
        if isinstance(answer, dict):
            try:
                answer = schema.model_validate(answer)
            except ValidationError as error:
                problem = f"the answer does not fit the schema in {error.error_count()} places"
                raise SummaryError(Outcome.SUMMARY_FAILED, problem) from error
        if isinstance(answer, schema):
            return answer.model_dump(mode="json")
    elif isinstance(answer, BaseModel):
        answer = answer.model_dump(mode="json")
    if answer is None or answer == {}:
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    if not isinstance(answer, dict):
        raise SummaryError(Outcome.SUMMARY_FAILED, f"the summariser returned {type(answer).__name__}, not the schema")
    fields = cast("dict[str, Any]", answer)
    _check_fields(cast("dict[str, Any]", schema), fields)
    return fields


def _check_fields(schema: dict[str, Any], fields: dict[str, Any]) -> None:
    """Required fields are there; fields are of their type, one of their enumeration, and within their bounds."""
    missing = [name for name in schema.get("required", ()) if name not in fields]
    if missing:
        raise SummaryError(Outcome.SUMMARY_FAILED, f"the answer lacks {', '.join(map(str, missing))}")
    for name, rule in schema.get("properties", {}).items():
        if name in fields and isinstance(rule, dict):
            problem = _wrong_with(cast("dict[str, Any]", rule), fields[name])
            if problem:
                raise SummaryError(Outcome.SUMMARY_FAILED, f"the field {name!r} {problem}")


def _wrong_with(rule: dict[str, Any], value: object) -> str | None:
    """What of a value is not as its rule wants it, without a word of the value; None where nothing is."""
    types = rule.get("type")
    names = cast("list[object]", types) if isinstance(types, list) else [types]
    kinds = [_JSON_TYPES.get(str(name), ()) for name in names]
    if all(kinds) and not any(isinstance(value, each) for each in kinds):
        return f"is {type(value).__name__}"
    if "enum" in rule and value not in rule["enum"]:
        return "is none of its enumeration"
    if "const" in rule and value != rule["const"]:
        return "is not its constant"
    if isinstance(value, (int, float)) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        return "is out of its bounds"
    inner = rule.get("items")
    if isinstance(value, list) and isinstance(inner, dict):
        items = cast("list[object]", value)
        wrong = (_wrong_with(cast("dict[str, Any]", inner), item) for item in items)
        return next((f"holds what {problem}" for problem in wrong if problem), None)
    return None


def _with_lists(text: str, details: Mapping[str, Any], max_characters: int) -> str:
    for name, value in details.items():
        if not isinstance(value, list):
            continue
        items = [item for item in cast("list[object]", value) if isinstance(item, str) and item.strip()]
        heading = f"\n\n{name.replace('_', ' ').capitalize()}:"
        for item in items:
            line = f"\n- {cut_text(' '.join(item.split()), max_characters)}"
            if len(text) + len(heading) + len(line) > max_characters:
                return text
            text += heading + line
            heading = ""
    return text


_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_UNFINISHED = re.compile(r"\s*<(?:think|thinking|reasoning)>")
# Some servers put the beginning of the tag into the prompt.
_UNBEGUN = re.compile(r"(?:(?!<think>).)*?</think>[ \t]*\n", re.DOTALL)
_OBJECT = re.compile(r'\{\s*"')
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_DECODER = json.JSONDecoder(strict=False)


def without_thought(text: str) -> str:
    """A text behind what a model thought aloud; blank where it thought to the end."""
    # From the beginning alone: a search would look for the end anew from every letter.
    unbegun = _UNBEGUN.match(text)
    said = _THOUGHT.sub("", text[unbegun.end() if unbegun else 0 :], count=1)
    return "" if _UNFINISHED.match(said) else said


def read_json(text: str) -> object:
    """The object with a summary in a text, as far as it goes: behind thoughts and words, in fences, lists and frames.

    Raises:
        ValueError: There is none.
    """
    text = _THOUGHT.sub("", text, count=1)
    begins = [found.start() for found in _OBJECT.finditer(text)]
    part = text[begins[0] if begins else max(text.find("{"), 0) :]
    if "{" not in part:
        raise ValueError  # without a search that takes the longer the more words there are
    for given in (part, _TRAILING_COMMA.sub("", part)):
        for answer in _objects_in(given):
            if "summary" in answer:
                return answer
    return unframed(parse_json_markdown(part))


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The whole objects in a text, without their frames."""
    at = 0
    while (found := _OBJECT.search(text, at)) is not None:
        try:
            value, at = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return
        yield cast("dict[str, Any]", unframed(value))


def unframed(answer: object) -> object:
    """An answer without a frame of one key, such as the name of the schema, around it."""
    held = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    inner = next(iter(held.values())) if len(held) == 1 else None
    return cast("object", inner) if isinstance(inner, dict) and "summary" in inner else answer


def reply_behind(error: Exception) -> AIMessage | None:
    """The reply that a client raised about before anybody could read it; None where there is none.

    OpenAI's client parses structured output itself: of a reply that was cut off, or that has more than JSON in it, it
    raises, and the completion, or the body of the HTTP response, hangs on the error.
    """
    completion: Any = getattr(error, "completion", None)
    try:
        # Only of what was read already: other clients' responses have a `json` that is a coroutine, or that waits.
        body = json.loads(_content_behind(error)) if completion is None else completion.model_dump()
        return _said_in(cast("dict[str, Any]", body))
    except Exception:  # noqa: BLE001 - whatever hangs on an error of somebody else's
        return None


def _content_behind(error: Exception) -> bytes:
    content: object = getattr(getattr(error, "response", None), "content", None)
    return content if isinstance(content, bytes) else b""


def _said_in(body: Mapping[str, Any]) -> AIMessage | None:
    if body.get("choices"):
        choice = body["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    else:
        parts = [part for item in body["output"] for part in item.get("content") or () if part.get("text")]
        text = "".join(part["text"] for part in parts)
        reason = "length" if body.get("status") == "incomplete" else None
    return AIMessage(text, response_metadata={"finish_reason": reason}) if text and text.strip() else None
