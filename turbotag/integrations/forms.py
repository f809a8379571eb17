"""Fields of a form: from the query, from a urlencoded body, or from multipart/form-data."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl


class FormError(ValueError):
    """A form that cannot be read."""


def fields(query: str, content_type: str, body: bytes) -> dict[str, str]:
    """All fields by name; a field of the body replaces one of the query."""
    kind = content_type.split(";")[0].strip().lower()
    found = _pairs(query.encode())
    if kind == "multipart/form-data":
        return found | _multipart(content_type, body)
    if body and kind not in ("", "application/x-www-form-urlencoded"):
        raise FormError(f"a form is expected, not {kind:.40}")
    return found | _pairs(body)


def _pairs(data: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, errors="strict"))
    except ValueError as e:
        raise FormError(f"the form is not UTF-8: {e}") from None


def _multipart(content_type: str, body: bytes) -> dict[str, str]:
    """The fields of a body of multipart/form-data, which has the format of an e-mail."""
    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise FormError("the form has no parts: check the boundary in its content type")
    found = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            raise FormError("a part of the form has no name")
        try:
            found[name] = content.decode(part.get_content_charset("utf-8"))
        except (LookupError, UnicodeDecodeError):
            raise FormError(f"the field {name!r:.40} is not UTF-8") from None
    return found
