// The scripted scenario: six agents on one Harbor, and one check after another of what each of them gets.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// vectors is tests/vectors; SYNAPSE_TEST_VECTORS says where it is when the sources have moved since the build.
func vectors(name string) string {
	folder := os.Getenv("SYNAPSE_TEST_VECTORS")
	if folder == "" {
		_, here, _, _ := runtime.Caller(0)
		folder = filepath.Join(filepath.Dir(here), "..", "..", "vectors")
	}
	return filepath.Join(folder, name)
}

type fill = func(*UnifiedSynapseMessage)

// checks is the scenario; the order of the list is the order of the run.
var checks = []struct {
	name string
	run  func(*Cast)
}{
	{"the challenge comes first and names nonce, authentication and limits", challenge},
	{"registering is answered, with groups and roles given in either form", registering},
	{"the subprotocol synapse.v1 is selected when offered", subprotocol},
	{"joining a group later is answered with its members and their roles", joining},
	{"the members of a group can be asked for", membersAsked},

	{"point to point reaches the receiver alone", reaching("ben", func(c *Cast, m *UnifiedSynapseMessage) {
		m.Receiver = c.to("ben")
	})},
	{"a group without target_type is everyone in it but the sender", inGroup("ben cho dov", func(*Cast, *UnifiedSynapseMessage) {})},
	{"target_type all ignores target_ids", inGroup("ben cho dov", func(c *Cast, m *UnifiedSynapseMessage) {
		m.TargetType, m.TargetIDs = TargetAll, []string{c.id("eve")}
	})},
	{"target_type role picks the role, and never the sender", inGroup("ben cho", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.TargetType, m.TargetIDs = TargetRole, []string{"worker", "lead"}
	})},
	{"several matching roles make one copy", inGroup("ben cho dov", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.TargetType, m.TargetIDs = TargetRole, []string{"worker", "reviewer", "worker"}
	})},
	{"target_type specific picks members by id", inGroup("cho dov", func(c *Cast, m *UnifiedSynapseMessage) {
		m.TargetType, m.TargetIDs = TargetSpecific, []string{c.id("cho"), c.id("dov"), c.id("cho")}
	})},
	{"receiver and group together make one copy each", receiverAndGroup},
	{"a broadcast in a group reaches its members", inGroup("ben cho dov", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.Broadcast = true
	})},
	{"a broadcast in a group is still narrowed by role", inGroup("cho dov", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.Broadcast, m.TargetType, m.TargetIDs = true, TargetRole, []string{"reviewer"}
	})},
	{"a broadcast alone reaches the sender's system and no other", reaching("ben cho dov eve", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.Broadcast = true
	})},

	{"a reply finds the sender by correlation_id", reply},
	{"a reply goes where reply_to says", replyTo},

	{"an agent session streams to the group whole and in order", session},
	{"odd payloads arrive byte for byte", oddPayloads},
	{"a payload spread over lines keeps its line ends", spreadPayload},
	{"a frame is forwarded as it came: key order, spacing, escapes, unknown members", untouched},
	{"a frame of exactly the limit passes", atTheLimit},

	{"refused: an empty list of targets is nobody, never everybody", emptyTargets},
	{"refused: another agent's name as sender", refusing("sender_mismatch", "sender", func(c *Cast, m *UnifiedSynapseMessage) {
		m.Sender = *c.to("ben")
	}, "")},
	{"refused: another major version", refusing("unsupported_version", "version", func(_ *Cast, m *UnifiedSynapseMessage) {
		m.Version = "2.0.0"
	}, "")},
	{"refused: no destination", noDestination},
	{"refused: a key that comes twice", refusing("duplicate_key", "receiver", nil, `"receiver":{"agent_id":"nobody"}`)},
	{"refused: a ttl that is no whole number of seconds", func(c *Cast) {
		for _, ttl := range []string{"-1", "1.5", `"60"`} {
			refusing("invalid_field", "ttl", nil, `"ttl":`+ttl)(c)
		}
	}},
	{"refused: a harbor member of the sender's own", refusing("reserved_field", "harbor", nil, `"harbor":{"seq":1}`)},
	{"refused: what is not JSON", func(c *Cast) {
		must(c.agent("ana").send([]byte("ahoy {")))
		c.toldRefused("malformed")
	}},
	{"refused: a binary frame", func(c *Cast) {
		head := c.head("ana", "note")
		head.Receiver = c.to("ben")
		must(c.agent("ana").write(websocket.MessageBinary, frame(head, []byte("1"))))
		c.toldRefused("binary_frame")
	}},
	{"the connection lives on after refusals, and nobody got what was refused", reaching("ben", func(c *Cast, m *UnifiedSynapseMessage) {
		m.Receiver = c.to("ben")
	})},
	{"confirm refusals: silence for what is accepted, an answer for what is not", confirmRefusals},

	{"who left a group gets nothing from it", leaving},
	{"a newer connection of the same agent replaces the old one, which closes with 4001", takeover},
	{"nothing is left over: every message came once, and Harbor said nothing unasked", leftOver},
}

