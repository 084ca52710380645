// Bearer tokens made by jose, a library that Harbor does not use: tokens.js URL KEYS ALG subprotocol|header
//
// Registers as the agent `afar` with a token of the private JSON Web Key of that algorithm in KEYS, renews it in band and
// sends itself a message after the first one has ended.

import { SignJWT, importJWK } from "jose";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent } from "./agent.js";

const [url, file, alg, place] = process.argv.slice(2);

function need(condition, what) {
  if (condition) return;
  console.log(`FAIL ${what}`);
  process.exit(1);
}

/** A token for so many seconds. */
async function token(seconds) {
  const jwk = JSON.parse(readFileSync(file)).keys.find((key) => key.kid === alg);
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({ scope: "anything" })
    .setProtectedHeader({ alg, kid: jwk.kid, typ: "JWT" })
    .setSubject("afar")
    .setAudience("synapse-harbor")
    .setIssuedAt(now)
    .setExpirationTime(now + seconds)
    .sign(await importJWK(jwk, alg));
}

setTimeout(() => need(false, "the deadline passed"), 90_000).unref?.();
const first = await token(5);
// What a browser can do, and what other programs do.
const how =
  place === "subprotocol"
    ? { subprotocols: ["synapse.v1", `synapse.bearer.${first}`] }
    : { headers: { Authorization: `Bearer ${first}` } };
const agent = await Agent.join(url, "afar", how);
need(agent.registered.type === "synapse.registered", JSON.stringify(agent.registered));
if (place === "subprotocol") need(agent.socket.protocol === "synapse.v1", agent.socket.protocol);
const end = Date.parse(agent.registered.payload.expires_at);
need(end > Date.now() && end <= Date.now() + 5_000, agent.registered.payload.expires_at);
console.log("ok   registered");

const renewal = await agent.ask(agent.head("synapse.renew"), { token: await token(60) });
need(renewal.type === "synapse.renew", JSON.stringify(renewal));
need(Date.parse(renewal.payload.expires_at) > end + 50_000, JSON.stringify(renewal));
console.log("ok   renewed");

await sleep(end + 2_000 - Date.now());
const answer = await agent.ask(agent.head("note", { receiver: { agent_id: "afar" } }), { text: "still here" });
need(answer.payload.recipients === 1, JSON.stringify(answer));
need((await agent.receive()).message.payload.text === "still here", "another message");
console.log("ok   still here");
await agent.leave();
process.exit(0);
