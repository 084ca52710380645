"""Exchanges messages with an echoing agent over TLS: secure.py URL CA_FILE COUNT BYTES

Sends COUNT messages with a payload of BYTES bytes to the agent `echo`, and prints `ok` for each that comes back as it was.
"""

import asyncio
import ssl
import sys

from agent import Agent


async def main(url, authority, count, size):
    context = ssl.create_default_context(cafile=authority)
    agent = await Agent.join(url, "python", ssl=context)
    print(agent.socket.transport.get_extra_info("ssl_object").version(), flush=True)
    for number in range(int(count)):
        text = f"{number} " + "é" * (int(size) // 2)
        await agent.ask(agent.head("question", receiver={"agent_id": "echo"}), {"text": text})
        message, _ = await agent.receive()
        if message["payload"] == {"text": text} and message["sender"]["agent_id"] == "echo":
            print("ok", number, flush=True)
    await agent.leave()


asyncio.run(main(*sys.argv[1:]))
