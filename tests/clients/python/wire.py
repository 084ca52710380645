"""WebSocket frames on a bare TCP socket, so that a test can also send what RFC 6455 forbids."""

import base64
import hashlib
import os
import socket
import struct
import urllib.parse

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
PATIENCE = 8  # seconds for any one answer
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Wire:
    """One TCP connection to a Harbor: the opening handshake, then frames."""

    def __init__(self, url, headers=None, upgrade=True):
        place = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        key = base64.b64encode(os.urandom(16))
        said = {
            "Host": place.netloc,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
            **(headers or {}),
        }
        lines = [f"GET {place.path} HTTP/1.1"] + [f"{name}: {value}" for name, value in said.items() if value]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.answer = self._until(b"\r\n\r\n").decode()
        self.status = int(self.answer.split()[1])
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        self.upgraded = self.status == 101 and accept in self.answer
        if upgrade and not self.upgraded:
            raise ConnectionError(self.answer)

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the connection ended")
        self._left += data

    def _until(self, mark):
        while mark not in self._left:
            self._more()
        head, self._left = self._left.split(mark, 1)
        return head

    def _exactly(self, length):
        while len(self._left) < length:
            self._more()
        data, self._left = self._left[:length], self._left[length:]
        return data

    def send(self, opcode, payload=b"", fin=True, rsv=0, masked=True, length=None):
        """Sends one frame; `length` announces another length than the payload has."""
        length = len(payload) if length is None else length
        first = (fin << 7) | (rsv << 4) | opcode
        bit = masked << 7
        if length < 126:
            head = struct.pack("!BB", first, bit | length)
        elif length < 65536:
            head = struct.pack("!BBH", first, bit | 126, length)
        else:
            head = struct.pack("!BBQ", first, bit | 127, length)
        if masked:
            mask = os.urandom(4)
            stream = mask * (len(payload) // 4 + 1)
            size = len(payload)
            mixed = int.from_bytes(payload, "big") ^ int.from_bytes(stream[:size], "big")
            head, payload = head + mask, mixed.to_bytes(size, "big")
        self.socket.sendall(head + payload)

    def fragments(self, pieces, opcode=TEXT):
        """Sends a message in pieces."""
        for at, piece in enumerate(pieces):
            self.send(CONTINUATION if at else opcode, piece, fin=at == len(pieces) - 1)

    def read(self):
        """The next control frame or whole message: (opcode, payload). Harbor must not mask."""
        opcode, is_last, payload = self._frame()
        while not is_last:
            more, is_last, piece = self._frame()
            if more != CONTINUATION:
                raise ValueError(f"opcode {more} between fragments")
            payload += piece
        return opcode, payload

    def _frame(self):
        first, second = self._exactly(2)
        length = second & 127
        if length > 125:
            length = int.from_bytes(self._exactly(2 if length == 126 else 8), "big")
        if first & 0x70 or second & 0x80:
            raise ValueError(f"a frame begins with {first:02x} {second:02x}")
        return first & 15, bool(first & 0x80), self._exactly(length)

    def message(self):
        """The next text message; pings on the way are answered."""
        while True:
            opcode, payload = self.read()
            if opcode == TEXT:
                return payload
            if opcode == PING:
                self.send(PONG, payload)
            elif opcode == CLOSE:
                raise EOFError(f"closed with {payload!r}")

    def close_code(self):
        """Reads up to the Close frame and then to the end of the stream; the code, or `None` if it has none."""
        opcode = payload = None
        while opcode != CLOSE:
            try:
                opcode, payload = self.read()
            except (EOFError, ConnectionError) as problem:
                raise EOFError("the connection ended without a Close frame") from problem
        try:
            while True:
                self._more()
        except (EOFError, ConnectionError):
            self.socket.close()
        return int.from_bytes(payload[:2], "big") if payload else None
