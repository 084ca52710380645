"""The scripted scenario: six agents on one Harbor, and one check after another of what each of them gets."""

import json
import pathlib

import raw
from cast import Cast, need

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "vectors"
CHECKS = []


def check(name):
    """Adds a function to the scenario; the order of the file is the order of the run."""

    def add(function):
        CHECKS.append((name, function))
        return function

    return add


async def run(url):
    """Plays the scenario, prints one line per check and a summary; true if all held."""
    cast, failed = Cast(url), 0
    for name, function in CHECKS:
        try:
            await function(cast)
            print(f"ok   {name}", flush=True)
        except Exception as problem:  # a check must not take the others down with it
            failed += 1
            print(f"FAIL {name}: {type(problem).__name__} {problem}", flush=True)
    await cast.leave()
    print(f"{len(CHECKS) - failed} passed, {failed} failed", flush=True)
    return failed == 0


# --- arriving ---


@check("the challenge comes first and names nonce, authentication and limits")
async def _(cast):
    ana = await cast.join("ana", groups=[{"group_id": cast.crew, "role": "lead"}])
    need(ana.challenge["type"] == "synapse.challenge", ana.challenge)
    payload = ana.challenge["payload"]
    need(payload["nonce"] and payload["auth"] == "open", payload)
    need(payload["max_frame_bytes"] > 0 and payload["heartbeat_seconds"] > 0, payload)


@check("registering is answered, with groups and roles given in either form")
async def _(cast):
    await cast.join("ben", groups=[{"group_id": cast.crew, "role": "worker"}])
    await cast.join("cho", groups=[{"group_id": cast.crew, "roles": ["worker", "reviewer"]}])
    await cast.join("dov")
    await cast.join("fay")
    for agent in cast.agents.values():
        need(agent.registered["type"] == "synapse.registered", agent.registered)
        need(agent.registered["payload"]["generation"] > 0, agent.registered["payload"])


@check("the subprotocol synapse.v1 is selected when offered")
async def _(cast):
    eve = await cast.join("eve", subprotocols=["synapse.v1"], confirm="refusals")
    need(eve.socket.subprotocol == "synapse.v1", eve.socket.subprotocol)


def members(cast, answer):
    """The members of an answer, as name -> roles."""
    names = {agent_id: name for name, agent_id in cast.ids.items()}
    return {names[member["agent_id"]]: sorted(member["roles"]) for member in answer["payload"]["members"]}


CREW = {"ana": ["lead"], "ben": ["worker"], "cho": ["reviewer", "worker"], "dov": ["reviewer"]}


@check("joining a group later is answered with its members and their roles")
async def _(cast):
    head = cast.dov.head("synapse.group.join")
    answer = await cast.dov.ask(head, {"group_id": cast.crew, "role": "reviewer"})
    need(answer["type"] == "synapse.group.join", answer)
    need(members(cast, answer) == CREW, answer["payload"])


@check("the members of a group can be asked for")
async def _(cast):
    answer = await cast.ana.ask(cast.ana.head("synapse.group.members"), {"group_id": cast.crew})
    need(answer["type"] == "synapse.group.members", answer)
    need(members(cast, answer) == CREW, answer["payload"])
    need(all(member["online"] for member in answer["payload"]["members"]), answer["payload"])


# --- who gets what ---


@check("point to point reaches the receiver alone")
async def _(cast):
    await cast.reaches("ben", receiver=cast.to("ben"))


@check("a group without target_type is everyone in it but the sender")
async def _(cast):
    await cast.reaches("ben cho dov", group_id=cast.crew)


@check("target_type all ignores target_ids")
async def _(cast):
    await cast.reaches("ben cho dov", group_id=cast.crew, target_type="all", target_ids=[cast.ids["eve"]])


@check("target_type role picks the role, and never the sender")
async def _(cast):
    await cast.reaches("ben cho", group_id=cast.crew, target_type="role", target_ids=["worker", "lead"])


@check("several matching roles make one copy")
async def _(cast):
    roles = ["worker", "reviewer", "worker"]
    await cast.reaches("ben cho dov", group_id=cast.crew, target_type="role", target_ids=roles)


@check("target_type specific picks members by id")
async def _(cast):
    picked = [cast.ids["cho"], cast.ids["dov"], cast.ids["cho"]]
    await cast.reaches("cho dov", group_id=cast.crew, target_type="specific", target_ids=picked)


