// Sealed payloads after docs/PROTOCOL.md alone, by jose; signatures by signing.js.
//
//   sealing.js --vectors FILE              opens every entry of tests/vectors/sealed.json, or must not
//   sealing.js URL KEYS AGENT PEER         registers signed, and exchanges a signed and sealed message with PEER

import { FlattenedEncrypt, flattenedDecrypt } from "jose";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Agent } from "./agent.js";
import { members, payloadOf } from "./raw.js";
import { ALGORITHMS, covered, main, need, signed, verifies } from "./signing.js";

const PARTS = ["protected", "iv", "ciphertext", "tag"];

/** A payload that must not be opened. */
class Shut extends Error {}

function expect(condition, what) {
  if (!condition) throw new Shut(what);
}

/** The protected header that a payload of this envelope has. */
function headerOf({ id, sender, receiver, group_id }, kid) {
  expect(Boolean(receiver) !== Boolean(group_id), "it goes to one agent or to one group");
  return { alg: "dir", enc: "A256GCM", kid, iss: sender.agent_id, aud: receiver ? receiver.agent_id : group_id, jti: id };
}

const secretOf = ({ k }) => Buffer.from(k, "base64url");

/** The envelope with its payload sealed for whoever holds the key. */
async function seal(envelope, key) {
  const text = new TextEncoder().encode(JSON.stringify(envelope.payload));
  const jwe = new FlattenedEncrypt(text).setProtectedHeader(headerOf(envelope, key.kid));
  return { ...envelope, encrypt: true, payload: await jwe.encrypt(secretOf(key)) };
}

/** The bytes of base64url in its only spelling. */
function strict(text) {
  expect(typeof text === "string", "no text");
  const data = Buffer.from(text, "base64url");
  expect(data.toString("base64url") === text, "base64url");
  return data;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A JSON object of these bytes in which no key of its own is given twice. */
function object(data) {
  const value = JSON.parse(utf8.decode(data));
  expect(value !== null && typeof value === "object" && !Array.isArray(value), "no object");
  expect([...members(data)].length === Object.keys(value).length, "a key twice");
  return value;
}

function isLive({ not_before, not_after }) {
  const now = Date.now();
  return (!not_before || Date.parse(not_before) <= now) && (!not_after || now < Date.parse(not_after));
}

/** The text that was sealed in the payload of this frame, if nothing at all is wrong. */
async function opened(data, key) {
  try {
    const envelope = JSON.parse(data);
    expect(envelope.encrypt === true && isLive(key), "not sealed, or not now");
    const { encrypted_key, ...jwe } = object(payloadOf(data));
    expect(encrypted_key === undefined || encrypted_key === "", "encrypted_key");
    expect(Object.keys(jwe).sort().join() === PARTS.toSorted().join(), "members");
    const [header, iv, , tag] = PARTS.map((part) => strict(jwe[part]));
    expect(iv.length === 12 && tag.length === 16, "lengths");
    expect(isDeepStrictEqual(object(header), headerOf(envelope, key.kid)), "header");
    const only = { keyManagementAlgorithms: ["dir"], contentEncryptionAlgorithms: ["A256GCM"] };
    const { plaintext } = await flattenedDecrypt(jwe, secretOf(key), only);
    const text = utf8.decode(plaintext);
    JSON.parse(text);
    return text;
  } catch (problem) {
    throw new Shut(problem.message, { cause: problem });
  }
}

/** Whether the payload of this frame stays shut. */
async function staysShut(data, key) {
  const text = await opened(data, key).catch((problem) => problem);
  if (text instanceof Error && !(text instanceof Shut)) throw text;
  return text instanceof Shut;
}

/** Opens what opens, verifies what is signed, and opens nothing else. */
async function checkVectors(path) {
  const vectors = JSON.parse(readFileSync(path));
  for (const { name, envelope, key, payload, signer, canonical } of vectors.opened) {
    need((await opened(Buffer.from(envelope), key)) === payload, `${name}: another payload`);
    if (signer) {
      const message = JSON.parse(envelope);
      const data = covered(message);
      need(data.equals(Buffer.from(canonical)), `${name}: covers ${data}`);
      need(message.signature_algorithm === ALGORITHMS[signer.alg], `${name}: algorithm`);
      need(verifies(signer, data, message.signature), `${name}: does not verify`);
    }
    console.log("ok  ", name);
  }
  for (const { name, envelope, key } of vectors.shut) {
    need(await staysShut(Buffer.from(envelope), key), `${name}: opened`);
    console.log("ok  ", name);
  }
}

/** What every agent of this test tells its peer. */
function secretFrom(id) {
  return { from: id, text: "é😀\u2028\u0000<&>", numbers: [0.1, -7, 1e21], none: null, "": { b: [], a: {} } };
}

/** A signed and sealed message to the peer, and one from it. */
async function exchange(url, keys, id, peer) {
  const [mine, theirs] = [keys[`sig ${id}`], keys[`sig ${peer}`]];
  const agent = await Agent.join(url, id, { sign: (envelope) => signed(envelope, mine) });
  need(agent.registered.type === "synapse.registered", JSON.stringify(agent.registered));
  console.log("ok   registered");

  for (;;) { // until the peer is there
    const head = agent.head("secret", { receiver: { agent_id: peer }, payload: secretFrom(id) });
    const message = signed(await seal(head, keys[`enc ${peer}`]), mine);
    const answer = await agent.ask(head, null, JSON.stringify(message));
    need(answer.type === "synapse.accepted", JSON.stringify(answer));
    if (answer.payload.recipients === 1) break;
    await sleep(50);
  }
  console.log("ok   sent");

  const { message, data } = await agent.receive();
  need(message.sender.agent_id === peer, data);
  need(isDeepStrictEqual(message.harbor, { verified: theirs.kid }), data);
  need(verifies(theirs, covered(message), message.signature), `the peer's signature over ${covered(message)}`);
  const payload = JSON.parse(await opened(data, keys[`enc ${id}`]));
  need(isDeepStrictEqual(payload, secretFrom(peer)), JSON.stringify(payload));
  const moved = Buffer.from(JSON.stringify({ ...message, id: "another" }));
  need(await staysShut(moved, keys[`enc ${id}`]), "it opens in another message");
  console.log("ok   opened");
  await agent.leave();
}

await main(checkVectors, exchange, (jwk) => `${jwk.use} ${jwk.agent_id}`);
