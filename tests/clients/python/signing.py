"""Signatures of envelopes by libraries that Harbor does not use: rfc8785, hmac and cryptography.

  signing.py --vectors FILE              checks every entry of tests/vectors/signatures.json
  signing.py URL KEYS AGENT PEER         registers signed, sends PEER a signed message and verifies its answer
"""

import argparse
import asyncio
import base64
import copy
import hashlib
import hmac
import json
import pathlib
import sys

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHMS = {"HS256": "HMAC-SHA256", "HS512": "HMAC-SHA512", "EdDSA": "Ed25519"}
HASHES = {"HS256": hashlib.sha256, "HS512": hashlib.sha512}


def encode(data):
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    """The bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def covered(envelope):
    """The bytes that a signature of this envelope covers."""
    return rfc8785.dumps({key: value for key, value in envelope.items() if key not in ("signature", "harbor")})


def sign(jwk, data):
    """The signature of a JSON Web Key over some bytes."""
    if jwk["alg"] == "EdDSA":
        return encode(Ed25519PrivateKey.from_private_bytes(decode(jwk["d"])).sign(data))
    return encode(hmac.new(decode(jwk["k"]), data, HASHES[jwk["alg"]]).digest())


def verifies(jwk, data, signature):
    """Whether a signature is this key's over these bytes."""
    if jwk["alg"] != "EdDSA":
        return hmac.compare_digest(sign(jwk, data), signature)
    try:
        Ed25519PublicKey.from_public_bytes(decode(jwk["x"])).verify(decode(signature), data)
        return True
    except InvalidSignature:
        return False


def signed(envelope, jwk):
    """The envelope with its signature."""
    whole = {**envelope, "signature_algorithm": ALGORITHMS[jwk["alg"]]}
    return {**whole, "signature": sign(jwk, covered(whole))}


def need(condition, what):
    """Ends the program unless condition holds."""
    if not condition:
        raise SystemExit(f"FAIL {what}")


def check_vectors(path):
    """Checks the covered bytes and the signature of every entry, and that another byte is not covered."""
    for entry in json.loads(path.read_text())["signed"]:
        name, jwk = entry["name"], entry["key"]
        envelope = json.loads(entry["envelope"])
        data = covered(envelope)
        need(data == entry["canonical"].encode(), f"{name}: covers {data}")
        need(envelope["signature"] == entry["signature"], f"{name}: another signature")
        need(envelope["signature_algorithm"] == entry["algorithm"] == ALGORITHMS[jwk["alg"]], f"{name}: algorithm")
        need(verifies(jwk, data, entry["signature"]), f"{name}: does not verify")
        need(not verifies(jwk, data + b" ", entry["signature"]), f"{name}: verifies anything")
        if "d" in jwk or "k" in jwk:
            need(sign(jwk, data) == entry["signature"], f"{name}: signs otherwise")
        print("ok  ", name)


async def exchange(url, keys, agent_id, peer):
    """One signed message to the peer and one from it."""
    from agent import Agent  # needs the network's packages, which the vectors do not

    mine, theirs = keys[agent_id], keys[peer]
    agent = await Agent.join(url, agent_id, sign=lambda envelope: signed(envelope, mine))
    need(agent.challenge["payload"]["auth"] == "required", agent.challenge)
    need(agent.registered["type"] == "synapse.registered", agent.registered)
    print("ok   registered", flush=True)

    payload = {"\ue000": 1e21, "😀": [0.1, -0.0, 10.0, 1e-7], "e\u0301": "\u2028\u001f\ufffd", "b": None}
    head = agent.head("greeting", receiver={"agent_id": peer}, payload=payload, x_unknown={"b": 1, "a": []})
    frame = json.dumps(signed(head, mine), indent=1).encode()
    answer = await agent.ask(head, b"", frame)
    need(answer["type"] == "synapse.accepted" and answer["payload"]["recipients"] == 1, answer)
    print("ok   sent", flush=True)

    got, _ = await agent.receive()
    need(got["sender"]["agent_id"] == peer and got["correlation_id"] == head["id"], got)
    need(got["harbor"] == {"verified": theirs["kid"]}, got)
    need(got["signature_algorithm"] == ALGORITHMS[theirs["alg"]], got)
    need(verifies(theirs, covered(got), got["signature"]), f"the peer's signature over {covered(got)}")
    other = copy.deepcopy(got)
    other["payload"] = [other["payload"]]
    need(not verifies(theirs, covered(other), got["signature"]), "the peer's signature fits anything")
    print("ok   verified", flush=True)
    await agent.leave()


def main():
    """Reads the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description="Signatures of envelopes.")
    parser.add_argument("--vectors", type=pathlib.Path)
    parser.add_argument("live", nargs="*", metavar="URL KEYS AGENT PEER")
    given = parser.parse_args()
    if given.vectors:
        check_vectors(given.vectors)
        return
    url, keys, agent_id, peer = given.live
    ring = {jwk["agent_id"]: jwk for jwk in json.loads(pathlib.Path(keys).read_text())["keys"]}
    asyncio.run(asyncio.wait_for(exchange(url, ring, agent_id, peer), 90))


if __name__ == "__main__":
    sys.exit(main())
