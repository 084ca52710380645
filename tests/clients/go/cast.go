// The agents of the scenario, and the questions its checks put to them.

package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// failed is what a check that does not hold panics with.
type failed string

// need ends the check unless condition holds.
func need(condition bool, format string, values ...any) {
	if !condition {
		panic(failed(fmt.Sprintf("%.400s", fmt.Sprintf(format, values...))))
	}
}

// must ends the check when there is an error.
func must(err error) {
	if err != nil {
		panic(failed(err.Error()))
	}
}

// Cast is the agents. Ana leads the crew; Ben, Cho and Dov work in it; Eve stands outside; Fay is of another system.
type Cast struct {
	url, tag, crew string
	agents         map[string]*Agent
}

func newCast(url string) *Cast {
	tag := "go-" + randomHex(3)
	return &Cast{url: url, tag: tag, crew: tag + "-crew", agents: map[string]*Agent{}}
}

func (c *Cast) id(name string) string { return c.tag + "-" + name }

func (c *Cast) to(name string) *AgentEndpoint { return &AgentEndpoint{AgentID: c.id(name)} }

// names are the connected agents, in a fixed order.
func (c *Cast) names() []string {
	var names []string
	for name := range c.agents {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// join connects one agent.
func (c *Cast) join(name string, register registration, subprotocols ...string) *Agent {
	system := c.tag + "-yard"
	if name == "fay" {
		system = c.tag + "-abroad"
	}
	agent, err := join(c.url, c.id(name), system, register, subprotocols...)
	must(err)
	c.agents[name] = agent
	return agent
}

// agent is a connected one; a check that needs another fails.
func (c *Cast) agent(name string) *Agent {
	agent := c.agents[name]
	need(agent != nil, "%s is not connected", name)
	return agent
}

// ask sends a frame as that agent and gives Harbor's answer.
func (c *Cast) ask(name, id string, data []byte) received {
	answer, err := c.agent(name).ask(id, data)
	must(err)
	return answer
}

// receive gives the next message of that agent.
func (c *Cast) receive(name string) received {
	got, err := next(c.agent(name).inbox, patience)
	must(err)
	return got
}

func (c *Cast) head(name, kind string) UnifiedSynapseMessage { return message(kind, c.id(name)) }

// recipients needs an answer to be synapse.accepted and gives its count.
func recipients(answer received) int {
	need(answer.Type == "synapse.accepted", "%s", answer.data)
	var payload struct{ Recipients int }
	must(json.Unmarshal(answer.Payload, &payload))
	return payload.Recipients
}

// fence gives what everyone got up to now. The sender, Ana, sends each other agent a last message, and Fay sends her
// one: order between two agents is promised, so whatever she sent before must lie before the fence.
func (c *Cast) fence() map[string][]received {
	got := map[string][]received{}
	for _, name := range c.names() {
		source := "ana"
		if name == source {
			source = "fay"
		}
		head := c.head(source, "fence")
		head.Receiver = c.to(name)
		recipients(c.ask(source, head.ID, frame(head, []byte("0"))))
		for {
			one := c.receive(name)
			if one.ID == head.ID {
				break
			}
			got[name] = append(got[name], one)
		}
	}
	return got
}

// reaches sends a note and needs exactly the named agents to get it, once each, byte for byte.
func (c *Cast) reaches(names string, payload string, fill func(*UnifiedSynapseMessage)) {
	head := c.head("ana", "note")
	fill(&head)
	told := recipients(c.ask("ana", head.ID, frame(head, []byte(payload))))
	var reached []string
	for name, messages := range c.fence() {
		for _, got := range messages {
			need(got.ID == head.ID, "%s got %s", name, got.ID)
			need(sum(got.Payload) == sum([]byte(payload)), "%s: other payload bytes", name)
			reached = append(reached, name)
		}
	}
	sort.Strings(reached)
	need(strings.Join(reached, " ") == names, "reached %v, not %s", reached, names)
	need(told == len(reached), "recipients is %d", told)
}

// refusal is the payload of synapse.refused.
type refusal struct{ Code, Field string }

func refusalOf(answer received) refusal {
	need(answer.Type == "synapse.refused", "%s", answer.data)
	var payload refusal
	must(json.Unmarshal(answer.Payload, &payload))
	return payload
}

// refused sends what Harbor must refuse with this code and field; spoil changes the frame before it goes.
func (c *Cast) refused(code, field string, fill func(*UnifiedSynapseMessage), spoil func([]byte) []byte) {
	head := c.head("ana", "note")
	head.Receiver = c.to("ben")
	fill(&head)
	found := refusalOf(c.ask("ana", head.ID, spoil(frame(head, []byte("1")))))
	need(found.Code == code, "code is %s, not %s", found.Code, code)
	need(found.Field == field || strings.HasPrefix(found.Field, field+"."), "field is %q, not %s", found.Field, field)
}

// toldRefused needs Ana's connection to be told of a refusal that names no message.
func (c *Cast) toldRefused(code string) {
	answer, err := next(c.agent("ana").control, patience)
	must(err)
	need(refusalOf(answer).Code == code && answer.CorrelationID == "", "%s", answer.data)
}
