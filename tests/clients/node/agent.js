// One agent on one raw WebSocket: it registers, asks and is answered, and keeps what it is sent.

import WebSocket from "ws";
import { envelope, frame } from "./raw.js";

const PATIENCE = 20_000; // milliseconds for any one answer or message

/** Settles with `promise`, or fails when it takes too long. */
export function inTime(promise, what, patience = PATIENCE) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out: ${what}`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A first-in first-out queue whose reader waits. */
class Queue {
  #items = [];
  #waiting = [];

  put(item) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  get(what, patience = PATIENCE) {
    if (this.#items.length) return Promise.resolve(this.#items.shift());
    let waiter;
    const item = new Promise((resolve) => this.#waiting.push((waiter = resolve)));
    return inTime(item, what, patience).catch((late) => {
      this.#waiting = this.#waiting.filter((waiting) => waiting !== waiter);
      throw late;
    });
  }

  get empty() {
    return this.#items.length === 0;
  }
}

/** A registered connection. Data frames wait in `inbox`, Harbor's answers go to whoever asked. */
export class Agent {
  inbox = new Queue();
  control = new Queue();
  #asked = new Map();

  constructor(socket, id) {
    this.socket = socket;
    this.id = id;
    this.closed = new Promise((resolve) => socket.on("close", resolve));
    socket.on("message", (data) => this.#sort(data));
    socket.on("error", () => {}); // always followed by "close"
    this.closed.then((code) => {
      for (const { reject } of this.#asked.values()) reject(new Error(`closed with ${code}`));
    });
  }

  /** Connects, reads the challenge and registers with its nonce; `sign` gives the envelope back signed. */
  static async join(url, id, { system, subprotocols = [], headers, sign, ...register } = {}) {
    const agent = new Agent(new WebSocket(url, subprotocols, { maxPayload: 0, headers }), id);
    const ended = agent.closed.then((code) => {
      throw new Error(`closed with ${code}`);
    });
    agent.challenge = await Promise.race([agent.control.get("the challenge"), ended]);
    const sender = { agent_id: id, agent_name: `${id} (Node)`, ...(system && { system_id: system }) };
    const nonce = agent.challenge.payload.nonce;
    const head = envelope("synapse.register", sender);
    const payload = { nonce, ...register };
    agent.registered = await agent.ask(head, payload, sign && JSON.stringify(sign({ ...head, payload })));
    return agent;
  }

  #sort(data) {
    const message = JSON.parse(data);
    if (message.sender.agent_id !== "harbor") {
      this.inbox.put({ message, data });
      return;
    }
    const asked = this.#asked.get(message.correlation_id);
    this.#asked.delete(message.correlation_id);
    if (asked) asked.resolve(message);
    else this.control.put(message);
  }

  /** An envelope from this agent, without payload. */
  head(type, fields) {
    return envelope(type, this.id, fields);
  }

  /** Sends a whole frame as text. */
  send(data) {
    this.socket.send(data, { binary: false });
  }

  /** Sends an envelope and waits for Harbor's answer to it. `payload` is a Buffer, or a value to encode. */
  ask(head, payload, data) {
    const bytes = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
    const answer = new Promise((resolve, reject) => this.#asked.set(head.id, { resolve, reject }));
    this.send(data ?? frame(head, bytes));
    return inTime(answer, `an answer to ${head.id}`);
  }

  /** The next data message: the envelope and the frame's bytes. */
  receive(patience) {
    return this.inbox.get(`a message for ${this.id}`, patience);
  }

  /** The next thing Harbor says that nobody asked for. */
  told() {
    return this.control.get(`a word from Harbor to ${this.id}`);
  }

  /** Closes the connection. */
  async leave() {
    this.socket.close(1000);
    await inTime(this.closed, "the close", 2000).catch(() => this.socket.terminate());
  }
}
