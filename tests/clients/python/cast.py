"""The agents of the scenario, and the questions its checks put to them."""

import secrets

import raw
from agent import Agent


class Failed(Exception):
    """A check that did not hold."""


def need(condition, what):
    """Ends the check unless `condition` holds."""
    if not condition:
        raise Failed(str(what)[:400])


class Cast:
    """The agents. Ana leads the crew; Ben, Cho and Dov work in it; Eve stands outside; Fay is of another system."""

    def __init__(self, url):
        tag = f"py-{secrets.token_hex(3)}"
        self.url, self.crew, self.system = url, f"{tag}-crew", f"{tag}-yard"
        self.other_system = f"{tag}-abroad"
        self.ids = {name: f"{tag}-{name}" for name in ("ana", "ben", "cho", "dov", "eve", "fay")}
        self.agents = {}

    def __getattr__(self, name):
        """`cast.ana` is the agent of that name."""
        try:
            return self.agents[name]
        except KeyError:
            raise AttributeError(f"{name} is not connected") from None

    def to(self, name):
        """The endpoint of an agent, as a receiver."""
        return {"agent_id": self.ids[name]}

    async def join(self, name, **register):
        """Connects one agent."""
        system = self.other_system if name == "fay" else self.system
        agent = await Agent.join(self.url, self.ids[name], system, **register)
        self.agents[name] = agent
        return agent

    async def leave(self):
        """Closes every connection."""
        for agent in self.agents.values():
            await agent.leave()

    async def fence(self, sender="ana"):
        """What everyone got up to now.

        The sender sends each other agent a last message, and another agent sends one to the sender: order between
        two agents is promised, so whatever the sender sent before must lie before the fence.
        """
        got = {}
        for name, agent in self.agents.items():
            source = self.agents["fay" if name == sender else sender]
            head = source.head("fence", receiver=self.to(name))
            answer = await source.ask(head, b"0")
            need(answer["type"] == "synapse.accepted", answer)
            got[name] = []
            while (received := await agent.receive())[0]["id"] != head["id"]:
                got[name].append(received)
        return got

    async def reaches(self, names, payload=b'"ahoy"', sender="ana", **fields):
        """Sends a note and needs exactly the agents of `names` to get it, once each, byte for byte."""
        agent = self.agents[sender]
        head = agent.head("note", **fields)
        answer = await agent.ask(head, payload)
        need(answer["type"] == "synapse.accepted", answer)
        expected = sorted(names.split())
        got = await self.fence(sender)
        reached = sorted(name for name, received in got.items() for _ in received)
        need(reached == expected, f"reached {reached}, not {expected}")
        for name in expected:
            message, data = got[name][0]
            need(message["id"] == head["id"], f"{name} got {message['id']}")
            need(raw.sha256(raw.payload_of(data)) == raw.sha256(payload), f"{name}: other payload bytes")
        need(answer["payload"]["recipients"] == len(expected), answer["payload"])

    async def refused(self, code, field, frame=None, payload=b"1", **fields):
        """Sends what Harbor must refuse with this code and field."""
        head = {**self.ana.head("note"), **fields}
        answer = await self.ana.ask(head, payload, frame and frame(head))
        need(answer["type"] == "synapse.refused", answer)
        need(answer["payload"]["code"] == code, answer["payload"])
        named = answer["payload"].get("field")
        need(named == field or (named or "").startswith(f"{field}."), f"field is {named}, not {field}")

    async def told_refused(self, code):
        """Needs Ana's connection to be told of a refusal that names no message."""
        answer = await self.ana.told()
        need(answer["type"] == "synapse.refused", answer)
        need("correlation_id" not in answer, answer)
        need(answer["payload"]["code"] == code, answer["payload"])