@check("receiver and group together make one copy each")
async def _(cast):
    picked = [cast.ids["ben"], cast.ids["cho"]]
    fields = {"group_id": cast.crew, "target_type": "specific", "target_ids": picked}
    await cast.reaches("ben cho", receiver=cast.to("ben"), **fields)
    await cast.reaches("ben cho eve", receiver=cast.to("eve"), **fields)


@check("a broadcast in a group reaches its members")
async def _(cast):
    await cast.reaches("ben cho dov", group_id=cast.crew, broadcast=True)


@check("a broadcast in a group is still narrowed by role")
async def _(cast):
    await cast.reaches("cho dov", group_id=cast.crew, broadcast=True, target_type="role", target_ids=["reviewer"])


@check("a broadcast alone reaches the sender's system and no other")
async def _(cast):
    await cast.reaches("ben cho dov eve", broadcast=True)


# --- request and reply ---


@check("a reply finds the sender by correlation_id")
async def _(cast):
    request = cast.ana.head("question", receiver=cast.to("eve"))
    need((await cast.ana.ask(request, b'{"depth":"?"}'))["type"] == "synapse.accepted", "refused")
    asked, data = await cast.eve.receive()
    back = cast.eve.head("answer", receiver=asked["sender"], correlation_id=asked["id"])
    await cast.eve.send(raw.frame(back, raw.payload_of(data)))
    answer, data = await cast.ana.receive()
    need(answer["correlation_id"] == request["id"], answer)
    need(raw.payload_of(data) == b'{"depth":"?"}', data)


@check("a reply goes where reply_to says")
async def _(cast):
    request = cast.ana.head("question", receiver=cast.to("ben"), reply_to=cast.ids["cho"])
    need((await cast.ana.ask(request, b"2"))["type"] == "synapse.accepted", "refused")
    asked, _ = await cast.ben.receive()
    back = cast.ben.head("answer", receiver={"agent_id": asked["reply_to"]}, correlation_id=asked["id"])
    need((await cast.ben.ask(back, b"4"))["payload"]["recipients"] == 1, "not one recipient")
    answer, _ = await cast.cho.receive()
    need(answer["correlation_id"] == request["id"], answer)


# --- payloads, byte for byte ---


@check("an agent session streams to the group whole and in order")
async def _(cast):
    sent = []
    events = raw.lines(VECTORS / "agent_session.jsonl")
    for event in events:
        head = cast.ana.head("agent.event", group_id=cast.crew, conversation_id=f"{cast.crew}-pilot")
        answer = await cast.ana.ask(head, event)
        need(answer["type"] == "synapse.accepted" and answer["payload"]["recipients"] == 3, answer)
        sent.append((head["id"], raw.sha256(event)))
    got = await cast.fence()
    for name in ("ben", "cho", "dov"):
        received = [(message["id"], raw.sha256(raw.payload_of(data))) for message, data in got[name]]
        need(received == sent, f"{name} got {len(received)} of {len(sent)}, or other bytes, or another order")
    need(not got["ana"] + got["eve"] + got["fay"], "others got some of it")


@check("odd payloads arrive byte for byte")
async def _(cast):
    for line in raw.lines(VECTORS / "odd_payloads.jsonl"):
        await cast.reaches("eve", line, receiver=cast.to("eve"))


@check("a payload spread over lines keeps its line ends")
async def _(cast):
    payload = b'{\r\n\t"tide" :\n\n  [ 1.10 ,\r\n-0 ]\n}'
    await cast.reaches("ben", payload, receiver=cast.to("ben"))


@check("a frame is forwarded as it came: key order, spacing, escapes, unknown members")
async def _(cast):
    head = cast.ana.head("note", receiver=cast.to("ben"))
    text = (
        '\n{ "payload" : {"b":1 , "a":[ ]}, "x-unknown":{"deep":[1.0,"\\/"]},\t"type":"n\\u006fte"'
        f',"timestamp":"{head["timestamp"]}","receiver":{{"x":null,"agent_id":"{cast.ids["ben"]}"}},'
        f'"sender" : {{"agent_id":"{cast.ana.id}","capabilities":[] }}, "ttl":0,"group_id":"","id":"{head["id"]}"'
        ',"version":"1.0.0" ,"target_ids":null}'
    ).encode()
    answer = await cast.ana.ask(head, b"", text)
    need(answer["type"] == "synapse.accepted", answer)
    (_, data), = (await cast.fence())["ben"]
    spliced = text[:-1] + b',"harbor":'  # Harbor may add this, at the end
    need(data == text or data.startswith(spliced), data)


