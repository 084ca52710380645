"""Seals and opens payloads with jwcrypto, after docs/PROTOCOL.md alone: sealed.py seal|open KEYS KID

Envelopes come one a line on standard input. `seal` prints them sealed, `open` prints their payloads.
"""

import json
import sys

from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWKSet


def header(envelope, kid):
    receiver = envelope.get("receiver")
    return {
        "alg": "dir",
        "enc": "A256GCM",
        "kid": kid,
        "iss": envelope["sender"]["agent_id"],
        "aud": receiver["agent_id"] if receiver else envelope["group_id"],
        "jti": envelope["id"],
    }


def seal(envelope, key, kid):
    text = json.dumps(envelope["payload"], ensure_ascii=False).encode()
    jwe = JWE(text, json.dumps(header(envelope, kid)), recipient=key)
    envelope.update(payload=json.loads(jwe.serialize()), encrypt=True)
    return json.dumps(envelope)


def open_(envelope, key, kid):
    assert envelope["encrypt"] is True
    jwe = JWE(algs=["dir", "A256GCM"])
    jwe.deserialize(json.dumps(envelope["payload"]), key)
    assert jwe.jose_header == header(envelope, kid), jwe.jose_header
    return jwe.payload.decode()


def main(what, keys, kid):
    with open(keys, encoding="utf-8") as file:
        key = JWKSet.from_json(file.read()).get_key(kid)
    for line in sys.stdin:
        print({"seal": seal, "open": open_}[what](json.loads(line), key, kid))


main(*sys.argv[1:])
