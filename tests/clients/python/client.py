"""A raw Synapse client in Python: `client.py URL` plays the scripted scenario against a Harbor.

  client.py URL                          one line per check, exit status 0 if all are ok
  client.py URL --listen AGENT COUNT     prints id and SHA-256 of each received payload
  client.py URL --send FROM TO FILE      sends each line of FILE as a payload
"""

import argparse
import asyncio
import os
import pathlib
import sys

import raw
import scenario
from agent import Agent

DEADLINE = float(os.environ.get("SYNAPSE_CLIENT_DEADLINE", "90"))  # seconds, for the whole program


async def listen(url, agent_id, count):
    """Receives `count` messages and prints what came."""
    agent = await Agent.join(url, agent_id)
    print("listening", agent_id, flush=True)
    for _ in range(int(count)):
        message, data = await agent.inbox.get()
        print("received", message["id"], raw.sha256(raw.payload_of(data)), flush=True)
    await agent.leave()
    return True


async def send(url, sender, to, file):
    """Sends every line of `file` to `to`, each when the one before has been accepted."""
    agent = await Agent.join(url, sender)
    for line in raw.lines(pathlib.Path(file)):
        head = agent.head("agent.event", receiver={"agent_id": to})
        answer = await agent.ask(head, line)
        if answer["type"] != "synapse.accepted":
            raise SystemExit(f"not accepted: {answer}")
        print("sent", head["id"], raw.sha256(line), flush=True)
    await agent.leave()
    return True


async def main():
    """Reads the command line and runs what it asks for, within the deadline."""
    parser = argparse.ArgumentParser(description="A raw Synapse client.")
    parser.add_argument("url")
    parser.add_argument("--listen", nargs=2, metavar=("AGENT", "COUNT"))
    parser.add_argument("--send", nargs=3, metavar=("FROM", "TO", "FILE"))
    given = parser.parse_args()
    if given.listen:
        work = listen(given.url, *given.listen)
    elif given.send:
        work = send(given.url, *given.send)
    else:
        work = scenario.run(given.url)
    try:
        return await asyncio.wait_for(work, DEADLINE)
    except TimeoutError:
        print(f"FAIL the deadline of {DEADLINE:g} s passed", flush=True)
        return False


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
