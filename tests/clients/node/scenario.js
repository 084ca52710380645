// The scripted scenario: six agents on one Harbor, and one check after another of what each of them gets.

import { fileURLToPath } from "node:url";
import { inTime } from "./agent.js";
import { Cast, need } from "./cast.js";
import { frame, lines, payloadOf, sha256 } from "./raw.js";

const VECTORS = fileURLToPath(new URL("../../vectors/", import.meta.url));
const CHECKS = [];

/** Adds a function to the scenario; the order of the file is the order of the run. */
const check = (name, run) => CHECKS.push({ name, run });

/** Plays the scenario, prints one line per check and a summary; true if all held. */
export async function play(url) {
  const cast = new Cast(url);
  let failed = 0;
  for (const { name, run } of CHECKS) {
    try {
      await run(cast, cast.agents);
      console.log(`ok   ${name}`);
    } catch (problem) {
      failed += 1;
      console.log(`FAIL ${name}: ${problem}`);
    }
  }
  await cast.leave();
  console.log(`${CHECKS.length - failed} passed, ${failed} failed`);
  return failed === 0;
}

// --- arriving ---

check("the challenge comes first and names nonce, authentication and limits", async (cast) => {
  const { challenge } = await cast.join("ana", { groups: [{ group_id: cast.crew, role: "lead" }] });
  need(challenge.type === "synapse.challenge", challenge);
  const { nonce, auth, max_frame_bytes, heartbeat_seconds } = challenge.payload;
  need(nonce && auth === "open" && max_frame_bytes > 0 && heartbeat_seconds > 0, challenge);
});

check("registering is answered, with groups and roles given in either form", async (cast, agents) => {
  await cast.join("ben", { groups: [{ group_id: cast.crew, role: "worker" }] });
  await cast.join("cho", { groups: [{ group_id: cast.crew, roles: ["worker", "reviewer"] }] });
  await cast.join("dov");
  await cast.join("fay");
  for (const { registered } of Object.values(agents)) {
    need(registered.type === "synapse.registered" && registered.payload.generation > 0, registered);
  }
});

check("the subprotocol synapse.v1 is selected when offered", async (cast) => {
  const eve = await cast.join("eve", { subprotocols: ["synapse.v1"], confirm: "refusals" });
  need(eve.socket.protocol === "synapse.v1", eve.socket.protocol);
});

/** Needs the members of an answer to be the crew, each with the roles it joined with. */
function needCrew(cast, answer) {
  const crew = { ana: "lead", ben: "worker", cho: "reviewer worker", dov: "reviewer" };
  const expected = Object.entries(crew).map(([name, roles]) => `${cast.ids[name]}: ${roles}`).sort().join();
  const found = answer.payload.members.map(({ agent_id, roles }) => `${agent_id}: ${roles.sort().join(" ")}`).sort();
  need(found.join() === expected, answer.payload);
}

check("joining a group later is answered with its members and their roles", async (cast, { dov }) => {
  const answer = await dov.ask(dov.head("synapse.group.join"), { group_id: cast.crew, role: "reviewer" });
  need(answer.type === "synapse.group.join", answer);
  needCrew(cast, answer);
});

check("the members of a group can be asked for", async (cast, { ana }) => {
  const answer = await ana.ask(ana.head("synapse.group.members"), { group_id: cast.crew });
  need(answer.type === "synapse.group.members", answer);
  needCrew(cast, answer);
  need(answer.payload.members.every(({ online }) => online === true), answer.payload);
});

// --- who gets what ---

check("point to point reaches the receiver alone", (cast) => cast.reaches("ben", { receiver: cast.to("ben") }));

check("a group without target_type is everyone in it but the sender", (cast) =>
  cast.reaches("ben cho dov", { group_id: cast.crew }));

check("target_type all ignores target_ids", (cast) =>
  cast.reaches("ben cho dov", { group_id: cast.crew, target_type: "all", target_ids: [cast.ids.eve] }));

check("target_type role picks the role, and never the sender", (cast) =>
  cast.reaches("ben cho", { group_id: cast.crew, target_type: "role", target_ids: ["worker", "lead"] }));

check("several matching roles make one copy", (cast) => {
  const target_ids = ["worker", "reviewer", "worker"];
  return cast.reaches("ben cho dov", { group_id: cast.crew, target_type: "role", target_ids });
});

check("target_type specific picks members by id", (cast) => {
  const target_ids = [cast.ids.cho, cast.ids.dov, cast.ids.cho];
  return cast.reaches("cho dov", { group_id: cast.crew, target_type: "specific", target_ids });
});

