"""RFC 6455 against a Harbor itself, on bare sockets: `conformance.py URL` prints one line per case.

A message passes if another agent gets its bytes; a violation passes if the connection is closed with the right code,
nothing of it is delivered, and the other agents' connections go on.
"""

import json
import os
import sys
import threading
import time

import raw
from wire import BINARY, CLOSE, CONTINUATION, PATIENCE, PING, PONG, TEXT, Wire

DEADLINE = float(os.environ.get("SYNAPSE_CLIENT_DEADLINE", "90"))  # seconds, for the whole program
CASES = []


def need(condition, what):
    """Ends the case unless `condition` holds."""
    if not condition:
        raise AssertionError(str(what)[:300])


def case(name, *options):
    """Adds a case, or one for each option, which goes to it after the stage."""

    def add(function):
        if not options:
            CASES.append((name, function))
        for option in options:
            shown = ", ".join(f"{k}: {v}" for k, v in option.items()) if isinstance(option, dict) else option
            CASES.append((f"{name} ({shown})", lambda stage, option=option: function(stage, option)))
        return function

    return add


class Stage:
    """What one case needs: a reader and a guard, who must be served whatever another connection does."""

    def __init__(self, url):
        self.url = url
        self.limit = 0
        self.reader_id, self.reader = self.join("reader")
        self.guard_id, self.guard = self.join("guard")

    def join(self, name):
        """A registered agent on a bare socket."""
        wire, agent_id = Wire(self.url), raw.new_id(f"wire-{name}")
        challenge = json.loads(wire.message())["payload"]
        self.limit = challenge["max_frame_bytes"]
        nonce = json.dumps({"nonce": challenge["nonce"]}).encode()
        wire.send(TEXT, raw.frame(raw.envelope("synapse.register", agent_id), nonce))
        need(json.loads(wire.message())["type"] == "synapse.registered", "not registered")
        return agent_id, wire

    def note(self, sender_id, payload=b'"\xf0\x9f\x9a\xa2"', size=None):
        """A whole frame for the reader, as long as `size` says."""
        data = raw.frame(raw.envelope("note", sender_id, receiver={"agent_id": self.reader_id}), payload)
        return data if size is None else data[:-1] + b" " * (size - len(data)) + b"}"

    def arrives(self, data, sender):
        """Needs the reader to get exactly these bytes next, and the sender's connection to work still."""
        got = self.reader.message()
        need(got == data, f"{len(got)} bytes came, not the {len(data)} sent")
        need(json.loads(sender.message())["type"] == "synapse.accepted", "not accepted")

    def nothing_arrives(self):
        """Needs the next message that the reader gets to be the guard's."""
        data = self.note(self.guard_id)
        self.guard.send(TEXT, data)
        self.arrives(data, self.guard)

    def fails(self, code, *frames, **shape):
        """Sends frames in one connection and needs it to be closed with `code` and nothing to be delivered."""
        _, sender = self.join("breaker")
        for opcode, payload, *more in frames:
            sender.send(opcode, payload, **(more[0] if more else shape))
        found = sender.close_code()
        need(found == code, f"closed with {found}, not {code}")
        self.nothing_arrives()


# --- the opening handshake ---


@case("handshake: a token in other letters", {"Upgrade": "WebSocket"})
@case("handshake: a token among others", {"Connection": "keep-alive, UPGRADE"})
@case("handshake: an unknown extension is not agreed to", {"Sec-WebSocket-Extensions": "x-tide; knots=3"})
def _(stage, headers):
    wire = Wire(stage.url, headers)
    need("extensions" not in wire.answer.lower(), wire.answer)
    need(json.loads(wire.message())["type"] == "synapse.challenge", "no challenge")
    wire.socket.close()


@case("handshake: 8 KiB of cookies pass")
def _(stage):
    Wire(stage.url, {"Cookie": "c=" + "x" * 8192}).socket.close()


