// One agent on one raw WebSocket: it registers, asks and is answered, and keeps what it is sent.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const patience = 20 * time.Second // for any one answer or message

// received is a message and the bytes of its frame.
type received struct {
	UnifiedSynapseMessage
	data []byte
}

// Agent is a registered connection. Data frames wait in inbox, Harbor's answers go to whoever asked.
type Agent struct {
	id                    string
	socket                *websocket.Conn
	inbox, control        chan received
	challenge, registered received
	closed                chan struct{}
	closeCode             websocket.StatusCode

	mutex sync.Mutex
	asked map[string]chan received
}

type membership struct {
	GroupID string   `json:"group_id"`
	Role    string   `json:"role,omitempty"`
	Roles   []string `json:"roles,omitempty"`
}

type registration struct {
	Nonce   string       `json:"nonce"`
	Confirm string       `json:"confirm,omitempty"`
	Groups  []membership `json:"groups,omitempty"`
}

// join connects, reads the challenge and registers with its nonce.
func join(url, id, system string, register registration, subprotocols ...string) (*Agent, error) {
	return joinWith(url, id, func(nonce string) (string, []byte) {
		register.Nonce = nonce
		head := message("synapse.register", id)
		head.Sender = AgentEndpoint{AgentID: id, AgentName: id + " (Go)", SystemID: system}
		head.Payload = marshal(register)
		return head.ID, marshal(head)
	}, subprotocols...)
}

// joinWith does so with the registration, id and frame, that is made of the nonce.
func joinWith(url, id string, made func(nonce string) (string, []byte), subprotocols ...string) (*Agent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: subprotocols})
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(-1)
	agent := &Agent{
		id: id, socket: socket, asked: map[string]chan received{}, closed: make(chan struct{}),
		inbox: make(chan received, 4096), control: make(chan received, 4096),
	}
	go agent.read()
	if agent.challenge, err = next(agent.control, patience); err != nil {
		return nil, err
	}
	var challenge struct{ Nonce string }
	if err = json.Unmarshal(agent.challenge.Payload, &challenge); err != nil {
		return nil, err
	}
	asked, frame := made(challenge.Nonce)
	agent.registered, err = agent.ask(asked, frame)
	return agent, err
}

func (a *Agent) read() {
	defer close(a.closed)
	for {
		_, data, err := a.socket.Read(context.Background())
		if err != nil {
			a.closeCode = websocket.CloseStatus(err)
			return
		}
		got := received{data: data}
		if err := json.Unmarshal(data, &got.UnifiedSynapseMessage); err != nil {
			panic(fmt.Sprintf("%v in %.200q", err, data))
		}
		a.sort(got)
	}
}

func (a *Agent) sort(got received) {
	if got.Sender.AgentID != "harbor" {
		a.inbox <- got
		return
	}
	a.mutex.Lock()
	asked := a.asked[got.CorrelationID]
	delete(a.asked, got.CorrelationID)
	a.mutex.Unlock()
	if asked != nil {
		asked <- got
	} else {
		a.control <- got
	}
}

// send sends a whole frame as text.
func (a *Agent) send(data []byte) error {
	return a.write(websocket.MessageText, data)
}

func (a *Agent) write(kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.socket.Write(ctx, kind, data)
}

// ask sends a frame and waits for Harbor's answer to the message of that id.
func (a *Agent) ask(id string, data []byte) (received, error) {
	answer := make(chan received, 1)
	a.mutex.Lock()
	a.asked[id] = answer
	a.mutex.Unlock()
	if err := a.send(data); err != nil {
		return received{}, err
	}
	return next(answer, patience)
}

// next waits for what a channel brings, so long.
func next(from chan received, wait time.Duration) (received, error) {
	select {
	case got := <-from:
		return got, nil
	case <-time.After(wait):
		return received{}, fmt.Errorf("nothing came in %v", wait)
	}
}

// leave closes the connection.
func (a *Agent) leave() {
	_ = a.socket.Close(websocket.StatusNormalClosure, "")
}
