// A raw Synapse client in Go: `rawclient client URL` plays the scripted scenario against a Harbor.
//
//	rawclient client URL                          one line per check, exit status 0 if all are ok
//	rawclient client URL --listen AGENT COUNT     prints id and SHA-256 of each received payload
//	rawclient client URL --send FROM TO FILE      sends each line of FILE as a payload
//	rawclient signing --vectors FILE              checks every signature of tests/vectors/signatures.json
//	rawclient signing URL KEYS AGENT PEER         registers signed, sends PEER a signed message and verifies its answer
//	rawclient sealing --vectors FILE              opens every entry of tests/vectors/sealed.json, or must not
//	rawclient sealing URL KEYS AGENT PEER         registers signed, and exchanges a signed and sealed message with PEER
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	deadline := 90.0 // seconds, for the whole program
	if set, err := strconv.ParseFloat(os.Getenv("SYNAPSE_CLIENT_DEADLINE"), 64); err == nil {
		deadline = set
	}
	wait := time.Duration(deadline * float64(time.Second))
	time.AfterFunc(wait, func() {
		fmt.Printf("FAIL the deadline of %v passed\n", wait)
		os.Exit(1)
	})
	var err error
	program, given := "", []string{}
	if len(os.Args) > 1 {
		program, given = os.Args[1], os.Args[2:]
	}
	switch {
	case program == "client" && len(given) == 1:
		err = play(given[0])
	case program == "client" && len(given) == 4 && given[1] == "--listen":
		err = listen(given[0], given[2], given[3], wait)
	case program == "client" && len(given) == 5 && given[1] == "--send":
		err = send(given[0], given[2], given[3], given[4])
	case program == "signing" && len(given) == 2 && given[0] == "--vectors":
		err = caught(func() { checkVectors(given[1]) })
	case program == "signing" && len(given) == 4:
		err = caught(func() { exchange(given[0], given[1], given[2], given[3]) })
	case program == "sealing" && len(given) == 2 && given[0] == "--vectors":
		err = caught(func() { checkSealed(given[1]) })
	case program == "sealing" && len(given) == 4:
		err = caught(func() { exchangeSealed(given[0], given[1], given[2], given[3]) })
	default:
		fmt.Fprintln(os.Stderr, "usage: rawclient client|signing|sealing ARGUMENTS; main.go lists them")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listen(url, id, count string, wait time.Duration) error {
	expected, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	agent, err := join(url, id, "", registration{})
	if err != nil {
		return err
	}
	defer agent.leave()
	fmt.Println("listening", id)
	for range expected {
		got, err := next(agent.inbox, wait)
		if err != nil {
			return err
		}
		fmt.Println("received", got.ID, sum(got.Payload))
	}
	return nil
}

func send(url, from, to, file string) error {
	agent, err := join(url, from, "", registration{})
	if err != nil {
		return err
	}
	defer agent.leave()
	for _, line := range lines(file) {
		head := message("agent.event", from)
		head.Receiver = &AgentEndpoint{AgentID: to}
		answer, err := agent.ask(head.ID, frame(head, line))
		if err != nil {
			return err
		}
		if answer.Type != "synapse.accepted" {
			return fmt.Errorf("not accepted: %s", answer.data)
		}
		fmt.Println("sent", head.ID, sum(line))
	}
	return nil
}
