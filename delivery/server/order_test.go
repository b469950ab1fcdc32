package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// faults are all that can be wrong with a delivery, in the order in which the contract looks (SPEC.md, order of checks).
// World changes the harness before the call is made, request the content, call the rest.
var faults = []struct {
	name    string
	code    wire.Code
	world   func(*house)
	request func(map[string]any)
	call    func(*call)
}{
	{name: "challenge", code: wire.CodeMalformed, call: func(c *call) { c.challenge = "short" }},
	{name: "host", code: wire.CodeMisdirected, call: func(c *call) { c.host = "another-pod" }},
	{name: "size", code: wire.CodeTooLarge, call: func(c *call) { c.body = append(c.body, bytes.Repeat([]byte(" "), wire.MaxBodyBytes)...) }},
	{name: "proof", code: wire.CodeUnauthenticated, call: func(c *call) { c.spoilProof = true }},
	{name: "boot", code: wire.CodeBootChanged, call: func(c *call) { c.boot = "another-boot" }},
	{name: "media type", code: wire.CodeUnsupportedMedia, call: func(c *call) { c.media = "text/plain" }},
	{name: "version", code: wire.CodeUnsupportedVersion, request: func(r map[string]any) { r["apiVersion"] = "hearth.dev/delivery/v9" }},
	{name: "decoding", code: wire.CodeMalformed, request: func(r map[string]any) { r["extra"] = true }},
	{name: "target", code: wire.CodeMisdirected, request: func(r map[string]any) {
		r["target"] = map[string]any{"name": testIdentity.PodName, "uid": "former-pod"}
	}},
	{name: "journal", code: wire.CodeJournalChanged, request: func(r map[string]any) { r["journal"] = "former-journal" }},
	{name: "known", code: wire.CodeDigestMismatch, world: func(h *house) {
		known := h.delivery("run", 1)
		known.Goal = "Review something else."
		require.Equal(h.t, http.StatusAccepted, h.deliver(known).status)
		<-h.actor.began
		h.actor.finish("run", "x")
		h.untilState("run", wire.StateFinished)
	}},
	{name: "draining", code: wire.CodeDraining, world: func(h *house) { h.server.draining.Store(true) }},
	{name: "agent", code: wire.CodeAgentUnavailable, world: func(h *house) { h.actor.set(wire.AgentDown) }},
	{name: "capacity", code: wire.CodeBusy, world: func(h *house) { h.running("other") }},
	{name: "disk", code: wire.CodeJournalFull, world: func(h *house) { h.full.Store(true) }},
}

// SPEC.md, order of checks: of any two faults at once the earlier one is told. Every answer to a well-formed challenge verifies.
func TestOfTwoFaultsTheEarlierOneIsTold(t *testing.T) {
	for i := range faults {
		for j := i; j < len(faults); j++ {
			first, second := faults[i], faults[j]
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				h := build(t, func(c *Config) { c.Queue = 0 })
				content := map[string]any{}
				encoded, err := wire.Encode(h.delivery("run", 1))
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(encoded, &content))
				worlds := []int{i, j} // a known attempt has to be made before the harness refuses new ones, and room before it is full
				if i == j {
					worlds = worlds[:1]
				}
				for _, n := range []int{10, 13, 11, 12, 14} {
					for _, w := range worlds {
						if w == n {
							faults[n].world(h)
						}
					}
				}
				for _, n := range worlds {
					if faults[n].request != nil {
						faults[n].request(content)
					}
				}
				c := h.call(http.MethodPost, wire.RunsPath, content)
				for _, n := range worlds {
					if faults[n].call != nil {
						faults[n].call(&c)
					}
				}
				a := h.send(c)
				p := a.problem(t)
				assert.Equal(t, first.code, p.Code, p.Detail)
				assert.NotContains(t, p.Detail, "Review", "a refusal never repeats the goal (I8)")
				if first.name != "known" && second.name != "known" {
					assert.Empty(t, h.state("run", 1), "nothing is journalled")
				}
				h.full.Store(false)
			})
		}
	}
}

