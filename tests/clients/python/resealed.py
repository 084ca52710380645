"""What Harbor sealed again, opened by jwcrypto and verified by cryptography, after docs/PROTOCOL.md alone.

  resealed.py --vectors FILE          checks tests/vectors/resealed.json
  resealed.py --make                  prints it; the same bytes each time
  resealed.py URL KEYS AGENT GROUP    joins the group, prints the payloads of two messages and leaves
"""

import asyncio
import base64
import json
import pathlib
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from signing import covered, encode, need, signed, verifies

HARBOR = "harbor"


def header(envelope, kid):
    """The protected header that a payload of this envelope has."""
    receiver = envelope.get("receiver")
    aud = receiver["agent_id"] if receiver else envelope["group_id"]
    who = {"iss": envelope["sender"]["agent_id"], "aud": aud, "jti": envelope["id"]}
    return {"alg": "dir", "enc": "A256GCM", "kid": kid, **who}


def is_harbors(envelope, keys):
    """Whether the envelope is as Harbor signed it."""
    kid = envelope["harbor"]["resealed"]["signed_by"]
    owned = [jwk for jwk in keys if jwk["agent_id"] == HARBOR and jwk["kid"] == kid]
    return any(verifies(jwk, covered(envelope), envelope["signature"]) for jwk in owned)


def opened(envelope, keys):
    """The payload as text."""
    if not envelope.get("encrypt"):
        return json.dumps(envelope["payload"], separators=(",", ":"), ensure_ascii=False)
    protected = envelope["payload"]["protected"]
    kid = json.loads(base64.urlsafe_b64decode(protected + "=="))["kid"]
    [jwk] = [jwk for jwk in keys if jwk["kid"] == kid]
    jwe = JWE(algs=["dir", "A256GCM"])
    jwe.deserialize(json.dumps(envelope["payload"]), JWK(kty="oct", k=jwk["k"]))
    need(jwe.jose_header == header(envelope, kid), jwe.jose_header)
    return jwe.payload.decode()


def received(envelope, keys):
    """The payload of a message that Harbor sealed again, everything about it checked."""
    need(envelope["signature_algorithm"] == "Ed25519", envelope)
    need(is_harbors(envelope, keys), "Harbor's signature")
    other = {**envelope, "conversation_id": "another"}
    need(not is_harbors(other, keys), "Harbor's signature fits anything")
    return opened(envelope, keys)


async def listen(url, keys, agent_id, group_id):
    """Two messages, however they are addressed."""
    from agent import Agent  # needs the network's packages, which the vectors do not

    agent = await Agent.join(url, agent_id, groups=[{"group_id": group_id}])
    for _ in range(2):
        envelope, _ = await agent.receive()
        need(envelope["harbor"]["resealed"]["under"] == f"{agent_id}-seal", envelope)
        print(received(envelope, keys), flush=True)
    await agent.leave()


def check_vectors(path):
    """Opens what was sent and what was delivered, and checks both signatures."""
    for entry in json.loads(path.read_text())["resealed"]:
        keys = entry["keys"]
        sent, delivered = json.loads(entry["sent"]), json.loads(entry["delivered"])
        [sender] = [jwk for jwk in keys if jwk["kid"] == entry["sender"]]
        need(verifies(sender, covered(sent), sent["signature"]), f"{entry['name']}: the sender's signature")
        need(opened(sent, keys) == entry["payload"], f"{entry['name']}: what was sent")
        need(received(delivered, keys) == entry["payload"], f"{entry['name']}: what was delivered")
        print("ok  ", entry["name"])


def sealed(envelope, jwk, iv, text):
    """The payload for this envelope, under a nonce that is given."""
    protected = encode(json.dumps(header(envelope, jwk["kid"]), separators=(",", ":")).encode())
    whole = AESGCM(base64.urlsafe_b64decode(jwk["k"] + "==")).encrypt(iv, text.encode(), protected.encode())
    return {"protected": protected, "iv": encode(iv), "ciphertext": encode(whole[:-16]), "tag": encode(whole[-16:])}


def make():
    """The worked example of docs/PROTOCOL.md, and the same message in the clear."""
    from make_vectors import ED, KEYS

    def seal_key(agent_id, start):
        k = encode(bytes(range(start, start + 32)))
        return {"kty": "oct", "kid": f"{agent_id}-seal", "alg": "A256GCM", "use": "enc", "agent_id": agent_id, "k": k}

    signing = {**ED, "kid": "alice-1"}
    harbors = {**KEYS[3], "kid": "harbor-1", "agent_id": HARBOR}
    alice, bob = seal_key("alice", 100), seal_key("bob", 0)
    dump = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    text = '{"text":"for bob, by way of Harbor"}'
    head = {"id": "m-2", "version": "1.0.0", "type": "note", "sender": {"agent_id": "alice"},
            "receiver": {"agent_id": "bob"}, "timestamp": "2026-01-01T00:00:00Z"}
    sent = signed({**head, "encrypt": True, "payload": sealed(head, alice, bytes(range(12)), text)}, signing)
    entries = []
    for name, payload, under in [
        ("sealed for its receiver", sealed(head, bob, bytes(range(12, 24)), text), "bob-seal"),
        ("in the clear", json.loads(text), None),
    ]:
        # Members keep the places that they have in what was sent.
        changed = {**sent, "encrypt": under is not None, "payload": payload, "signature": ""}
        resealed = {"opened": "alice-seal", "under": under, "signed_by": "harbor-1"}
        delivered = {**signed(changed, harbors), "harbor": {"verified": "alice-1", "resealed": resealed}}
        entries.append({"name": name, "keys": [signing, harbors, alice, bob], "sender": "alice-1",
                        "sent": dump(sent), "payload": text, "delivered": dump(delivered)})
    print(json.dumps({"resealed": entries}, indent=1, ensure_ascii=False))


def main(*given):
    """Does what the command line says."""
    match given:
        case ["--make"]:
            make()
        case ["--vectors", file]:
            check_vectors(pathlib.Path(file))
        case [url, file, agent_id, group_id]:
            keys = json.loads(pathlib.Path(file).read_text())["keys"]
            asyncio.run(asyncio.wait_for(listen(url, keys, agent_id, group_id), 90))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
