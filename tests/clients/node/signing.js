// Signatures of envelopes by libraries that Harbor does not use: canonicalize and node:crypto.
//
//   signing.js --vectors FILE              checks every entry of tests/vectors/signatures.json
//   signing.js URL KEYS AGENT PEER         registers signed, sends PEER a signed message and verifies its answer

import canonicalize from "canonicalize";
import { createHmac, createPrivateKey, createPublicKey, sign as edSign, verify as edVerify } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { Agent } from "./agent.js";

export const ALGORITHMS = { HS256: "HMAC-SHA256", HS512: "HMAC-SHA512", EdDSA: "Ed25519" };
const HASHES = { HS256: "sha256", HS512: "sha512" };

/** The bytes that a signature of this envelope covers. */
export function covered({ signature, harbor, ...rest }) {
  return Buffer.from(canonicalize(rest));
}

/** The signature of a JSON Web Key over some bytes. */
function sign({ kty, crv, alg, x, d, k }, data) {
  if (alg !== "EdDSA") return createHmac(HASHES[alg], Buffer.from(k, "base64url")).update(data).digest("base64url");
  return edSign(null, data, createPrivateKey({ key: { kty, crv, x, d }, format: "jwk" })).toString("base64url");
}

/** Whether a signature is this key's over these bytes. */
export function verifies(jwk, data, signature) {
  if (jwk.alg !== "EdDSA") return sign(jwk, data) === signature;
  const { kty, crv, x } = jwk;
  const key = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
  return edVerify(null, data, key, Buffer.from(signature, "base64url"));
}

/** The envelope with its signature. */
export function signed(envelope, jwk) {
  const whole = { ...envelope, signature_algorithm: ALGORITHMS[jwk.alg] };
  return { ...whole, signature: sign(jwk, covered(whole)) };
}

export function need(condition, what) {
  if (condition) return;
  console.log(`FAIL ${what}`);
  process.exit(1);
}

/** Checks the covered bytes and the signature of every entry, and that another byte is not covered. */
function checkVectors(path) {
  for (const { name, envelope, canonical, key, algorithm, signature } of JSON.parse(readFileSync(path)).signed) {
    const message = JSON.parse(envelope);
    const data = covered(message);
    need(data.equals(Buffer.from(canonical)), `${name}: covers ${data}`);
    need(message.signature === signature, `${name}: another signature`);
    need(message.signature_algorithm === algorithm && ALGORITHMS[key.alg] === algorithm, `${name}: algorithm`);
    need(verifies(key, data, signature), `${name}: does not verify`);
    need(!verifies(key, Buffer.concat([data, Buffer.from(" ")]), signature), `${name}: verifies anything`);
    if (key.d || key.k) need(sign(key, data) === signature, `${name}: signs otherwise`);
    console.log("ok  ", name);
  }
}

/** One signed message to the peer and one from it. */
async function exchange(url, keys, id, peer) {
  const [mine, theirs] = [keys[id], keys[peer]];
  const agent = await Agent.join(url, id, { sign: (envelope) => signed(envelope, mine) });
  need(agent.challenge.payload.auth === "required", JSON.stringify(agent.challenge));
  need(agent.registered.type === "synapse.registered", JSON.stringify(agent.registered));
  console.log("ok   registered");

  const payload = { "\ue000": 1e21, "😀": [0.1, -0.0, 10.0, 1e-7], "e\u0301": "\u2028\u001f\ufffd", b: null };
  const head = agent.head("greeting", { receiver: { agent_id: peer }, payload, x_unknown: { b: 1, a: [] } });
  const answer = await agent.ask(head, null, JSON.stringify(signed(head, mine), null, 1));
  need(answer.type === "synapse.accepted" && answer.payload.recipients === 1, JSON.stringify(answer));
  console.log("ok   sent");

  const { message, data } = await agent.receive();
  need(message.sender.agent_id === peer && message.correlation_id === head.id, data);
  need(isDeepStrictEqual(message.harbor, { verified: theirs.kid }), data);
  need(message.signature_algorithm === ALGORITHMS[theirs.alg], data);
  need(verifies(theirs, covered(message), message.signature), `the peer's signature over ${covered(message)}`);
  const other = { ...message, payload: [message.payload] };
  need(!verifies(theirs, covered(other), message.signature), "the peer's signature fits anything");
  console.log("ok   verified");
  await agent.leave();
}

/** Runs what the command line asks for: `--vectors FILE`, or URL KEYS AGENT PEER; keys by `of` their JSON Web Key. */
export async function main(checkVectors, exchange, of) {
  const given = process.argv.slice(2);
  if (given[0] === "--vectors" && given.length === 2) {
    await checkVectors(given[1]);
  } else if (given.length === 4) {
    const [url, file, id, peer] = given;
    setTimeout(() => need(false, "the deadline passed"), 90_000).unref();
    const keys = JSON.parse(readFileSync(file)).keys;
    await exchange(url, Object.fromEntries(keys.map((jwk) => [of(jwk), jwk])), id, peer);
  } else {
    console.error(`usage: ${process.argv[1]} --vectors FILE | URL KEYS AGENT PEER`);
    process.exit(2);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(checkVectors, exchange, (jwk) => jwk.agent_id);
