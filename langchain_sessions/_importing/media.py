"""Pictures, sounds and files of other libraries' forms, as LangChain's blocks, which every provider's client knows."""

from __future__ import annotations

import base64
import mimetypes
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA_URL = re.compile(r"data:(?P<kind>[^;,]+)(?:;[^;,]*)*?;base64,(?P<data>.*)", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_PDF = "JVBERi0"  # how a PDF begins, in base64
_SHOWN = ("media_resolution", "video_metadata")
# A part may name its form and hold something else.
_OTHERWISE = (AttributeError, KeyError, TypeError, ValueError)


def openai_block(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of OpenAI's responses format; as it is where it is none of these."""
    if part.get("type") in {"input_text", "output_text", "text"}:
        return {"type": "text", "text": part["text"]}
    try:
        return _openai_media(part) or dict(part)
    except _OTHERWISE:
        return dict(part)


def _openai_media(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    found: dict[str, Any] = {}
    if kind == "input_image":
        found = _picture(part)
    elif kind == "input_file":
        name, data = part.get("filename"), part.get("file_data")
        plain = "".join(data.split()) if data else ""  # it may stand in lines
        if _BASE64.fullmatch(plain):
            found = {"type": "file", "base64": plain, "mime_type": _mime_type(plain, name)}
        else:
            found = _at("file", data or part.get("file_url"), part.get("file_id"))
        if found and name:
            found["filename"] = name
    elif kind == "input_audio":
        sound = part["input_audio"]
        found = {"type": "audio", "base64": sound["data"], "mime_type": f"audio/{sound['format']}"}
    return found


def _picture(part: Mapping[str, Any]) -> dict[str, Any]:
    """A picture; how closely it was to be looked at says of an address only the one form that every client takes."""
    address, detail = part.get("image_url"), part.get("detail")
    if address and detail not in (None, "auto"):
        return {"type": "image_url", "image_url": {"url": address, "detail": detail}}
    found = _at("image", address, part.get("file_id"))
    return {**found, "extras": {"detail": detail}} if found and detail not in (None, "auto") else found


def _mime_type(data: str, name: str | None) -> str:
    """What a file is that says nothing of it but its name."""
    known = mimetypes.guess_type(name or "")[0]
    return known or ("application/pdf" if data.startswith(_PDF) else "application/octet-stream")


def adk_block(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of Google's ADK that is neither text nor a call; kept as it is where it is none of these."""
    try:
        return _adk_media(part) or {"type": "adk", "part": dict(part)}
    except _OTHERWISE:
        return {"type": "adk", "part": dict(part)}


def _adk_media(part: Mapping[str, Any]) -> dict[str, Any]:
    inline, held = part.get("inline_data"), part.get("file_data")
    if inline and inline.get("data"):
        # Pydantic writes bytes in the alphabet of URLs.
        data = base64.b64encode(base64.urlsafe_b64decode(inline["data"].replace("+", "-").replace("/", "_"))).decode()
        return {"type": _kind(inline), "base64": data, **_described(inline), **_how_shown(part)}
    if held and held.get("file_uri"):
        return {"type": _kind(held), "url": held["file_uri"], **_described(held), **_how_shown(part)}
    return {}


def _how_shown(part: Mapping[str, Any]) -> dict[str, Any]:
    """How closely, and what of it, the model was to look at, by the names that Google's client reads."""
    found = {name: part[name] for name in _SHOWN if part.get(name)}
    resolution = found.get("media_resolution")
    return {**found, "media_resolution": resolution["level"]} if isinstance(resolution, dict) else found


def _at(kind: str, address: str | None, file_id: str | None) -> dict[str, Any]:
    data = _DATA_URL.fullmatch(address) if address else None
    if data is not None:
        return {"type": kind, "base64": data["data"], "mime_type": data["kind"]}
    if address:
        return {"type": kind, "url": address}
    return {"type": kind, "file_id": file_id} if file_id else {}


def _kind(media: Mapping[str, Any]) -> str:
    kind = str(media.get("mime_type") or "").partition("/")[0]
    return kind if kind in {"image", "audio", "video"} else "file"


def _described(media: Mapping[str, Any]) -> dict[str, str]:
    named = {"mime_type": media.get("mime_type"), "filename": media.get("display_name")}
    return {name: str(value) for name, value in named.items() if value}
