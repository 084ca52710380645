"""Sealed payloads after docs/PROTOCOL.md alone, by jwcrypto; signatures by signing.py.

  sealing.py --vectors FILE              opens every entry of tests/vectors/sealed.json, or must not
  sealing.py URL KEYS AGENT PEER         registers signed, and exchanges a signed and sealed message with PEER
"""

import argparse
import asyncio
import datetime
import json
import pathlib
import sys

from jwcrypto.common import JWException
from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from signing import covered, decode, encode, need, signed, verifies

PARTS = ("protected", "iv", "ciphertext", "tag")


class Shut(Exception):
    """A payload that must not be opened."""


def header(envelope, kid):
    """The protected header that a payload of this envelope has."""
    receiver, group = envelope.get("receiver"), envelope.get("group_id")
    if bool(receiver) == bool(group):
        raise Shut("it goes to one agent or to one group")
    return {
        "alg": "dir",
        "enc": "A256GCM",
        "kid": kid,
        "iss": envelope["sender"]["agent_id"],
        "aud": receiver["agent_id"] if receiver else group,
        "jti": envelope["id"],
    }


def seal(envelope, key):
    """The envelope with its payload sealed for whoever holds the key."""
    text = json.dumps(envelope["payload"], ensure_ascii=False).encode()
    jwe = JWE(text, json.dumps(header(envelope, key["kid"])), recipient=JWK(**key))
    return {**envelope, "payload": json.loads(jwe.serialize()), "encrypt": True}


def opened(envelope, key):
    """The text that was sealed, if nothing at all is wrong."""
    sealed = envelope["payload"]
    try:
        need_all(envelope, sealed, key)
        jwe = JWE(algs=["dir", "A256GCM"])
        jwe.deserialize(json.dumps({name: sealed[name] for name in PARTS}), JWK(**key))
        text = jwe.payload.decode()
        json.dumps(parsed(text), ensure_ascii=False).encode()  # a lone surrogate has no UTF-8
        return text
    except (JWException, ValueError, KeyError, TypeError) as problem:
        raise Shut(problem) from problem


def need_all(envelope, sealed, key):
    """Checks all that can be checked before the tag."""
    if envelope.get("encrypt") is not True or not isinstance(sealed, dict):
        raise Shut("not sealed")
    if set(sealed) - {"encrypted_key"} != set(PARTS) or sealed.get("encrypted_key", "") != "":
        raise Shut("members")
    protected, iv, _, tag = (strict(sealed[name]) for name in PARTS)
    if len(iv) != 12 or len(tag) != 16:
        raise Shut("lengths")
    if parsed(protected.decode()) != header(envelope, key["kid"]):
        raise Shut("header")
    now = datetime.datetime.now(datetime.timezone.utc)
    times = [datetime.datetime.fromisoformat(key[name]) for name in ("not_before", "not_after") if key.get(name)]
    if key.get("not_before") and now < times[0] or key.get("not_after") and times[-1] <= now:
        raise Shut("the key is not valid now")


def strict(text):
    """The bytes of base64url in its only spelling."""
    data = decode(text)
    if encode(data) != text:
        raise Shut("base64url")
    return data


def parsed(text):
    """A JSON value in which no key is given twice."""

    def members(pairs):
        if len(dict(pairs)) != len(pairs):
            raise Shut("a key twice")
        return dict(pairs)

    def constant(name):
        raise Shut(name)

    return json.loads(text, object_pairs_hook=members, parse_constant=constant)


def check_vectors(path):
    """Opens what opens, verifies what is signed, and opens nothing else."""
    vectors = json.loads(path.read_text())
    for entry in vectors["opened"]:
        envelope, name = parsed(entry["envelope"]), entry["name"]
        need(opened(envelope, entry["key"]) == entry["payload"], f"{name}: another payload")
        if "signer" in entry:
            data = covered(envelope)
            need(data == entry["canonical"].encode(), f"{name}: covers {data}")
            need(verifies(entry["signer"], data, envelope["signature"]), f"{name}: does not verify")
        print("ok  ", name)
    for entry in vectors["shut"]:
        try:
            # A key given twice is looked for inside the payload only.
            text = opened(json.loads(entry["envelope"], object_pairs_hook=twice), entry["key"])
            need(False, f"{entry['name']}: opened to {text}")
        except Shut:
            print("ok  ", entry["name"])


def twice(pairs):
    """An object, or nothing at all if a key is given twice."""
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


async def exchange(url, ring, agent_id, peer):
    """A signed and sealed message to the peer, and one from it."""
    from agent import Agent  # needs the network's packages, which the vectors do not

    mine, theirs = ring["sig", agent_id], ring["sig", peer]
    agent = await Agent.join(url, agent_id, sign=lambda envelope: signed(envelope, mine))
    need(agent.registered["type"] == "synapse.registered", agent.registered)
    print("ok   registered", flush=True)

    while True:  # until the peer is there
        head = agent.head("secret", receiver={"agent_id": peer}, payload=secret(agent_id))
        frame = json.dumps(signed(seal(head, ring["enc", peer]), mine))
        answer = await agent.ask(head, b"", frame.encode())
        need(answer["type"] == "synapse.accepted", answer)
        if answer["payload"]["recipients"] == 1:
            break
        await asyncio.sleep(0.05)
    print("ok   sent", flush=True)

    got, _ = await agent.receive()
    need(got["sender"]["agent_id"] == peer and got["harbor"] == {"verified": theirs["kid"]}, got)
    need(verifies(theirs, covered(got), got["signature"]), f"the peer's signature over {covered(got)}")
    need(json.loads(opened(got, ring["enc", agent_id])) == secret(peer), "another payload")
    try:
        opened({**got, "id": "another"}, ring["enc", agent_id])
        need(False, "it opens in another message")
    except Shut:
        pass
    print("ok   opened", flush=True)
    await agent.leave()


def secret(agent_id):
    """What every agent of this test tells its peer."""
    return {"from": agent_id, "text": "é😀\u2028\u0000<&>", "numbers": [0.1, -7, 1e21], "none": None, "": {"b": [], "a": {}}}


def main():
    """Reads the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description="Sealed payloads.")
    parser.add_argument("--vectors", type=pathlib.Path)
    parser.add_argument("live", nargs="*", metavar="URL KEYS AGENT PEER")
    given = parser.parse_args()
    if given.vectors:
        check_vectors(given.vectors)
        return
    url, keys, agent_id, peer = given.live
    ring = {(jwk["use"], jwk["agent_id"]): jwk for jwk in json.loads(pathlib.Path(keys).read_text())["keys"]}
    asyncio.run(asyncio.wait_for(exchange(url, ring, agent_id, peer), 90))


if __name__ == "__main__":
    sys.exit(main())
