// The agents of the scenario, and the questions its checks put to them.

import { randomBytes } from "node:crypto";
import { Agent } from "./agent.js";
import { frame, payloadOf, sha256 } from "./raw.js";

/** Ends the check unless `condition` holds. */
export function need(condition, what) {
  if (!condition) throw new Error((typeof what === "string" ? what : JSON.stringify(what)).slice(0, 400));
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Ana leads the crew; Ben, Cho and Dov work in it; Eve stands outside; Fay is of another system. */
export class Cast {
  agents = {};

  constructor(url) {
    const tag = `js-${randomBytes(3).toString("hex")}`;
    this.url = url;
    this.crew = `${tag}-crew`;
    this.system = `${tag}-yard`;
    this.otherSystem = `${tag}-abroad`;
    this.ids = Object.fromEntries(["ana", "ben", "cho", "dov", "eve", "fay"].map((name) => [name, `${tag}-${name}`]));
  }

  /** The endpoint of an agent, as a receiver. */
  to(name) {
    return { agent_id: this.ids[name] };
  }

  /** Connects one agent. */
  async join(name, register) {
    const system = name === "fay" ? this.otherSystem : this.system;
    const agent = await Agent.join(this.url, this.ids[name], { system, ...register });
    this.agents[name] = agent;
    return agent;
  }

  /** Closes every connection. */
  async leave() {
    await Promise.all(Object.values(this.agents).map((agent) => agent.leave()));
  }

  /**
   * What everyone got up to now.
   *
   * The sender sends each other agent a last message, and another agent sends one to the sender: order between two
   * agents is promised, so whatever the sender sent before must lie before the fence.
   */
  async fence(sender = "ana") {
    const got = {};
    for (const [name, agent] of Object.entries(this.agents)) {
      const source = this.agents[name === sender ? "fay" : sender];
      const head = source.head("fence", { receiver: this.to(name) });
      const answer = await source.ask(head, 0);
      need(answer.type === "synapse.accepted", answer);
      got[name] = [];
      for (;;) {
        const received = await agent.receive();
        if (received.message.id === head.id) break;
        got[name].push(received);
      }
    }
    return got;
  }

  /** Sends a note and needs exactly the agents of `names` to get it, once each, byte for byte. */
  async reaches(names, fields, payload = Buffer.from('"ahoy"')) {
    const { ana } = this.agents;
    const head = ana.head("note", fields);
    const answer = await ana.ask(head, payload);
    need(answer.type === "synapse.accepted", answer);
    const expected = names.split(" ").sort();
    const got = await this.fence();
    const reached = Object.entries(got).flatMap(([name, received]) => received.map(() => name)).sort();
    need(same(reached, expected), `reached ${reached}, not ${expected}`);
    for (const name of expected) {
      const [{ message, data }] = got[name];
      need(message.id === head.id, `${name} got ${message.id}`);
      need(sha256(payloadOf(data)) === sha256(payload), `${name}: other payload bytes`);
    }
    need(answer.payload.recipients === expected.length, answer.payload);
  }

  /** Sends what Harbor must refuse with this code and field. */
  async refused(code, field, fields, makeFrame = (head) => frame(head, Buffer.from("1"))) {
    const { ana } = this.agents;
    const head = ana.head("note", fields);
    const answer = await ana.ask(head, 1, makeFrame(head));
    need(answer.type === "synapse.refused", answer);
    need(answer.payload.code === code, answer.payload);
    const named = answer.payload.field ?? "";
    need(named === field || named.startsWith(`${field}.`), `field is ${named}, not ${field}`);
  }

  /** Needs Ana's connection to be told of a refusal that names no message. */
  async toldRefused(code) {
    const answer = await this.agents.ana.told();
    need(answer.type === "synapse.refused" && !("correlation_id" in answer), answer);
    need(answer.payload.code === code, answer.payload);
  }
}