@check("a frame of exactly the limit passes")
async def _(cast):
    limit = cast.ana.challenge["payload"]["max_frame_bytes"]
    head = cast.ana.head("note", receiver=cast.to("ben"))
    room = limit - len(raw.frame(head, b'""'))
    payload = b'"' + "潮".encode() * (room // 3) + b"." * (room % 3) + b'"'
    need(len(raw.frame(head, payload)) == limit, "the frame is not as long as the limit")
    need((await cast.ana.ask(head, payload))["type"] == "synapse.accepted", "refused")
    (_, data), = (await cast.fence())["ben"]
    need(raw.sha256(raw.payload_of(data)) == raw.sha256(payload), "other payload bytes")


# --- refusals ---


@check("refused: an empty list of targets is nobody, never everybody")
async def _(cast):
    await cast.refused("empty_targets", "target_ids", group_id=cast.crew, target_type="role", target_ids=[])
    await cast.refused("empty_targets", "target_ids", group_id=cast.crew, target_type="specific")


@check("refused: another agent's name as sender")
async def _(cast):
    await cast.refused("sender_mismatch", "sender", sender=cast.to("ben"), receiver=cast.to("cho"))


@check("refused: another major version")
async def _(cast):
    await cast.refused("unsupported_version", "version", version="2.0.0", receiver=cast.to("ben"))


@check("refused: no destination")
async def _(cast):
    head = cast.ana.head("note")
    answer = await cast.ana.ask(head, b"1")
    need(answer["type"] == "synapse.refused" and answer["payload"]["code"] == "no_destination", answer)


@check("refused: a key that comes twice")
async def _(cast):
    def twice(head):
        return raw.frame(head, b"1")[:-1] + b',"receiver":{"agent_id":"' + cast.ids["cho"].encode() + b'"}}'

    await cast.refused("duplicate_key", "receiver", twice, receiver=cast.to("ben"))


@check("refused: a ttl that is no whole number of seconds")
async def _(cast):
    for ttl in (-1, 1.5, "60"):
        await cast.refused("invalid_field", "ttl", ttl=ttl, receiver=cast.to("ben"))


@check("refused: a harbor member of the sender's own")
async def _(cast):
    await cast.refused("reserved_field", "harbor", harbor={"seq": 1}, receiver=cast.to("ben"))


@check("refused: what is not JSON")
async def _(cast):
    await cast.ana.send(b"ahoy {")
    await cast.told_refused("malformed")


@check("refused: a binary frame")
async def _(cast):
    await cast.ana.socket.send(raw.frame(cast.ana.head("note", receiver=cast.to("ben")), b"1"), text=False)
    await cast.told_refused("binary_frame")


@check("the connection lives on after refusals, and nobody got what was refused")
async def _(cast):
    await cast.reaches("ben", b'"still here"', receiver=cast.to("ben"))


@check("confirm refusals: silence for what is accepted, an answer for what is not")
async def _(cast):
    await cast.eve.send(raw.frame(cast.eve.head("note", receiver=cast.to("ben")), b"1"))
    message, _ = await cast.ben.receive()
    need(message["sender"]["agent_id"] == cast.eve.id, message)
    answer = await cast.eve.ask(cast.eve.head("note", version="9.0.0", receiver=cast.to("ben")), b"1")
    need(answer["payload"]["code"] == "unsupported_version", answer)
    need(cast.eve.control.empty(), "an accepted message was answered")


# --- leaving ---


@check("who left a group gets nothing from it")
async def _(cast):
    answer = await cast.dov.ask(cast.dov.head("synapse.group.leave"), {"group_id": cast.crew})
    need(answer["type"] == "synapse.group.leave" and answer["payload"]["group_id"] == cast.crew, answer)
    await cast.reaches("ben cho", group_id=cast.crew)


@check("a newer connection of the same agent replaces the old one, which closes with 4001")
async def _(cast):
    old = cast.dov
    new = await cast.join("dov")
    need(new.registered["payload"]["generation"] > old.registered["payload"]["generation"], new.registered)
    code = await old.closed()
    need(code == 4001, f"closed with {code}")
    await cast.reaches("dov", receiver=cast.to("dov"))
    need(old.inbox.empty(), "the old connection got a message")


@check("nothing is left over: every message came once, and Harbor said nothing unasked")
async def _(cast):
    need(len(cast.agents) == len(cast.ids), "not everyone is connected")
    got = await cast.fence()
    need(not any(got.values()), {name: [json.dumps(m)[:80] for m, _ in left] for name, left in got.items() if left})
    for name, agent in cast.agents.items():
        need(agent.control.empty(), f"{name} was told something unasked")