// play runs the scenario, prints one line per check and a summary.
func play(url string) error {
	cast, bad := newCast(url), 0
	for _, check := range checks {
		if problem := attempt(check.run, cast); problem != nil {
			bad++
			fmt.Printf("FAIL %s: %v\n", check.name, problem)
		} else {
			fmt.Printf("ok   %s\n", check.name)
		}
	}
	for _, agent := range cast.agents {
		agent.leave()
	}
	fmt.Printf("%d passed, %d failed\n", len(checks)-bad, bad)
	if bad > 0 {
		return errors.New("some checks failed")
	}
	return nil
}

func attempt(run func(*Cast), cast *Cast) (problem any) {
	defer func() { problem = recover() }()
	run(cast)
	return nil
}

// reaching makes a check: a note so addressed reaches exactly these agents.
func reaching(names string, address func(*Cast, *UnifiedSynapseMessage)) func(*Cast) {
	return func(c *Cast) {
		c.reaches(names, `"ahoy"`, func(m *UnifiedSynapseMessage) { address(c, m) })
	}
}

// inGroup is the same for a note to the crew.
func inGroup(names string, address func(*Cast, *UnifiedSynapseMessage)) func(*Cast) {
	return reaching(names, func(c *Cast, m *UnifiedSynapseMessage) {
		m.GroupID = c.crew
		address(c, m)
	})
}

// refusing makes a check: a message to Ben, changed so or with a member more, is refused.
func refusing(code, field string, change func(*Cast, *UnifiedSynapseMessage), member string) func(*Cast) {
	return func(c *Cast) {
		c.refused(code, field, func(m *UnifiedSynapseMessage) {
			if change != nil {
				change(c, m)
			}
		}, func(data []byte) []byte {
			if member != "" {
				return with(data, member)
			}
			return data
		})
	}
}

// --- arriving ---

func challenge(c *Cast) {
	ana := c.join("ana", registration{Groups: []membership{{GroupID: c.crew, Role: "lead"}}})
	need(ana.challenge.Type == "synapse.challenge", "%s", ana.challenge.data)
	var payload struct {
		Nonce, Auth string
		Frame       int `json:"max_frame_bytes"`
		Heartbeat   int `json:"heartbeat_seconds"`
	}
	must(json.Unmarshal(ana.challenge.Payload, &payload))
	need(payload.Nonce != "" && payload.Auth == "open" && payload.Frame > 0 && payload.Heartbeat > 0, "%+v", payload)
}

func generation(agent *Agent) (payload struct{ Generation int64 }) {
	need(agent.registered.Type == "synapse.registered", "%s", agent.registered.data)
	must(json.Unmarshal(agent.registered.Payload, &payload))
	return payload
}

func registering(c *Cast) {
	c.join("ben", registration{Groups: []membership{{GroupID: c.crew, Role: "worker"}}})
	c.join("cho", registration{Groups: []membership{{GroupID: c.crew, Roles: []string{"worker", "reviewer"}}}})
	c.join("dov", registration{})
	c.join("fay", registration{})
	for _, agent := range c.agents {
		need(generation(agent).Generation > 0, "%s", agent.registered.data)
	}
}

func subprotocol(c *Cast) {
	eve := c.join("eve", registration{Confirm: "refusals"}, "synapse.v1")
	need(eve.socket.Subprotocol() == "synapse.v1", "%q", eve.socket.Subprotocol())
}

// control asks Harbor something as that agent and needs an answer of the same type.
func control(c *Cast, name, kind string, payload any) received {
	head := c.head(name, kind)
	answer := c.ask(name, head.ID, frame(head, marshal(payload)))
	need(answer.Type == kind, "%s", answer.data)
	return answer
}

