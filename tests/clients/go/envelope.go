// The envelope as a Go program writes it: a struct with omitempty tags, whose payload is raw JSON.

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// AgentEndpoint says who an agent is and what it can do.
type AgentEndpoint struct {
	AgentID      string   `json:"agent_id"`
	AgentName    string   `json:"agent_name,omitempty"`
	Endpoint     string   `json:"endpoint,omitempty"`
	SystemID     string   `json:"system_id,omitempty"`
	Version      string   `json:"version,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// GroupTargetType says which members of a group a message is for.
type GroupTargetType string

// The kinds of targets; the empty one is the same as all.
const (
	TargetAll      GroupTargetType = "all"
	TargetRole     GroupTargetType = "role"
	TargetSpecific GroupTargetType = "specific"
)

// UnifiedSynapseMessage is one message: one text frame.
type UnifiedSynapseMessage struct {
	ID            string          `json:"id"`
	Version       string          `json:"version"`
	Type          string          `json:"type"`
	Sender        AgentEndpoint   `json:"sender"`
	Receiver      *AgentEndpoint  `json:"receiver,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	ReplyTo       string          `json:"reply_to,omitempty"`
	GroupID       string          `json:"group_id,omitempty"`
	Payload       json.RawMessage `json:"payload"`
	Timestamp     time.Time       `json:"timestamp"`
	Signature     string          `json:"signature,omitempty"`

	ConversationID     string          `json:"conversation_id,omitempty"`
	TTL                int             `json:"ttl,omitempty"`
	Broadcast          bool            `json:"broadcast,omitempty"`
	Encrypt            bool            `json:"encrypt,omitempty"`
	TargetType         GroupTargetType `json:"target_type,omitempty"`
	TargetIDs          []string        `json:"target_ids,omitempty"`
	SignatureAlgorithm string          `json:"signature_algorithm,omitempty"`
	Priority           *int            `json:"priority,omitempty"` // a pointer, as 0 is not the default
	ExpiresAt          *time.Time      `json:"expires_at,omitempty"`
}

var (
	run   = randomHex(4)
	count atomic.Int64
)

func randomHex(length int) string {
	data := make([]byte, length)
	_, _ = rand.Read(data)
	return hex.EncodeToString(data)
}

// message starts an envelope, with an id that no other message of this sender has.
func message(kind, sender string) UnifiedSynapseMessage {
	return UnifiedSynapseMessage{
		ID:        fmt.Sprintf("%s-%s-%d", sender, run, count.Add(1)),
		Version:   "1.0.0",
		Type:      kind,
		Sender:    AgentEndpoint{AgentID: sender},
		Timestamp: time.Now(),
	}
}

// marshal encodes as Go does, which takes the spaces out of a raw payload but leaves its strings and numbers alone.
func marshal(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// frame encodes an envelope around payload bytes that stay as they are, spaces too.
func frame(head UnifiedSynapseMessage, payload []byte) []byte {
	const place = `"the payload goes here"`
	head.Payload = json.RawMessage(place)
	return bytes.Replace(marshal(head), []byte(place), payload, 1)
}

// with adds a member to an encoded object, at its end.
func with(object []byte, member string) []byte {
	return fmt.Appendf(nil, "%s,%s}", bytes.TrimSuffix(object, []byte("}")), member)
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// lines reads a file; only a line feed ends a line.
func lines(path string) [][]byte {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}
