// Sealed payloads after docs/PROTOCOL.md alone, by Go's standard library, which has AES-GCM and no JWE.

package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"
	"unicode/utf8"
)

var errShut = errors.New("the payload stays shut")

// headerOf is the protected header that a payload of this envelope has.
func (e envelope) headerOf(kid string) (map[string]any, error) {
	sender, _ := e["sender"].(map[string]any)
	receiver, has := e["receiver"].(map[string]any)
	group, _ := e["group_id"].(string)
	if has == (group != "") {
		return nil, errShut // it goes to one agent or to one group
	}
	aud := any(group)
	if has {
		aud = receiver["agent_id"]
	}
	return map[string]any{
		"alg": "dir", "enc": "A256GCM", "kid": kid, "iss": sender["agent_id"], "aud": aud, "jti": e["id"],
	}, nil
}

func (k jwk) gcm() cipher.AEAD {
	block, err := aes.NewCipher(bytesOf(k.K))
	must(err)
	aead, err := cipher.NewGCM(block)
	must(err)
	return aead
}

// seal gives the envelope with its payload sealed for whoever holds the key.
func (e envelope) seal(key jwk) envelope {
	e = open(marshal(e)) // as it will be read
	header, err := e.headerOf(key.Kid)
	must(err)
	iv := make([]byte, 12)
	_, _ = rand.Read(iv)
	encode := base64.RawURLEncoding.EncodeToString
	protected := encode(marshal(header))
	sealed := key.gcm().Seal(nil, iv, marshal(e["payload"]), []byte(protected))
	text, tag := sealed[:len(sealed)-16], sealed[len(sealed)-16:]
	e["payload"] = envelope{"protected": protected, "iv": encode(iv), "ciphertext": encode(text), "tag": encode(tag)}
	e["encrypt"] = true
	return e
}

// members reads an object in which no key is given twice.
func members(data []byte) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') || !utf8.Valid(data) || !json.Valid(data) {
		return nil, errShut
	}
	found := map[string]json.RawMessage{}
	for decoder.More() {
		key, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return nil, errShut
		}
		if _, twice := found[key.(string)]; twice {
			return nil, errShut
		}
		found[key.(string)] = value
	}
	return found, nil
}

func (k jwk) isLive() bool {
	now := time.Now()
	from, to := time.Time{}, now.Add(time.Hour)
	if k.NotBefore != "" {
		must(from.UnmarshalText([]byte(k.NotBefore)))
	}
	if k.NotAfter != "" {
		must(to.UnmarshalText([]byte(k.NotAfter)))
	}
	return !now.Before(from) && now.Before(to)
}

// parts takes a sealed payload apart: the text of the header, and its bytes, the iv, the ciphertext and the tag.
func parts(payload []byte) (protected string, found [4][]byte, err error) {
	sealed, err := members(payload)
	if err != nil {
		return "", found, err
	}
	if key, has := sealed["encrypted_key"]; has && string(key) != `""` {
		return "", found, errShut
	}
	delete(sealed, "encrypted_key")
	if len(sealed) != len(found) {
		return "", found, errShut
	}
	for at, name := range []string{"protected", "iv", "ciphertext", "tag"} {
		var text *string
		if json.Unmarshal(sealed[name], &text) != nil || text == nil {
			return "", found, errShut
		}
		data, err := base64.RawURLEncoding.Strict().DecodeString(*text)
		// Go's decoder passes over the ends of lines.
		if err != nil || base64.RawURLEncoding.EncodeToString(data) != *text {
			return "", found, errShut
		}
		found[at] = data
		if at == 0 {
			protected = *text
		}
	}
	return protected, found, nil
}