@case("handshake: no key is refused", {"Sec-WebSocket-Key": None})
@case("handshake: another version is refused", {"Sec-WebSocket-Version": "12"})
def _(stage, headers):
    status = Wire(stage.url, headers, upgrade=False).status
    need(status in (400, 426), f"the status is {status}")


# --- messages whole and in pieces ---


@case("length: a whole message", 4095, 4096, 4097, 65535, 65536, 65537, 1024 * 1024)
def _(stage, size):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id, size=size)
    sender.send(TEXT, data)
    stage.arrives(data, sender)


@case("length: a first fragment", 0, 125, 126, 127, 65535, 65536)
def _(stage, size):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id, size=size + 600)
    sender.fragments([data[:size], data[size:]])
    stage.arrives(data, sender)


@case("fragments: a byte each, so every emoji is cut three times")
def _(stage):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id, '"潮🚢👩‍🚀"'.encode())
    sender.fragments([data[at : at + 1] for at in range(len(data))])
    stage.arrives(data, sender)


@case("fragments: empty ones between and at the end")
def _(stage):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id)
    sender.fragments([b"", data[:50], b"", b"", data[50:], b""])
    stage.arrives(data, sender)


@case("fragments: a ping between them is answered before the message ends")
def _(stage):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id)
    sender.send(TEXT, data[:50], fin=False)
    sender.send(PING, b"still there?")
    need(sender.read() == (PONG, b"still there?"), "no pong at once")
    sender.send(CONTINUATION, data[50:])
    stage.arrives(data, sender)


@case("fragments: a pong between them is let pass")
def _(stage):
    sender_id, sender = stage.join("sender")
    data = stage.note(sender_id)
    sender.send(TEXT, data[:50], fin=False)
    sender.send(PONG, b"unasked")
    sender.send(CONTINUATION, data[50:])
    stage.arrives(data, sender)


@case("fragments: a close between them ends the connection, and nothing is delivered")
def _(stage):
    sender_id, _ = stage.join("sender")
    half = stage.note(sender_id)[:50]
    stage.fails(1000, (TEXT, half, {"fin": False}), (CLOSE, b"\x03\xe8", {}))


@case("fragments: a continuation of nothing")
def _(stage):
    stage.fails(1002, (CONTINUATION, b"{}"))


@case("fragments: a new message before the last has ended")
def _(stage):
    stage.fails(1002, (TEXT, b"{", {"fin": False}), (TEXT, b"}", {}))


# --- control frames ---


@case("ping: its payload comes back", 0, 1, 125)
def _(stage, size):
    sender_id, sender = stage.join("sender")
    sender.send(PING, b"p" * size)
    need(sender.read() == (PONG, b"p" * size), "no pong with that payload")
    data = stage.note(sender_id)
    sender.send(TEXT, data)
    stage.arrives(data, sender)


@case("ping: ten at once are answered; the last answer is for the last")
def _(stage):
    _, sender = stage.join("sender")
    for number in range(10):
        sender.send(PING, b"%d" % number)
    while sender.read() != (PONG, b"9"):
        pass


@case("control: longer than 125 bytes", PING, PONG, CLOSE)
def _(stage, opcode):
    stage.fails(1002, (opcode, b"\x03\xe8" + b"x" * 124))


@case("control: in fragments", PING, PONG, CLOSE)
def _(stage, opcode):
    stage.fails(1002, (opcode, b"\x03\xe8", {"fin": False}))


# --- what the first bytes must not say ---


@case("reserved bit", 1, 2, 4)
def _(stage, bits):
    stage.fails(1002, (TEXT, b"{}"), rsv=bits)
    stage.fails(1002, (PING, b""), rsv=bits)


@case("reserved opcode", 3, 4, 5, 6, 7, 11, 12, 13, 14, 15)
def _(stage, opcode):
    stage.fails(1002, (opcode, b""))