check("receiver and group together make one copy each", async (cast) => {
  const target_ids = [cast.ids.ben, cast.ids.cho];
  const fields = { group_id: cast.crew, target_type: "specific", target_ids };
  await cast.reaches("ben cho", { receiver: cast.to("ben"), ...fields });
  await cast.reaches("ben cho eve", { receiver: cast.to("eve"), ...fields });
});

check("a broadcast in a group reaches its members", (cast) =>
  cast.reaches("ben cho dov", { group_id: cast.crew, broadcast: true }));

check("a broadcast in a group is still narrowed by role", (cast) => {
  const fields = { broadcast: true, target_type: "role", target_ids: ["reviewer"] };
  return cast.reaches("cho dov", { group_id: cast.crew, ...fields });
});

check("a broadcast alone reaches the sender's system and no other", (cast) =>
  cast.reaches("ben cho dov eve", { broadcast: true }));

// --- request and reply ---

check("a reply finds the sender by correlation_id", async (cast, { ana, eve }) => {
  const request = ana.head("question", { receiver: cast.to("eve") });
  need((await ana.ask(request, { depth: "?" })).type === "synapse.accepted", "refused");
  const asked = await eve.receive();
  const fields = { receiver: asked.message.sender, correlation_id: asked.message.id };
  eve.send(frame(eve.head("answer", fields), payloadOf(asked.data)));
  const { message, data } = await ana.receive();
  need(message.correlation_id === request.id, message);
  need(payloadOf(data).toString() === '{"depth":"?"}', data.toString());
});

check("a reply goes where reply_to says", async (cast, { ana, ben, cho }) => {
  const request = ana.head("question", { receiver: cast.to("ben"), reply_to: cast.ids.cho });
  need((await ana.ask(request, 2)).type === "synapse.accepted", "refused");
  const asked = (await ben.receive()).message;
  const back = ben.head("answer", { receiver: { agent_id: asked.reply_to }, correlation_id: asked.id });
  need((await ben.ask(back, 4)).payload.recipients === 1, "not one recipient");
  const { message } = await cho.receive();
  need(message.correlation_id === request.id, message);
});

// --- payloads, byte for byte ---

check("an agent session streams to the group whole and in order", async (cast, { ana }) => {
  const sent = [];
  for (const event of lines(`${VECTORS}agent_session.jsonl`)) {
    const head = ana.head("agent.event", { group_id: cast.crew, conversation_id: `${cast.crew}-pilot` });
    const answer = await ana.ask(head, event);
    need(answer.type === "synapse.accepted" && answer.payload.recipients === 3, answer);
    sent.push(`${head.id} ${sha256(event)}`);
  }
  const got = await cast.fence();
  for (const name of ["ben", "cho", "dov"]) {
    const received = got[name].map(({ message, data }) => `${message.id} ${sha256(payloadOf(data))}`);
    need(received.join() === sent.join(), `${name} got ${received.length} of ${sent.length}, or not as sent`);
  }
  need(got.ana.length + got.eve.length + got.fay.length === 0, "others got some of it");
});

check("odd payloads arrive byte for byte", async (cast) => {
  for (const line of lines(`${VECTORS}odd_payloads.jsonl`)) {
    await cast.reaches("eve", { receiver: cast.to("eve") }, line);
  }
});

check("a payload spread over lines keeps its line ends", (cast) => {
  const payload = Buffer.from('{\r\n\t"tide" :\n\n  [ 1.10 ,\r\n-0 ]\n}');
  return cast.reaches("ben", { receiver: cast.to("ben") }, payload);
});

check("a frame is forwarded as it came: key order, spacing, escapes, unknown members", async (cast, { ana }) => {
  const head = ana.head("note", { receiver: cast.to("ben") });
  const text = Buffer.from(
    '\n{ "payload" : {"b":1 , "a":[ ]}, "x-unknown":{"deep":[1.0,"\\/"]},\t"type":"n\\u006fte"' +
      `,"timestamp":"${head.timestamp}","receiver":{"x":null,"agent_id":"${cast.ids.ben}"},` +
      `"sender" : {"agent_id":"${ana.id}","capabilities":[] }, "ttl":0,"group_id":"","id":"${head.id}"` +
      ',"version":"1.0.0" ,"target_ids":null}',
  );
  const answer = await ana.ask(head, null, text);
  need(answer.type === "synapse.accepted", answer);
  const { ben } = await cast.fence();
  need(ben.length === 1, `${ben.length} came`);
  const [{ data }] = ben;
  const spliced = Buffer.concat([text.subarray(0, -1), Buffer.from(',"harbor":')]); // Harbor may add this, at the end
  need(data.equals(text) || data.subarray(0, spliced.length).equals(spliced), data.toString());
});

