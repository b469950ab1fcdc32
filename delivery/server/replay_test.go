package server

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// capture is a genuine request, byte for byte as it went over the wire.
func (h *house) capture(c call) []byte {
	h.t.Helper()
	r, _ := h.request(c)
	var raw bytes.Buffer
	require.NoError(h.t, r.Write(&raw))
	return raw.Bytes()
}

// replay sends captured bytes again, over a connection of somebody who has nothing else, and asserts that they had no effect.
func (h *house) replay(address string, raw []byte, status int, code wire.Code) {
	h.t.Helper()
	revision, started := h.journal.Revision(), len(h.actor.work())
	conn := h.dial(address)
	defer func() { _ = conn.Close() }()
	_, err := conn.Write(raw)
	require.NoError(h.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(h.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	require.NoError(h.t, response.Body.Close())
	what, _, _ := strings.Cut(string(raw), "\r\n")
	assert.Equal(h.t, status, response.StatusCode, "%s: %s", what, body)
	if code != "" {
		assert.Equal(h.t, code, answer{status: status, header: response.Header, body: body}.problem(h.t).Code, what)
	}
	assert.Equal(h.t, revision, h.journal.Revision(), what)
	assert.Len(h.t, h.actor.work(), started, what)
}

// R26, I7; SPEC.md, Challenge: no clock and no memory of challenges, so a captured request may be sent again as it is. It has no
// effect while the attempt runs, once it ended, once it was recorded, in the next boot, nor at another Pod with the same root.
func TestAReplayedRequestHasNoEffect(t *testing.T) {
	h := build(t, func(c *Config) { c.Scheme = wire.SchemeHTTP })
	address := h.listen()
	post := h.capture(h.call(http.MethodPost, wire.RunsPath, h.delivery("run", 1)))
	h.first(address, post, http.StatusAccepted)
	require.Equal(t, "run", <-h.actor.began)
	look := h.capture(h.call(http.MethodGet, at("run"), nil))
	h.replay(address, post, http.StatusOK, "")
	h.replay(address, look, http.StatusOK, "")

	h.actor.finish("run", "done")
	h.untilState("run", wire.StateFinished)
	h.replay(address, post, http.StatusOK, "")
	cancel := h.capture(h.call(http.MethodDelete, at("run"), nil))
	h.replay(address, cancel, http.StatusOK, "")

	record := h.capture(h.call(http.MethodPost, recordOf("run"), nil))
	h.first(address, record, http.StatusNoContent)
	h.replay(address, record, http.StatusNoContent, "")
	h.replay(address, post, http.StatusOK, "")

	// The next attempt of the same run is not touched by what was said about the first.
	require.Equal(t, http.StatusAccepted, h.deliver(h.delivery("run", 2)).status)
	require.Equal(t, "run", <-h.actor.began)
	h.replay(address, cancel, http.StatusOK, "")
	h.replay(address, post, http.StatusOK, "")
	assert.Equal(t, wire.StateRunning, h.state("run", 2))
	h.actor.finish("run", "done")
	h.until(func() bool { return h.state("run", 2) == wire.StateFinished })

	// What was voided stays so.
	void := h.capture(h.call(http.MethodDelete, at("voided"), nil))
	later := h.capture(h.call(http.MethodPost, wire.RunsPath, h.delivery("voided", 1)))
	h.first(address, void, http.StatusOK)
	h.replay(address, later, http.StatusGone, wire.CodeVoided)
	h.replay(address, void, http.StatusOK, "")

	former := [][]byte{post, look, cancel, record, later, void}
	h.crash()
	address = h.listen()
	for _, raw := range former {
		h.replay(address, raw, http.StatusPreconditionFailed, wire.CodeBootChanged)
	}
	assert.Equal(t, wire.StateVoided, h.state("voided", 1))
}

// first sends captured bytes for the first time: they do have their effect.
func (h *house) first(address string, raw []byte, status int) {
	h.t.Helper()
	conn := h.dial(address)
	defer func() { _ = conn.Close() }()
	_, err := conn.Write(raw)
	require.NoError(h.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(h.t, err)
	require.NoError(h.t, response.Body.Close())
	require.Equal(h.t, status, response.StatusCode)
}

// A captured challenge tells whoever sends it again what it told the first time, and changes nothing.
func TestAReplayedChallengeChangesNothing(t *testing.T) {
	h := build(t, func(c *Config) { c.Scheme = wire.SchemeHTTP })
	ask := wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}}
	raw := h.capture(h.call(http.MethodPost, wire.ChallengePath, ask))
	h.replay(h.listen(), raw, http.StatusOK, "")
	h.crash()
	h.replay(h.listen(), raw, http.StatusOK, "")
}

// The Pod that takes the place of another has another UID, so other keys, though root secret, name and address are the same.
func TestARequestToOnePodIsNothingToAnother(t *testing.T) {
	h := build(t, func(c *Config) { c.Scheme = wire.SchemeHTTP })
	ask := wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: testIdentity.PodName, UID: testIdentity.PodUID}}
	for _, c := range []call{
		h.call(http.MethodPost, wire.ChallengePath, ask), h.call(http.MethodPost, wire.RunsPath, h.delivery("run", 1)),
		h.call(http.MethodGet, wire.RunsPath, nil), h.call(http.MethodDelete, at("run"), nil), h.call(http.MethodPost, recordOf("run"), nil),
	} {
		raw := h.capture(c)
		other := build(t, func(c *Config) {
			keys, err := challenge.Derive([]byte(strings.Repeat("k", challenge.Length)), "pod-uid-2")
			require.NoError(t, err)
			c.Scheme, c.Keys, c.Identity.PodUID = wire.SchemeHTTP, keys, "pod-uid-2"
		})
		other.replay(other.listen(), raw, http.StatusUnauthorized, wire.CodeUnauthenticated)
		_, err := other.journal.Get(journal.Key{RunUID: "run", Attempt: 1})
		assert.ErrorIs(t, err, journal.ErrUnknown)
	}
}
