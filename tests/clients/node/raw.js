// Frames by hand: building an envelope around raw payload bytes, and cutting those bytes out again.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

const run = randomBytes(4).toString("hex");
let count = 0;

/** An id that no other message of this sender has, in this run or another. */
export const newId = (sender) => `${sender}-${run}-${++count}`;

/** An envelope without its payload; `sender` is an agent id or a whole endpoint. */
export function envelope(type, sender, fields = {}) {
  const endpoint = typeof sender === "string" ? { agent_id: sender } : sender;
  const timestamp = new Date().toISOString();
  return { timestamp, version: "1.0.0", id: newId(endpoint.agent_id), type, sender: endpoint, ...fields };
}

/** The bytes of one frame: `payload` (a Buffer) put in as it is, before the other members. */
export function frame(head, payload) {
  return Buffer.concat([Buffer.from('{"payload":'), payload, Buffer.from(`,${JSON.stringify(head).slice(1)}`)]);
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d];
const isSpace = (byte) => byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;

/** The payload's own bytes, as they stand in a received frame. */
export function payloadOf(data) {
  for (const [key, value] of members(data)) if (key === "payload") return value;
  throw new Error("the frame has no payload");
}

/** The keys of a JSON object, each with its value's own bytes, in order; a key given twice comes twice. */
export function* members(data) {
  let at = skipSpace(data, 0);
  if (data[at] !== OPEN_BRACE) throw new Error("not a JSON object");
  at = skipSpace(data, at + 1);
  while (data[at] !== CLOSE_BRACE) {
    if (data[at] === COMMA) at = skipSpace(data, at + 1);
    if (data[at] !== QUOTE) throw new Error("a key is missing");
    const keyEnd = stringEnd(data, at);
    const key = JSON.parse(data.toString("utf8", at, keyEnd));
    at = skipSpace(data, keyEnd);
    if (data[at] !== COLON) throw new Error("a member has no value");
    const start = skipSpace(data, at + 1);
    at = valueEnd(data, start);
    yield [key, data.subarray(start, at)];
    at = skipSpace(data, at);
  }
}

function skipSpace(data, at) {
  while (isSpace(data[at])) at += 1;
  return at;
}

/** Where the string that starts at `at` ends. */
function stringEnd(data, at) {
  for (at += 1; data[at] !== QUOTE; at += 1) {
    if (at >= data.length) throw new Error("a string has no end");
    if (data[at] === BACKSLASH) at += 1;
  }
  return at + 1;
}

/** Where the JSON value that starts at `at` ends. */
function valueEnd(data, at) {
  if (data[at] === QUOTE) return stringEnd(data, at);
  const nested = data[at] === OPEN_BRACE || data[at] === OPEN_BRACKET;
  let depth = 0;
  while (at < data.length) {
    const byte = data[at];
    if (byte === QUOTE) {
      at = stringEnd(data, at);
      continue;
    }
    if (!nested && (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || isSpace(byte))) return at;
    at += 1;
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    if (nested && depth === 0) return at;
  }
  throw new Error("a value has no end");
}

/** The hexadecimal SHA-256 of some bytes. */
export const sha256 = (data) => createHash("sha256").update(data).digest("hex");

/** The lines of a file as Buffers; only a line feed ends a line. */
export function lines(path) {
  const data = readFileSync(path);
  const found = [];
  for (let start = 0, end; start < data.length; start = end + 1) {
    end = data.indexOf(0x0a, start);
    if (end < 0) end = data.length;
    if (end > start) found.push(data.subarray(start, end));
  }
  return found;
}