check("a frame of exactly the limit passes", async (cast, { ana }) => {
  const limit = ana.challenge.payload.max_frame_bytes;
  const head = ana.head("note", { receiver: cast.to("ben") });
  const room = limit - frame(head, Buffer.from('""')).length;
  const payload = Buffer.from(`"${"潮".repeat(room / 3)}${".".repeat(room % 3)}"`);
  need(frame(head, payload).length === limit, "the frame is not as long as the limit");
  need((await ana.ask(head, payload)).type === "synapse.accepted", "refused");
  const { ben } = await cast.fence();
  need(ben.length === 1, `${ben.length} came`);
  const [{ data }] = ben;
  need(sha256(payloadOf(data)) === sha256(payload), "other payload bytes");
});

// --- refusals ---

check("refused: an empty list of targets is nobody, never everybody", async (cast) => {
  await cast.refused("empty_targets", "target_ids", { group_id: cast.crew, target_type: "role", target_ids: [] });
  await cast.refused("empty_targets", "target_ids", { group_id: cast.crew, target_type: "specific" });
});

check("refused: another agent's name as sender", (cast) =>
  cast.refused("sender_mismatch", "sender", { sender: cast.to("ben"), receiver: cast.to("cho") }));

check("refused: another major version", (cast) =>
  cast.refused("unsupported_version", "version", { version: "2.0.0", receiver: cast.to("ben") }));

check("refused: no destination", async (cast, { ana }) => {
  const answer = await ana.ask(ana.head("note"), 1);
  need(answer.type === "synapse.refused" && answer.payload.code === "no_destination", answer);
});

check("refused: a key that comes twice", (cast) => {
  const again = `,"receiver":{"agent_id":"${cast.ids.cho}"}}`;
  const twice = (head) => Buffer.from(frame(head, Buffer.from("1")).toString().slice(0, -1) + again);
  return cast.refused("duplicate_key", "receiver", { receiver: cast.to("ben") }, twice);
});

check("refused: a ttl that is no whole number of seconds", async (cast) => {
  for (const ttl of [-1, 1.5, "60"]) {
    await cast.refused("invalid_field", "ttl", { ttl, receiver: cast.to("ben") });
  }
});

check("refused: a harbor member of the sender's own", (cast) =>
  cast.refused("reserved_field", "harbor", { harbor: { seq: 1 }, receiver: cast.to("ben") }));

check("refused: what is not JSON", async (cast, { ana }) => {
  ana.send("ahoy {");
  await cast.toldRefused("malformed");
});

check("refused: a binary frame", async (cast, { ana }) => {
  const head = ana.head("note", { receiver: cast.to("ben") });
  ana.socket.send(frame(head, Buffer.from("1")), { binary: true });
  await cast.toldRefused("binary_frame");
});

check("the connection lives on after refusals, and nobody got what was refused", (cast) =>
  cast.reaches("ben", { receiver: cast.to("ben") }, Buffer.from('"still here"')));

check("confirm refusals: silence for what is accepted, an answer for what is not", async (cast, { ben, eve }) => {
  eve.send(frame(eve.head("note", { receiver: cast.to("ben") }), Buffer.from("1")));
  const { message } = await ben.receive();
  need(message.sender.agent_id === eve.id, message);
  const answer = await eve.ask(eve.head("note", { version: "9.0.0", receiver: cast.to("ben") }), 1);
  need(answer.payload.code === "unsupported_version", answer);
  need(eve.control.empty, "an accepted message was answered");
});

// --- leaving ---

check("who left a group gets nothing from it", async (cast, { dov }) => {
  const answer = await dov.ask(dov.head("synapse.group.leave"), { group_id: cast.crew });
  need(answer.type === "synapse.group.leave" && answer.payload.group_id === cast.crew, answer);
  await cast.reaches("ben cho", { group_id: cast.crew });
});

check("a newer connection of the same agent replaces the old one, which closes with 4001", async (cast, { dov }) => {
  const newer = await cast.join("dov");
  need(newer.registered.payload.generation > dov.registered.payload.generation, newer.registered);
  const code = await inTime(dov.closed, "the close of the old connection");
  need(code === 4001, `closed with ${code}`);
  await cast.reaches("dov", { receiver: cast.to("dov") });
  need(dov.inbox.empty, "the old connection got a message");
});

check("nothing is left over: every message came once, and Harbor said nothing unasked", async (cast, agents) => {
  need(Object.keys(agents).length === 6, "not everyone is connected");
  const left = Object.values(await cast.fence()).flat();
  need(left.length === 0, left.map(({ message }) => message));
  for (const [name, { control }] of Object.entries(agents)) {
    need(control.empty, `${name} was told something unasked`);
  }
});