// needCrew needs the members of an answer to be the crew, each online and with the roles it joined with.
func needCrew(c *Cast, answer received) {
	var payload struct {
		Members []struct {
			AgentID string `json:"agent_id"`
			Roles   []string
			Online  bool
		}
	}
	must(json.Unmarshal(answer.Payload, &payload))
	var found []string
	for _, member := range payload.Members {
		slices.Sort(member.Roles)
		found = append(found, fmt.Sprint(strings.TrimPrefix(member.AgentID, c.tag+"-"), member.Roles, member.Online))
	}
	slices.Sort(found)
	crew := "ana[lead] true, ben[worker] true, cho[reviewer worker] true, dov[reviewer] true"
	need(strings.Join(found, ", ") == crew, "%s", answer.Payload)
}

func joining(c *Cast) {
	needCrew(c, control(c, "dov", "synapse.group.join", membership{GroupID: c.crew, Role: "reviewer"}))
}

func membersAsked(c *Cast) {
	needCrew(c, control(c, "ana", "synapse.group.members", membership{GroupID: c.crew}))
}

// --- who gets what ---

func receiverAndGroup(c *Cast) {
	for also, names := range map[string]string{"ben": "ben cho", "eve": "ben cho eve"} {
		inGroup(names, func(c *Cast, m *UnifiedSynapseMessage) {
			m.Receiver = c.to(also)
			m.TargetType, m.TargetIDs = TargetSpecific, []string{c.id("ben"), c.id("cho")}
		})(c)
	}
}

// --- request and reply ---

func reply(c *Cast) {
	request := c.head("ana", "question")
	request.Receiver, request.Payload = c.to("eve"), json.RawMessage(`{"depth":"?","<wide>":1e21}`)
	recipients(c.ask("ana", request.ID, marshal(request)))
	asked := c.receive("eve")
	back := c.head("eve", "answer")
	back.Receiver, back.CorrelationID, back.Payload = &asked.Sender, asked.ID, asked.Payload
	must(c.agent("eve").send(marshal(back)))
	answer := c.receive("ana")
	need(answer.CorrelationID == request.ID, "%s", answer.data)
	need(bytes.Equal(answer.Payload, request.Payload), "%s", answer.data)
}

func replyTo(c *Cast) {
	request := c.head("ana", "question")
	request.Receiver, request.ReplyTo = c.to("ben"), c.id("cho")
	recipients(c.ask("ana", request.ID, frame(request, []byte("2"))))
	asked := c.receive("ben")
	back := c.head("ben", "answer")
	back.Receiver, back.CorrelationID = &AgentEndpoint{AgentID: asked.ReplyTo}, asked.ID
	told := recipients(c.ask("ben", back.ID, frame(back, []byte("4"))))
	need(told == 1, "recipients is %d", told)
	answer := c.receive("cho")
	need(answer.CorrelationID == request.ID, "%s", answer.data)
}

// --- payloads, byte for byte ---

func session(c *Cast) {
	var sent []string
	for _, event := range lines(vectors("agent_session.jsonl")) {
		head := c.head("ana", "agent.event")
		head.GroupID, head.ConversationID, head.Payload = c.crew, c.crew+"-pilot", event
		told := recipients(c.ask("ana", head.ID, marshal(head)))
		need(told == 3, "recipients is %d", told)
		sent = append(sent, head.ID+" "+sum(event))
	}
	got := c.fence()
	for _, name := range []string{"ben", "cho", "dov"} {
		var came []string
		for _, one := range got[name] {
			var again UnifiedSynapseMessage // what a relay written in Go would pass on
			must(json.Unmarshal(marshal(one.UnifiedSynapseMessage), &again))
			need(bytes.Equal(again.Payload, one.Payload), "marshalling again changed %s", one.data)
			came = append(came, one.ID+" "+sum(one.Payload))
		}
		need(slices.Equal(came, sent), "%s got %d of %d, or not as sent", name, len(came), len(sent))
	}
	need(len(got["ana"])+len(got["eve"])+len(got["fay"]) == 0, "others got some of it")
}

func oddPayloads(c *Cast) {
	for _, line := range lines(vectors("odd_payloads.jsonl")) {
		c.reaches("eve", string(line), func(m *UnifiedSynapseMessage) { m.Receiver = c.to("eve") })
	}
}

func spreadPayload(c *Cast) {
	payload := "{\r\n\t\"tide\" :\n\n  [ 1.10 ,\r\n-0 ]\n}"
	c.reaches("ben", payload, func(m *UnifiedSynapseMessage) { m.Receiver = c.to("ben") })
}

