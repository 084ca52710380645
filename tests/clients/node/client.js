// A raw Synapse client in Node: `node client.js URL` plays the scripted scenario against a Harbor.
//
//   client.js URL                          one line per check, exit status 0 if all are ok
//   client.js URL --listen AGENT COUNT     prints id and SHA-256 of each received payload
//   client.js URL --send FROM TO FILE      sends each line of FILE as a payload

import { Agent } from "./agent.js";
import { lines, payloadOf, sha256 } from "./raw.js";
import { play } from "./scenario.js";

const DEADLINE = Number(process.env.SYNAPSE_CLIENT_DEADLINE ?? 90); // seconds, for the whole program

async function listen(url, id, count) {
  const agent = await Agent.join(url, id);
  console.log("listening", id);
  for (let received = 0; received < Number(count); received += 1) {
    const { message, data } = await agent.receive(DEADLINE * 1000);
    console.log("received", message.id, sha256(payloadOf(data)));
  }
  await agent.leave();
  return true;
}

async function send(url, from, to, file) {
  const agent = await Agent.join(url, from);
  for (const line of lines(file)) {
    const head = agent.head("agent.event", { receiver: { agent_id: to } });
    const answer = await agent.ask(head, line);
    if (answer.type !== "synapse.accepted") throw new Error(`not accepted: ${JSON.stringify(answer)}`);
    console.log("sent", head.id, sha256(line));
  }
  await agent.leave();
  return true;
}

setTimeout(() => {
  console.log(`FAIL the deadline of ${DEADLINE} s passed`);
  process.exit(1);
}, DEADLINE * 1000).unref();

const [url, mode, ...rest] = process.argv.slice(2);
const modes = { "--listen": listen, "--send": send };
if (!url || (mode && !modes[mode])) {
  console.error("usage: client.js URL [--listen AGENT COUNT | --send FROM TO FILE]");
  process.exit(2);
}
const ok = await (mode ? modes[mode](url, ...rest) : play(url));
process.exit(ok ? 0 : 1);
