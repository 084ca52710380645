// Signatures of envelopes by Go's standard library. Its encoder writes the canonical form of an object whose keys are
// ASCII and whose values are strings without U+2028 and U+2029, integers and the like; no more than that is signed here.

package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"time"
)

// jwk is one key of a JSON Web Key Set.
type jwk struct {
	Kid, Alg, Use, X, D, K string
	AgentID                string `json:"agent_id"`
	NotBefore              string `json:"not_before"`
	NotAfter               string `json:"not_after"`
}

// envelope is a message as an open object.
type envelope map[string]any

var algorithms = map[string]string{"HS256": "HMAC-SHA256", "HS512": "HMAC-SHA512", "EdDSA": "Ed25519"}

func bytesOf(text string) []byte {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	must(err)
	return data
}

// mac is what HMAC makes of the data with this key.
func (k jwk) mac(data []byte) []byte {
	made := map[string]func() hash.Hash{"HS256": sha256.New, "HS512": sha512.New}[k.Alg]
	mac := hmac.New(made, bytesOf(k.K))
	mac.Write(data)
	return mac.Sum(nil)
}

func (k jwk) sign(data []byte) string {
	if k.Alg == "EdDSA" {
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(bytesOf(k.D)), data))
	}
	return base64.RawURLEncoding.EncodeToString(k.mac(data))
}

func (k jwk) verifies(data []byte, signature string) bool {
	if k.Alg == "EdDSA" {
		return ed25519.Verify(bytesOf(k.X), data, bytesOf(signature))
	}
	return hmac.Equal(k.mac(data), bytesOf(signature))
}

// covered gives the bytes that a signature of this envelope covers.
func (e envelope) covered() []byte {
	rest := maps.Clone(e)
	delete(rest, "signature")
	delete(rest, "harbor")
	return marshal(rest)
}

func (e envelope) signed(key jwk) []byte {
	whole := maps.Clone(e)
	whole["signature_algorithm"] = algorithms[key.Alg]
	whole["signature"] = key.sign(whole.covered())
	return marshal(whole)
}

// open reads an object and keeps its numbers as they are spelled.
func open(data []byte) (object envelope) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	must(decoder.Decode(&object))
	return object
}

// caught turns the panic of a check that does not hold into an error.
func caught(check func()) (err error) {
	defer func() {
		if problem, is := recover().(failed); is {
			err = errors.New(string(problem))
		}
	}()
	check()
	return nil
}

// checkVectors verifies and repeats the signature of every entry of tests/vectors/signatures.json over the canonical
// bytes that stand there.
func checkVectors(path string) {
	data, err := os.ReadFile(path)
	must(err)
	var vectors struct {
		Signed []struct {
			Name, Envelope, Canonical, Algorithm, Signature string
			Key                                             jwk
		}
	}
	must(json.Unmarshal(data, &vectors))
	for _, entry := range vectors.Signed {
		key, canonical := entry.Key, []byte(entry.Canonical)
		need(open([]byte(entry.Envelope))["signature"] == entry.Signature, "%s: another signature", entry.Name)
		need(algorithms[key.Alg] == entry.Algorithm, "%s: algorithm", entry.Name)
		need(key.verifies(canonical, entry.Signature), "%s: does not verify", entry.Name)
		need(!key.verifies(append(canonical, ' '), entry.Signature), "%s: verifies anything", entry.Name)
		if key.D+key.K != "" {
			need(key.sign(canonical) == entry.Signature, "%s: signs otherwise", entry.Name)
		}
		fmt.Println("ok  ", entry.Name)
	}
}

// exchange registers signed, sends the peer a signed message and verifies its answer.
func exchange(url, file, id, peer string) {
	keys := keysOf(file, func(key jwk) string { return key.AgentID })
	mine, theirs := keys[id], keys[peer]
	agent := joinSigned(url, id, mine)
	fmt.Println("ok   registered")

	head := start("greeting", id)
	head["receiver"] = envelope{"agent_id": peer}
	head["x_unknown"] = []int{}
	head["payload"] = envelope{"z": []any{1, -1, 9007199254740991}, "a": "<é😀潮\ufffd\u007f>\n\"\\", "b": nil}
	sent := head["id"].(string)
	answer, err := agent.ask(sent, head.signed(mine))
	must(err)
	need(recipients(answer) == 1, "%s", answer.data)
	fmt.Println("ok   sent")

	message, err := next(agent.inbox, patience)
	must(err)
	got := open(message.data)
	need(message.Sender.AgentID == peer && message.CorrelationID == sent, "%s", message.data)
	need(string(marshal(got["harbor"])) == string(marshal(envelope{"verified": theirs.Kid})), "%s", message.data)
	need(message.SignatureAlgorithm == algorithms[theirs.Alg], "%s", message.data)
	need(theirs.verifies(got.covered(), message.Signature), "the peer's signature over %s", got.covered())
	got["payload"] = "other"
	need(!theirs.verifies(got.covered(), message.Signature), "the peer's signature fits anything")
	fmt.Println("ok   verified")
	agent.leave()
}

// keysOf reads a file of keys; each is named by `name`.
func keysOf(file string, name func(jwk) string) map[string]jwk {
	data, err := os.ReadFile(file)
	must(err)
	var set struct{ Keys []jwk }
	must(json.Unmarshal(data, &set))
	keys := map[string]jwk{}
	for _, key := range set.Keys {
		keys[name(key)] = key
	}
	return keys
}

// joinSigned connects to a Harbor that requires it, and registers signed.
func joinSigned(url, id string, key jwk) *Agent {
	agent, err := joinWith(url, id, func(nonce string) (string, []byte) {
		head := start("synapse.register", id)
		head["payload"] = envelope{"nonce": nonce}
		return head["id"].(string), head.signed(key)
	})
	must(err)
	need(bytes.Contains(agent.challenge.Payload, []byte(`"auth":"required"`)), "%s", agent.challenge.data)
	need(agent.registered.Type == "synapse.registered", "%s", agent.registered.data)
	return agent
}

// start is the beginning of an envelope that may be signed.
func start(kind, sender string) envelope {
	return envelope{
		"id": message(kind, sender).ID, "version": "1.0.0", "type": kind, "sender": envelope{"agent_id": sender},
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano),
	}
}
