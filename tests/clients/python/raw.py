"""Frames by hand: building an envelope around raw payload bytes, and cutting those bytes out again."""

import datetime
import hashlib
import itertools
import json
import re
import secrets

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^\s,\]}]+")
_NESTED = re.compile(rb'["\[\]{}]')

_run = secrets.token_hex(4)
_ids = itertools.count(1)


def new_id(sender):
    """An id that no other message of this sender has, in this run or another."""
    return f"{sender}-{_run}-{next(_ids)}"


def envelope(kind, sender, **fields):
    """An envelope without its payload; `sender` is an agent id or a whole endpoint."""
    endpoint = sender if isinstance(sender, dict) else {"agent_id": sender}
    head = {"id": new_id(endpoint["agent_id"]), "version": "1.0.0", "type": kind, "sender": endpoint}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    return {**head, **fields, "timestamp": now}


def frame(head, payload):
    """The bytes of one frame: the envelope as JSON, with `payload` (bytes) put in as it is."""
    text = json.dumps(head, ensure_ascii=False).encode()
    return text[:-1] + b', "payload": ' + payload + b"}"


def payload_of(frame_bytes):
    """The payload's own bytes, as they stand in a received frame."""
    at = _space(frame_bytes, 0)
    if frame_bytes[at : at + 1] != b"{":
        raise ValueError("the frame is not a JSON object")
    at += 1
    while True:
        at = _space(frame_bytes, at)
        if frame_bytes[at : at + 1] == b",":
            at = _space(frame_bytes, at + 1)
        key = _STRING.match(frame_bytes, at)
        if key is None:
            raise ValueError("the frame has no payload")
        start = _space(frame_bytes, _space(frame_bytes, key.end()) + 1)  # past the colon
        end = _value_end(frame_bytes, start)
        if json.loads(key[0]) == "payload":
            return frame_bytes[start:end]
        at = end


def _space(text, at):
    return _SPACE.match(text, at).end()


def _value_end(text, at):
    """Where the JSON value that starts at `at` ends."""
    first = text[at : at + 1]
    if first == b'"':
        return _STRING.match(text, at).end()
    if first not in (b"{", b"["):
        return _SCALAR.match(text, at).end()
    depth = 0
    while True:
        mark = _NESTED.search(text, at)
        at = mark.end()
        if mark[0] == b'"':
            at = _STRING.match(text, mark.start()).end()
        elif mark[0] in b"[{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return at


def sha256(data):
    """The hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def lines(path):
    """The lines of a file as bytes; only a line feed ends a line."""
    return [line for line in path.read_bytes().split(b"\n") if line]
