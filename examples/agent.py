# A Synapse agent in plain Python. Needs: pip install websockets
import asyncio, datetime, json, sys, uuid, websockets

def envelope(kind, payload, **fields):
    return json.dumps({"id": uuid.uuid4().hex, "version": "1.0.0", "type": kind, "sender": {"agent_id": "carol"},
                       "payload": payload, "timestamp": datetime.datetime.now(datetime.UTC).isoformat(), **fields})

async def main(url="ws://127.0.0.1:7420/ws"):
    async with websockets.connect(url) as harbor:
        challenge = json.loads(await harbor.recv())
        await harbor.send(envelope("synapse.register", {"nonce": challenge["payload"]["nonce"],
                                                        "groups": [{"group_id": "crew", "role": "worker"}]}))
        await harbor.send(envelope("greeting", {"text": "hello, crew"}, group_id="crew"))
        async for frame in harbor:
            message = json.loads(frame)
            print(message["type"], "from", message["sender"]["agent_id"], message["payload"], flush=True)

asyncio.run(main(*sys.argv[1:]))
