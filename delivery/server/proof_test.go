package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// malformed are requests to every endpoint, and to none, that a caller with a proof is told to be wrong for another reason.
var malformed = []struct {
	method, target, body string
	proven               int // the status with a valid proof
}{
	{http.MethodPost, wire.ChallengePath, "{", 400},
	{http.MethodPost, wire.RunsPath, `{"goal":`, 400},
	{http.MethodPost, wire.RunsPath + "?x=1", "\xff\xfe", 400},
	{http.MethodGet, wire.RunsPath + "?since=x", "", 400},
	{http.MethodGet, at("run") + "&x=1", "", 400},
	{http.MethodDelete, at("run") + "&ifNotStarted=perhaps", "", 400},
	{http.MethodPost, recordOf("run") + "0000000000000", "", 400},
	{http.MethodGet, wire.BasePath + "/nothing", "", 404},
	{http.MethodPut, wire.RunsPath, "{", 405},
}

// otherwise are proofs that do not belong to the request: each covers something else.
func otherwise(t *testing.T, right challenge.Keys) map[string]func(challenge.Request) []string {
	t.Helper()
	derive := func(root, pod string) challenge.Keys {
		keys, err := challenge.Derive([]byte(strings.Repeat(root, challenge.Length)), pod)
		require.NoError(t, err)
		return keys
	}
	edit := func(keys challenge.Keys, change func(*challenge.Request)) func(challenge.Request) []string {
		return func(r challenge.Request) []string {
			change(&r)
			return []string{keys.Proof(r)}
		}
	}
	path := func(target string) (string, string) {
		u, err := url.Parse(target)
		require.NoError(t, err)
		return u.Path, u.RawQuery
	}
	return map[string]func(challenge.Request) []string{
		"none":                     func(challenge.Request) []string { return nil },
		"an empty one":             func(challenge.Request) []string { return []string{""} },
		"two, one of them right":   func(r challenge.Request) []string { return []string{right.Proof(r), "x"} },
		"two right ones":           func(r challenge.Request) []string { return []string{right.Proof(r), right.Proof(r)} },
		"cut by a character":       func(r challenge.Request) []string { return []string{right.Proof(r)[:42]} },
		"padded":                   func(r challenge.Request) []string { return []string{right.Proof(r) + "="} },
		"in another case":          func(r challenge.Request) []string { return []string{strings.ToLower(right.Proof(r))} },
		"the answer in its place":  func(r challenge.Request) []string { return []string{right.Answer(r, 200, r.Body)} },
		"of another method":        edit(right, func(r *challenge.Request) { r.Method = http.MethodPatch }),
		"of another path":          edit(right, func(r *challenge.Request) { _, q := path(r.Target); r.Target = wire.RunsPath + "/other?" + q }),
		"of another query":         edit(right, func(r *challenge.Request) { p, _ := path(r.Target); r.Target = p + "?attempt=2" }),
		"of another body":          edit(right, func(r *challenge.Request) { r.Body = append([]byte(" "), r.Body...) }),
		"of another boot":          edit(right, func(r *challenge.Request) { r.Boot += "x" }),
		"of another challenge":     edit(right, func(r *challenge.Request) { r.Challenge = strings.Repeat("A", challenge.Length) }),
		"of another Pod's name":    edit(right, func(r *challenge.Request) { r.PodName = "reviewer-2" }),
		"of another Pod's UID":     edit(right, func(r *challenge.Request) { r.PodUID = "pod-uid-2" }),
		"by another Pod's key":     edit(derive("k", "pod-uid-2"), func(*challenge.Request) {}),
		"by another root's key":    edit(derive("l", testIdentity.PodUID), func(*challenge.Request) {}),
		"by another Pod's, as its": edit(derive("k", "pod-uid-2"), func(r *challenge.Request) { r.PodUID = "pod-uid-2" }),
	}
}

// R26; SPEC.md, Challenge and order of checks: on every endpoint, and where there is none, who has no proof of this very request
// is told 401 and nothing else, however malformed the rest is; nothing happens.
func TestWithoutAProofOfThisRequestEveryEndpointSaysTheSame(t *testing.T) {
	h := build(t)
	h.running("run")
	revision := h.journal.Revision()
	said := map[string]bool{}
	for _, m := range malformed {
		c := h.call(m.method, m.target, nil)
		c.body, c.media = []byte(m.body), jsonMediaType
		assert.Equal(t, m.proven, h.send(c).status, "%s %s with a proof", m.method, m.target)
		for name, proofs := range otherwise(t, h.keys) {
			c := h.call(m.method, m.target, nil)
			c.body, c.media = []byte(m.body), jsonMediaType
			r, asked := h.request(c)
			r.Header[wire.HeaderProof] = proofs(asked)
			a := serve(h, r)
			assert.Equal(t, http.StatusUnauthorized, a.status, "%s %s, proof %s", m.method, m.target, name)
			assert.True(t, h.keys.VerifyAnswer(asked, a.status, a.body, a.header.Get(wire.HeaderAnswer)), "the harness proves itself all the same")
			said[string(a.body)] = true
		}
	}
	assert.Len(t, said, 1, "a stranger cannot tell one refusal from another")
	assert.Equal(t, revision, h.journal.Revision())
	assert.Len(t, h.actor.work(), 1)
	assert.Equal(t, wire.StateRunning, h.state("run", 1))
}
