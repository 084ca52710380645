"""Bearer tokens made by jwcrypto, a library that Harbor does not use: tokens.py URL KEYS ALG

Registers as the agent `afar` with a token of the private JSON Web Key of that algorithm in KEYS, renews it in band, sends
itself a message after the first one has ended, and lets the second one end.
"""

import asyncio
import datetime
import json
import pathlib
import sys
import time

from agent import Agent
from jwcrypto.jwk import JWK
from jwcrypto.jwt import JWT


def need(condition, what):
    """Ends the program unless condition holds."""
    if not condition:
        raise SystemExit(f"FAIL {what}")


def token(jwk, alg, seconds):
    """A token for so many seconds."""
    now = int(time.time())
    claims = {"sub": "afar", "aud": ["elsewhere", "synapse-harbor"], "nbf": now, "exp": now + seconds}
    made = JWT(header={"alg": alg, "kid": jwk["kid"]}, claims=claims)
    made.make_signed_token(JWK(**jwk))
    return made.serialize()


def ends(answer):
    """When a connection ends, in seconds since 1970."""
    return datetime.datetime.fromisoformat(answer["payload"]["expires_at"]).timestamp()


async def play(url, jwk, alg):
    """Registers, renews, outlives the first token and ends with the second."""
    bearer = {"Authorization": "Bearer " + token(jwk, alg, 5)}
    agent = await Agent.join(url, "afar", headers=bearer)
    need(agent.registered["type"] == "synapse.registered", agent.registered)
    first = ends(agent.registered)
    print("ok   registered", flush=True)

    answer = await agent.ask(agent.head("synapse.renew"), {"token": token(jwk, alg, 9)})
    need(answer["type"] == "synapse.renew" and ends(answer) > first, answer)
    print("ok   renewed", flush=True)

    await asyncio.sleep(first + 2 - time.time())
    answer = await agent.ask(agent.head("note", receiver={"agent_id": "afar"}), {"text": "still here"})
    need(answer["payload"]["recipients"] == 1, answer)
    print("ok   still here", flush=True)

    code = await agent.closed()
    need(code == 4003, code)
    print("ok   ended", flush=True)


def main(url, keys, alg):
    """Reads the key and runs."""
    ring = {jwk["kid"]: jwk for jwk in json.loads(pathlib.Path(keys).read_text())["keys"]}
    asyncio.run(asyncio.wait_for(play(url, ring[alg], alg), 90))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