func untouched(c *Cast) {
	head := c.head("ana", "note")
	text := fmt.Appendf(nil, "\n"+`{ "payload" : {"b":1 , "a":[ ]}, "x-unknown":{"deep":[1.0,"\/"]},`+"\t"+`"type":"n\u006fte"`+
		`,"timestamp":"%s","receiver":{"x":null,"agent_id":"%s"},"sender" : {"agent_id":"%s","capabilities":[] },`+
		` "ttl":0,"group_id":"","id":"%s","version":"1.0.0" ,"target_ids":null}`,
		head.Timestamp.Format(time.RFC3339), c.id("ben"), c.id("ana"), head.ID)
	recipients(c.ask("ana", head.ID, text))
	got := c.fence()["ben"]
	need(len(got) == 1, "%d came", len(got))
	spliced := fmt.Appendf(nil, `%s,"harbor":`, bytes.TrimSuffix(text, []byte("}"))) // Harbor may add this, at the end
	need(bytes.Equal(got[0].data, text) || bytes.HasPrefix(got[0].data, spliced), "%s", got[0].data)
}

func atTheLimit(c *Cast) {
	var limits struct {
		Frame int `json:"max_frame_bytes"`
	}
	must(json.Unmarshal(c.agent("ana").challenge.Payload, &limits))
	head := c.head("ana", "note")
	head.Receiver = c.to("ben")
	room := limits.Frame - len(frame(head, []byte(`""`)))
	payload := `"` + strings.Repeat("潮", room/3) + strings.Repeat(".", room%3) + `"`
	data := frame(head, []byte(payload))
	need(len(data) == limits.Frame, "the frame is not as long as the limit")
	recipients(c.ask("ana", head.ID, data))
	got := c.fence()["ben"]
	need(len(got) == 1 && sum(got[0].Payload) == sum([]byte(payload)), "%d came, or with other payload bytes", len(got))
}

// --- refusals ---

func emptyTargets(c *Cast) {
	for _, target := range []GroupTargetType{TargetRole, TargetSpecific} {
		refusing("empty_targets", "target_ids", func(c *Cast, m *UnifiedSynapseMessage) {
			m.Receiver, m.GroupID, m.TargetType = nil, c.crew, target // and target_ids is left out
		}, "")(c)
	}
	refusing("empty_targets", "target_ids", func(c *Cast, m *UnifiedSynapseMessage) {
		m.Receiver, m.GroupID, m.TargetType = nil, c.crew, TargetRole
	}, `"target_ids":[]`)(c)
}

func noDestination(c *Cast) {
	head := c.head("ana", "note")
	found := refusalOf(c.ask("ana", head.ID, frame(head, []byte("1"))))
	need(found.Code == "no_destination", "%+v", found)
}

func confirmRefusals(c *Cast) {
	head := c.head("eve", "note")
	head.Receiver = c.to("ben")
	must(c.agent("eve").send(frame(head, []byte("1"))))
	got := c.receive("ben")
	need(got.Sender.AgentID == c.id("eve"), "%s", got.data)
	head = c.head("eve", "note")
	head.Receiver, head.Version = c.to("ben"), "9.0.0"
	found := refusalOf(c.ask("eve", head.ID, frame(head, []byte("1"))))
	need(found.Code == "unsupported_version", "%+v", found)
	need(len(c.agent("eve").control) == 0, "an accepted message was answered")
}

// --- leaving ---

func leaving(c *Cast) {
	answer := control(c, "dov", "synapse.group.leave", membership{GroupID: c.crew})
	var payload membership
	must(json.Unmarshal(answer.Payload, &payload))
	need(payload.GroupID == c.crew, "%s", answer.data)
	inGroup("ben cho", func(*Cast, *UnifiedSynapseMessage) {})(c)
}

func takeover(c *Cast) {
	old := c.agent("dov")
	newer := c.join("dov", registration{})
	need(generation(newer).Generation > generation(old).Generation, "%s", newer.registered.data)
	select {
	case <-old.closed:
		need(old.closeCode == 4001, "closed with %d", old.closeCode)
	case <-time.After(patience):
		need(false, "the old connection is still open")
	}
	c.reaches("dov", "1", func(m *UnifiedSynapseMessage) { m.Receiver = c.to("dov") })
	need(len(old.inbox) == 0, "the old connection got a message")
}

func leftOver(c *Cast) {
	need(len(c.agents) == 6, "not everyone is connected")
	for name, messages := range c.fence() {
		need(len(messages) == 0, "%s got %s", name, messages[0].data)
	}
	for name, agent := range c.agents {
		need(len(agent.control) == 0, "%s was told something unasked", name)
	}
}