// opened is the text that was sealed in the payload of this frame, if nothing at all is wrong.
func opened(frame []byte, key jwk) ([]byte, error) {
	whole, message := map[string]json.RawMessage{}, open(frame)
	must(json.Unmarshal(frame, &whole))
	if message["encrypt"] != true || !key.isLive() {
		return nil, errShut
	}
	protected, found, err := parts(whole["payload"])
	if err != nil || len(found[1]) != 12 || len(found[3]) != 16 {
		return nil, errShut
	}
	wanted, err := message.headerOf(key.Kid)
	if err != nil {
		return nil, err
	}
	var header map[string]any
	if _, err := members(found[0]); err != nil || json.Unmarshal(found[0], &header) != nil {
		return nil, errShut
	}
	if !reflect.DeepEqual(header, wanted) {
		return nil, errShut
	}
	text, err := key.gcm().Open(nil, found[1], append(found[2], found[3]...), []byte(protected))
	if err != nil || !json.Valid(text) || !utf8.Valid(text) {
		return nil, errShut
	}
	return text, nil
}

// checkSealed opens what opens of tests/vectors/sealed.json, verifies what is signed, and opens nothing else.
func checkSealed(path string) {
	data, err := os.ReadFile(path)
	must(err)
	type entry struct {
		Name, Envelope, Payload, Canonical string
		Key                                jwk
		Signer                             *jwk
	}
	var vectors struct{ Opened, Shut []entry }
	must(json.Unmarshal(data, &vectors))
	for _, entry := range vectors.Opened {
		text, err := opened([]byte(entry.Envelope), entry.Key)
		need(err == nil && string(text) == entry.Payload, "%s: %v, %s", entry.Name, err, text)
		if entry.Signer != nil {
			message := open([]byte(entry.Envelope))
			need(string(message.covered()) == entry.Canonical, "%s: covers %s", entry.Name, message.covered())
			signature, _ := message["signature"].(string)
			need(entry.Signer.verifies(message.covered(), signature), "%s: does not verify", entry.Name)
		}
		fmt.Println("ok  ", entry.Name)
	}
	for _, entry := range vectors.Shut {
		text, err := opened([]byte(entry.Envelope), entry.Key)
		need(err != nil, "%s: opened to %s", entry.Name, text)
		fmt.Println("ok  ", entry.Name)
	}
}

// secretOf is what every agent of this test tells its peer.
func secretOf(id string) envelope {
	return envelope{
		"from": id, "text": "é😀\u2028\u0000<&>", "numbers": []any{0.1, -7.0, 1e21}, "none": nil,
		"": envelope{"b": []any{}, "a": envelope{}},
	}
}

// exchangeSealed registers signed, and exchanges a signed and sealed message with the peer.
func exchangeSealed(url, file, id, peer string) {
	keys := keysOf(file, func(key jwk) string { return key.Use + " " + key.AgentID })
	mine, theirs := keys["sig "+id], keys["sig "+peer]
	agent := joinSigned(url, id, mine)
	fmt.Println("ok   registered")

	for { // until the peer is there
		head := start("secret", id)
		head["receiver"] = envelope{"agent_id": peer}
		head["payload"] = secretOf(id)
		answer, err := agent.ask(head["id"].(string), head.seal(keys["enc "+peer]).signed(mine))
		must(err)
		if recipients(answer) == 1 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("ok   sent")

	message, err := next(agent.inbox, patience)
	must(err)
	got := open(message.data)
	need(message.Sender.AgentID == peer, "%s", message.data)
	need(string(marshal(got["harbor"])) == string(marshal(envelope{"verified": theirs.Kid})), "%s", message.data)
	need(theirs.verifies(got.covered(), message.Signature), "the peer's signature over %s", got.covered())
	text, err := opened(message.data, keys["enc "+id])
	must(err)
	need(same(text, marshal(secretOf(peer))), "another payload: %s", text)
	got["id"] = "another"
	_, err = opened(marshal(got), keys["enc "+id])
	need(err != nil, "it opens in another message")
	fmt.Println("ok   opened")
	agent.leave()
}

// same says whether two texts are one JSON value.
func same(one, other []byte) bool {
	var a, b any
	must(json.Unmarshal(one, &a))
	must(json.Unmarshal(other, &b))
	return reflect.DeepEqual(a, b)
}
