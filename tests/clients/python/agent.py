"""One agent on one raw WebSocket: it registers, asks and is answered, and keeps what it is sent."""

import asyncio
import json

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import raw

PATIENCE = 20  # seconds for any one answer or message


class Agent:
    """A registered connection. Data frames wait in `inbox`, Harbor's answers go to whoever asked."""

    def __init__(self, socket, agent_id):
        self.socket, self.id = socket, agent_id
        self.inbox, self.control = asyncio.Queue(), asyncio.Queue()
        self._asked = {}
        self.challenge = self.registered = self._reader = None

    @classmethod
    async def join(cls, url, agent_id, system=None, subprotocols=None, ssl=None, headers=None, sign=None, **register):
        """Connects, reads the challenge and registers with its nonce; `sign` gives the envelope back signed."""
        socket = await connect(
            url,
            ssl=ssl,
            max_size=None,
            subprotocols=subprotocols,
            additional_headers=headers,
            open_timeout=PATIENCE,
        )
        self = cls(socket, agent_id)
        self.challenge = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
        self._reader = asyncio.create_task(self._read())
        endpoint = {"agent_id": agent_id, "agent_name": f"{agent_id} (Python)"}
        if system:
            endpoint["system_id"] = system
        register["nonce"] = self.challenge["payload"]["nonce"]
        head = raw.envelope("synapse.register", endpoint)
        frame = sign and json.dumps(sign({**head, "payload": register})).encode()
        self.registered = await self.ask(head, register, frame)
        return self

    async def _read(self):
        try:
            async for message in self.socket:
                data = message if isinstance(message, bytes) else message.encode()
                self._sort(data, json.loads(data))
        except ConnectionClosed:
            pass
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the connection was closed"))

    def _sort(self, data, message):
        if message["sender"]["agent_id"] != "harbor":
            self.inbox.put_nowait((message, data))
            return
        waiting = self._asked.pop(message.get("correlation_id"), None)
        if waiting and not waiting.done():
            waiting.set_result(message)
        else:
            self.control.put_nowait(message)

    def head(self, kind, **fields):
        """An envelope from this agent, without payload."""
        return raw.envelope(kind, self.id, **fields)

    async def send(self, frame):
        """Sends a whole frame as text."""
        await self.socket.send(frame, text=True)

    async def ask(self, head, payload, frame=None):
        """Sends an envelope and waits for Harbor's answer to it. `payload` is bytes, or a value to encode."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        waiting = self._asked[head["id"]] = asyncio.get_running_loop().create_future()
        await self.send(frame or raw.frame(head, data))
        return await asyncio.wait_for(waiting, PATIENCE)

    async def receive(self):
        """The next data message: (envelope, the frame's bytes)."""
        return await asyncio.wait_for(self.inbox.get(), PATIENCE)

    async def told(self):
        """The next thing Harbor says that nobody asked for."""
        return await asyncio.wait_for(self.control.get(), PATIENCE)

    async def closed(self):
        """Waits for the end of the connection and gives its close code."""
        await asyncio.wait_for(self.socket.wait_closed(), PATIENCE)
        return self.socket.close_code

    async def leave(self):
        """Closes the connection."""
        await self.socket.close()