// R26: whoever does not hold the key learns nothing from what he sends, well-formed or not.
func TestTheBodyOfAnUnauthenticatedRequestIsNotLookedAt(t *testing.T) {
	h := build(t)
	var seen [][]byte
	for _, body := range []string{`{`, `{"apiVersion":"v9"}`, "", strings.Repeat("[", 10_000)} {
		c := h.call(http.MethodPost, wire.RunsPath, nil)
		c.body, c.spoilProof = []byte(body), true
		a := h.send(c)
		assert.Equal(t, http.StatusUnauthorized, a.status)
		seen = append(seen, a.body)
	}
	for _, b := range seen[1:] {
		assert.Equal(t, string(seen[0]), string(b))
	}
}

// SPEC.md, Challenge: without a well-formed challenge there is nothing to answer to.
func TestAMissingOrMalformedChallengeGetsNoAnswer(t *testing.T) {
	h := build(t)
	for name, values := range map[string][]string{
		"none": nil, "short": {"abc"}, "padded": {strings.Repeat("A", 43) + "="}, "twice": {strings.Repeat("A", 43), strings.Repeat("A", 43)},
		"not base64url": {strings.Repeat("+", 43)},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := h.request(h.call(http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion}))
			r.Header[wire.HeaderChallenge] = values
			a := serve(h, r)
			assert.Equal(t, http.StatusBadRequest, a.status)
			assert.Equal(t, wire.CodeMalformed, a.problem(t).Code)
			assert.Empty(t, a.header.Values(wire.HeaderAnswer))
		})
	}
}

// SPEC.md, Strictness: queries and bodies of every endpoint.
func TestBadQueriesAndBodiesAreMalformedAndNameTheirField(t *testing.T) {
	h := build(t)
	h.running("run")
	runs, run := wire.RunsPath, wire.RunsPath+"/run"
	for _, c := range []struct{ method, target, field string }{
		{http.MethodGet, runs + "?since=x", "since"},
		{http.MethodGet, runs + "?since=-1", "since"},
		{http.MethodGet, runs + "?since=999999", "since"},
		{http.MethodGet, runs + "?since=0&since=0", "since"},
		{http.MethodGet, runs + "?sinc=0", "query"},
		{http.MethodGet, runs + "?since=%zz", "query"},
		{http.MethodGet, run, "attempt"},
		{http.MethodGet, run + "?attempt=0", "attempt"},
		{http.MethodGet, run + "?attempt=1.5", "attempt"},
		{http.MethodGet, run + "?attempt=99999999999999999999", "attempt"},
		{http.MethodGet, run + "?attempt=1&ifNotStarted", "query"},
		{http.MethodDelete, run + "?attempt=1&ifNotStarted=perhaps", "ifNotStarted"},
		{http.MethodPost, run + wire.RecordedSuffix, "attempt"},
		{http.MethodGet, runs + "/" + strings.Repeat("u", wire.MaxUIDBytes+1) + "?attempt=1", "uid"},
	} {
		p := h.send(h.call(c.method, c.target, nil))
		got := p.problem(t)
		assert.Equal(t, wire.CodeMalformed, got.Code, c.target)
		assert.Equal(t, c.field, got.Field, c.target)
	}
	for _, c := range []struct{ method, target string }{
		{http.MethodGet, runs}, {http.MethodGet, at("run")}, {http.MethodDelete, at("run")}, {http.MethodPost, recordOf("run")},
	} {
		withBody := h.call(c.method, c.target, map[string]any{"a": 1})
		assert.Equal(t, "body", h.send(withBody).problem(t).Field, c.target)
	}
	extra := h.call(http.MethodPost, wire.RunsPath+"?x=1", h.delivery("other", 1))
	assert.Equal(t, wire.CodeMalformed, h.send(extra).problem(t).Code)
	bootOnChallenge := h.call(http.MethodPost, wire.ChallengePath, wire.ChallengeRequest{APIVersion: wire.APIVersion})
	bootOnChallenge.boot = h.server.Boot()
	assert.Equal(t, wire.HeaderBoot, h.send(bootOnChallenge).problem(t).Field)
	assert.Equal(t, wire.StateRunning, h.state("run", 1), "none of them did anything")
}
