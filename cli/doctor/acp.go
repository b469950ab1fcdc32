package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// headerKey presents a key for people (SPEC.md, People at the agent).
	headerKey = "X-Secret-Key"
	// maxHello bounds the answer to initialize.
	maxHello = 1 << 20
	hello    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"hearth-doctor","version":"1"}}}`
)

// acp says initialize to the agent's endpoint as a client that watches.
func (c *Cluster) acp(ctx context.Context, namespace, pod, key string) Probe {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.dial(ctx, namespace, pod, hearthv1.PortACPNumber)
	}}
	through := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	conn, response, err := websocket.Dial(ctx, fmt.Sprintf("ws://%s:%d/acp", pod, hearthv1.PortACPNumber), &websocket.DialOptions{HTTPClient: through, HTTPHeader: http.Header{headerKey: {key}}})
	if response != nil && response.Body != nil {
		_ = response.Body.Close() // of an upgrade it is not the connection
	}
	switch {
	case err == nil:
	case response == nil:
		return ofEndpoint(notDialled(ctx, err))
	case response.StatusCode == http.StatusUnauthorized:
		return Probe{Heard: HeardRefused, Words: "401 Unauthorized"}
	default:
		return Probe{Heard: HeardOther, Words: fmt.Sprintf("it answered %d", response.StatusCode)}
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxHello)
	if err := conn.Write(ctx, websocket.MessageText, []byte(hello)); err != nil {
		return ofEndpoint(notDialled(ctx, err))
	}
	_, text, err := conn.Read(ctx)
	if err != nil {
		return ofEndpoint(notDialled(ctx, err))
	}
	return greeted(text)
}

// ofEndpoint: one that hangs up has lost its agent.
func ofEndpoint(p Probe) Probe {
	if p.Heard == HeardUnproven {
		p.Heard = HeardSilence
	}
	return p
}

// greeted reads the answer to initialize.
func greeted(text []byte) Probe {
	var answer struct {
		Result *struct {
			AgentInfo struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"agentInfo"`
		} `json:"result"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(text, &answer); {
	case err != nil:
		return Probe{Heard: HeardOther, Words: "its answer is no JSON"}
	case answer.Error != nil:
		return Probe{Heard: HeardSilence, Words: fmt.Sprintf("it answered error %d: %s", answer.Error.Code, oneLine(answer.Error.Message, maxSaw))}
	case answer.Result == nil:
		return Probe{Heard: HeardOther, Words: "its answer is none to initialize"}
	}
	name := oneLine(answer.Result.AgentInfo.Name+" "+answer.Result.AgentInfo.Version, maxSaw)
	if name == "" {
		name = "an agent that says no name"
	}
	return Probe{Heard: HeardOK, Agent: name}
}