@case("a frame that is not masked")
def _(stage):
    stage.fails(1002, (TEXT, b"{}"), masked=False)


@case("a binary message is refused and the connection lives on")
def _(stage):
    sender_id, sender = stage.join("sender")
    sender.send(BINARY, stage.note(sender_id))
    answer = json.loads(sender.message())["payload"]
    need(answer["code"] == "binary_frame", answer)
    data = stage.note(sender_id)
    sender.send(TEXT, data)
    stage.arrives(data, sender)


# --- UTF-8 ---


BAD_UTF8 = {
    "a surrogate": b"\xed\xa0\x80",
    "an overlong slash": b"\xc0\xaf",
    "beyond the last code point": b"\xf4\x90\x80\x80",
    "a lone continuation byte": b"\x80",
    "cut off by the end of its string": b"\xf0\x9f\x9a",
}


@case("utf-8: bad bytes", *BAD_UTF8)
def _(stage, name):
    sender_id, _ = stage.join("sender")
    stage.fails(1007, (TEXT, stage.note(sender_id, b'"' + BAD_UTF8[name] + b'"')))


@case("utf-8: a message that ends within a code point")
def _(stage):
    stage.fails(1007, (TEXT, b"\xf0\x9f\x9a"))


@case("utf-8: bad bytes in a fragment end the connection before the message ends")
def _(stage):
    stage.fails(1007, (TEXT, b'{"id":"\xed\xa0\x80', {"fin": False}))


# --- closing ---


@case("close: without a code")
def _(stage):
    _, sender = stage.join("sender")
    started = time.monotonic()
    sender.send(CLOSE)
    code = sender.close_code()
    need(code in (None, 1000), f"answered with {code}")
    need(time.monotonic() - started < 5, "the TCP connection stayed open")


MAY_BE_SENT = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
MUST_NOT_BE_SENT = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535)


@case("close: a code that may be sent comes back", *MAY_BE_SENT)
def _(stage, code):
    stage.fails(code, (CLOSE, code.to_bytes(2, "big") + "再见".encode()))


@case("close: a code that must not be sent", *MUST_NOT_BE_SENT)
def _(stage, code):
    stage.fails(1002, (CLOSE, code.to_bytes(2, "big")))


@case("close: half a code")
def _(stage):
    stage.fails(1002, (CLOSE, b"\x03"))


@case("close: a reason that is not UTF-8")
def _(stage):
    stage.fails(1007, (CLOSE, b"\x03\xe8\xed\xa0\x80"))


@case("close: what is sent after it is not read")
def _(stage):
    sender_id, sender = stage.join("sender")
    sender.send(CLOSE, b"\x03\xe8")
    try:
        sender.send(TEXT, stage.note(sender_id))
        sender.close_code()
    except (ConnectionError, EOFError):
        pass
    stage.nothing_arrives()


# --- limits ---


@case("limit: a message one byte over it")
def _(stage):
    stage.fails(1009, (TEXT, b" " * (stage.limit + 1)))


@case("limit: fragments that come to more than it")
def _(stage):
    part = b" " * (stage.limit // 2 + 1)
    stage.fails(1009, (TEXT, part, {"fin": False}), (CONTINUATION, part, {}))


@case("limit: an announced length is enough", 2**40, 2**63 - 1)
def _(stage, length):
    stage.fails(1009, (TEXT, b""), length=length)


def main(url):
    """Runs every case and prints a summary; true if all passed."""
    watch = threading.Timer(DEADLINE, lambda: (print("FAIL the deadline passed", flush=True), sys.exit(1)))
    watch.daemon = True
    watch.start()
    failed = 0
    for name, run in CASES:
        try:
            run(Stage(url))
            print(f"ok   {name}", flush=True)
        except Exception as problem:  # a case must not take the others down with it
            failed += 1
            print(f"FAIL {name}: {type(problem).__name__} {problem}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed", flush=True)
    return failed == 0


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
