// What Harbor sealed again, opened by jose and verified by node:crypto, after docs/PROTOCOL.md alone.
//
//   resealed.js --vectors FILE          checks tests/vectors/resealed.json
//   resealed.js URL KEYS AGENT GROUP    joins the group, prints the payloads of two messages and leaves

import canonicalize from "canonicalize";
import { flattenedDecrypt } from "jose";
import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Agent } from "./agent.js";

function need(condition, what) {
  if (condition) return;
  console.log(`FAIL ${what}`);
  process.exit(1);
}

/** Whether the Ed25519 signature of an envelope is this key's. */
function isSigned({ signature, harbor, ...rest }, { kty, crv, x }) {
  const key = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
  return verify(null, Buffer.from(canonicalize(rest)), key, Buffer.from(signature, "base64url"));
}

/** Whether the envelope is as Harbor signed it. */
function isHarbors(envelope, keys) {
  const kid = envelope.harbor.resealed.signed_by;
  return keys.some((jwk) => jwk.agent_id === "harbor" && jwk.kid === kid && isSigned(envelope, jwk));
}

/** The payload as text. */
async function opened({ id, sender, receiver, group_id, encrypt, payload }, keys) {
  if (!encrypt) return JSON.stringify(payload);
  const find = ({ kid }) => Buffer.from(keys.find((jwk) => jwk.kid === kid).k, "base64url");
  const algorithms = { keyManagementAlgorithms: ["dir"], contentEncryptionAlgorithms: ["A256GCM"] };
  const { plaintext, protectedHeader } = await flattenedDecrypt(payload, find, algorithms);
  const bound = { iss: sender.agent_id, aud: receiver ? receiver.agent_id : group_id, jti: id };
  const { kid } = protectedHeader;
  need(isDeepStrictEqual({ ...protectedHeader }, { alg: "dir", enc: "A256GCM", kid, ...bound }), "the header");
  return Buffer.from(plaintext).toString();
}

/** The payload of a message that Harbor sealed again, everything about it checked. */
async function received(envelope, keys) {
  need(envelope.signature_algorithm === "Ed25519", JSON.stringify(envelope));
  need(isHarbors(envelope, keys), "Harbor's signature");
  need(!isHarbors({ ...envelope, conversation_id: "another" }, keys), "Harbor's signature fits anything");
  return opened(envelope, keys);
}

/** Opens what was sent and what was delivered, and checks both signatures. */
async function checkVectors(path) {
  for (const { name, keys, sender, ...texts } of JSON.parse(readFileSync(path)).resealed) {
    const [sent, delivered] = [JSON.parse(texts.sent), JSON.parse(texts.delivered)];
    need(isSigned(sent, keys.find((jwk) => jwk.kid === sender)), `${name}: the sender's signature`);
    need((await opened(sent, keys)) === texts.payload, `${name}: what was sent`);
    need((await received(delivered, keys)) === texts.payload, `${name}: what was delivered`);
    console.log("ok  ", name);
  }
}

/** Two messages, however they are addressed. */
async function listen(url, keys, id, group) {
  const agent = await Agent.join(url, id, { groups: [{ group_id: group }] });
  for (let count = 0; count < 2; count += 1) {
    const { message } = await agent.receive();
    need(message.harbor.resealed.under === `${id}-seal`, JSON.stringify(message));
    console.log(await received(message, keys));
  }
  await agent.leave();
}

const given = process.argv.slice(2);
if (given[0] === "--vectors" && given.length === 2) {
  await checkVectors(given[1]);
} else if (given.length === 4) {
  setTimeout(() => need(false, "the deadline passed"), 90_000).unref();
  const [url, file, id, group] = given;
  await listen(url, JSON.parse(readFileSync(file)).keys, id, group);
} else {
  console.error("usage: resealed.js --vectors FILE | URL KEYS AGENT GROUP");
  process.exit(2);
}
