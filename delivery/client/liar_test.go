package client

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

func response(status int, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), headers, body)
}

func answerHeader(value string) string { return wire.HeaderAnswer + ": " + value + "\r\n" }

// Row 27, R26: a stranger at the Pod's address gets a challenge and nothing else, and is not believed whatever it answers.
func TestAStrangerIsSentNothingAndNotBelieved(t *testing.T) {
	ok := `{"apiVersion":"hearth.dev/delivery/v1alpha1","identity":{"namespace":"team","podName":"reviewer-1","podUID":"pod-1"},"boot":"b","journal":"j","versions":["hearth.dev/delivery/v1alpha1"]}`
	canary := newStranger(t, "127.0.0.1:0", func([]byte, net.Conn) {})
	for name, answer := range map[string]string{
		"200 without an answer":      response(200, "", ok),
		"200 with a wrong answer":    response(200, answerHeader(strings.Repeat("A", 43)), ok),
		"200 with an empty answer":   response(200, answerHeader(""), ok),
		"400":                        response(400, "", `{"code":"malformed","status":400}`),
		"401":                        response(401, "", `{"code":"unauthenticated","status":401}`),
		"406":                        response(406, "", `{"code":"unsupported_version","status":406}`),
		"412":                        response(412, "", `{"code":"boot_changed","status":412}`),
		"421":                        response(421, "", `{"code":"misdirected","status":421}`),
		"429":                        response(429, "Retry-After: 1\r\n", `{"code":"busy","status":429}`),
		"500":                        response(500, "", ""),
		"a redirect":                 response(307, "Location: http://"+canary.listener.Addr().String()+"/\r\n", ""),
		"not HTTP":                   "SSH-2.0-OpenSSH_9\r\n\r\n",
		"a hundred continues":        strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100),
		"a body cut short":           "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{",
		"a chunked body without end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"a trailer that is none":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nOpenSSH\x1b[31m\r\n\r\n",
		"a trailer with a bad name":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nOpen SSH OpenSSH: x\r\n\r\n",
		"a bad chunk":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nOpenSSH\r\n\r\n",
		"a huge header":              "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 4<<20) + "\r\n\r\n",
		"a huge body":                response(200, answerHeader(strings.Repeat("A", 43)), strings.Repeat("x", 4<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, "127.0.0.1:0", func(_ []byte, c net.Conn) { _, _ = io.WriteString(c, answer) })
			cfg := plainConfig(t, s.listener.Addr().String())
			cfg.Timeouts.Dial = 200 * time.Millisecond
			l := open(t, cfg)
			require.NoError(t, l.Send(Delivery{DeliveryRequest: wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: runRef("a"), Attempt: 1, Goal: secretGoal}}, 99))
			eventually(t, "tried more than once", func() bool { return s.connections() > 2 })
			require.NoError(t, l.Send(Delivery{DeliveryRequest: wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: runRef("a"), Attempt: 1, Goal: secretGoal}}, 99))
			a := idle(t, l, "a", 1)
			assert.Equal(t, delivery.SendNotTaken, a.Sent.Outcome, "no byte of it left")
			assert.Nil(t, a.Seen)
			assertDistrusted(t, l)
			assertOnlyChallenges(t, s)
		})
	}
	t.Cleanup(func() { assert.Empty(t, canary.bytes(), "a redirect was followed") })
}

func assertDistrusted(t *testing.T, l *Link) {
	t.Helper()
	s := l.Status()
	assert.Equal(t, StateUnreachable, s.State)
	assert.NotEmpty(t, s.Message)
	assert.NotContains(t, s.Message, "OpenSSH", "a stranger's words are not repeated")
	assert.True(t, s.LastContact.IsZero())
	assert.Empty(t, s.Boot)
	assert.Empty(t, s.Journal)
	assert.Zero(t, s.Capacity)
}

// assertOnlyChallenges checks every byte that a stranger got.
func assertOnlyChallenges(t *testing.T, s *stranger) {
	t.Helper()
	got := s.bytes()
	assert.NotContains(t, got, secretGoal)
	assert.NotContains(t, got, harness.Root)
	assert.NotContains(t, got, wire.RunsPath)
	assert.Equal(t, strings.Count(got, "POST "+wire.ChallengePath+" HTTP/1.1\r\n"), strings.Count(got, "HTTP/1.1\r\n"), "only challenges")
}

func TestTheMessageSaysThatNobodyThereCouldProveToBeThePod(t *testing.T) {
	s := newStranger(t, "127.0.0.1:0", func(_ []byte, c net.Conn) { _, _ = io.WriteString(c, response(200, "", "{}")) })
	l := open(t, plainConfig(t, s.listener.Addr().String()))
	eventually(t, "distrusted", func() bool { return l.Status().State == StateUnreachable })
	assert.Contains(t, l.Status().Message, "nobody there could prove to be the Pod")
}

// SPEC.md, Challenge: an answer is to one challenge, one boot and one body, and comes from one Pod.
func TestAnAnswerThatIsNotToThisRequestIsNotBelieved(t *testing.T) {
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP})
	var recorded atomic.Pointer[[]byte]
	for name, transform := range map[string]func([]byte) []byte{
		"replayed": func(now []byte) []byte {
			if first := recorded.Load(); first != nil {
				return *first
			}
			kept := bytes.Clone(now)
			recorded.Store(&kept)
			return nil
		},
		"another status": func(b []byte) []byte { return bytes.Replace(b, []byte("200 OK"), []byte("201 OK"), 1) },
		"another body":   func(b []byte) []byte { return bytes.Replace(b, []byte(`"running":0`), []byte(`"running":1`), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := relay(t, h.Address, transform)
			l := open(t, plainConfig(t, s.listener.Addr().String()))
			eventually(t, "tried more than once", func() bool { return s.connections() > 2 && l.Status().State == StateUnreachable })
			assertDistrusted(t, l)
			assertOnlyChallenges(t, s)
		})
	}
	t.Run("another Pod's harness at the address (row 23)", func(t *testing.T) {
		other := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Identity: wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-2"}})
		l := open(t, plainConfig(t, other.Address))
		eventually(t, "distrusted", func() bool { return l.Status().State == StateUnreachable })
		assertDistrusted(t, l)
	})
}

// Row 27 after a good beginning: the feed's connection still stands, and every new connection reaches a stranger. That the Pod
// was believed in a moment ago is no reason to trust the next connection.
func TestAStrangerThatTakesOverAnAddressGetsNoGoal(t *testing.T) {
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP})
	f := newFront(t, h.Address)
	l := verifiedLink(t, plainConfig(t, f.listener.Addr().String()))
	f.lie.Store(true)
	for i := range int64(4) {
		require.NoError(t, l.Send(request(l, "a", i+1, secretGoal), 0))
		a := idle(t, l, "a", i+1)
		assert.Equal(t, delivery.SendNotTaken, a.Sent.Outcome)
		assert.Nil(t, a.Seen)
	}
	eventually(t, "distrusted", func() bool { return l.Status().State == StateUnreachable })
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Contains(t, f.got.String(), wire.ChallengePath)
	assert.NotContains(t, f.got.String(), secretGoal)
	assert.NotContains(t, f.got.String(), wire.RunsPath)
	assert.Empty(t, h.Runner.Started())
}

// Row 27 in the middle of a call: on a connection that was proven, an answer that is not the target's ends all belief.
func TestAWrongAnswerOnAProvenConnectionIsANetworkFault(t *testing.T) {
	var lie atomic.Bool
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if lie.Load() && r.URL.Path != wire.ChallengePath {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"code":"malformed","status":400}`)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := verifiedLink(t, plainConfig(t, h.Address))
	lie.Store(true)
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
	a := idle(t, l, "a", 1)
	// Unknown, or not taken when the feed noticed first and closed the connection; never what the liar said.
	assert.Contains(t, []delivery.SendOutcome{delivery.SendUnknown, delivery.SendNotTaken}, a.Sent.Outcome)
	assert.Empty(t, a.Sent.Code)
	eventually(t, "distrusted", func() bool { return l.Status().State == StateUnreachable })
	lie.Store(false)
	eventually(t, "back", func() bool { return l.Status().State == StateVerified })
}

// Row 26: half-open connections. A peer that accepts and never answers costs a bounded wait, and is recovered from.
func TestAHalfOpenPeerCostsABoundedWait(t *testing.T) {
	s := newStranger(t, "127.0.0.1:0", func([]byte, net.Conn) {})
	cfg := plainConfig(t, s.listener.Addr().String())
	cfg.Timeouts.Dial = 50 * time.Millisecond
	l := open(t, cfg)
	eventually(t, "given up and tried again", func() bool { return s.connections() > 2 && l.Status().State == StateUnreachable })
	assertOnlyChallenges(t, s)
}

func TestAHarnessThatFallsSilentIsRecoveredFrom(t *testing.T) {
	var mute atomic.Bool
	over := make(chan struct{})
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if mute.Load() {
				<-over
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	cfg := plainConfig(t, h.Address)
	cfg.Timeouts.Dial, cfg.Timeouts.Call = time.Second, 2*time.Second
	l := verifiedLink(t, cfg)
	eventually(t, "a proven connection, which the send will go over", func() bool {
		_ = l.Look(runRef("a"), 1)
		return idle(t, l, "a", 1).Absent
	})
	mute.Store(true)
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
	a := idle(t, l, "a", 1)
	assert.Equal(t, delivery.SendUnknown, a.Sent.Outcome, "bytes left and no answer came")
	eventually(t, "a silent command has the target challenged at once", func() bool { return l.Status().State == StateUnreachable })
	mute.Store(false)
	close(over)
	eventually(t, "recovered", func() bool { return l.Status().State == StateVerified })
}

// Bytes of the request left and the connection broke: nobody knows, so it is Unknown, and net/http does not send it again by itself.
func TestAConnectionCutAfterTheRequestIsUnknownAndSentOnce(t *testing.T) {
	var posts atomic.Int32
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == wire.RunsPath {
				posts.Add(1)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := verifiedLink(t, plainConfig(t, h.Address))
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
	a := idle(t, l, "a", 1)
	assert.Equal(t, delivery.SendUnknown, a.Sent.Outcome)
	assert.Equal(t, int32(1), posts.Load())
}

// A state that cannot be kept is no answer to go on: the call failed, and the next one is backed off from instead of made at once.
func TestAnAnswerThatCannotBeKeptIsBackedOffFrom(t *testing.T) {
	keys := harness.Keys(t, "pod-1")
	body, err := wire.Encode(wire.Attempt{Run: runRef("a"), Attempt: 1, State: wire.StateRunning, Digest: strings.Repeat("d", wire.MaxUIDBytes+1)})
	require.NoError(t, err)
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == wire.RunsPath || r.URL.Path == wire.ChallengePath {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set(wire.HeaderAnswer, keys.Answer(signedRequest(r), http.StatusOK, body))
			_, _ = w.Write(body)
		})
	}})
	l := verifiedLink(t, plainConfig(t, h.Address))
	require.NoError(t, l.Look(runRef("a"), 1))
	a := idle(t, l, "a", 1)
	assert.Nil(t, a.Seen)
	assert.False(t, a.NotBefore.IsZero(), "a loop as fast as the network")
	assert.Equal(t, StateVerified, l.Status().State, "the target proved who it is")
}

// The target itself may refuse the challenge: that is an answer, shown with its own state and never terminal.
func TestAProvenRefusalOfTheChallengeHasItsOwnState(t *testing.T) {
	for status, want := range map[int]State{
		http.StatusUnauthorized: StateUnauthenticated, http.StatusNotAcceptable: StateIncompatible,
		http.StatusUnsupportedMediaType: StateIncompatible, http.StatusMisdirectedRequest: StateUnreachable,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s := newTruthful(t, status, `{"code":"x","detail":"no","status":1}`)
			l := open(t, plainConfig(t, s.listener.Addr().String()))
			eventually(t, "refused", func() bool { return l.Status().State == want })
			assert.Contains(t, l.Status().Message, fmt.Sprint(status))
			assertOnlyChallenges(t, s)
		})
	}
	t.Run("no version in common", func(t *testing.T) {
		s := newTruthful(t, 200, `{"identity":{"namespace":"team","podName":"reviewer-1","podUID":"pod-1"},"boot":"b","journal":"j","versions":["v9"]}`)
		l := open(t, plainConfig(t, s.listener.Addr().String()))
		eventually(t, "incompatible", func() bool { return l.Status().State == StateIncompatible })
		assertOnlyChallenges(t, s)
	})
}

// newTruthful has the Pod's keys and signs one canned response.
func newTruthful(t *testing.T, status int, body string) *stranger {
	t.Helper()
	keys := harness.Keys(t, "pod-1")
	return newStranger(t, "127.0.0.1:0", func(got []byte, c net.Conn) {
		req, err := http.ReadRequest(newReader(got))
		if err != nil {
			return
		}
		signed := signedRequest(req)
		_, _ = io.WriteString(c, response(status, answerHeader(keys.Answer(signed, status, []byte(body))), body))
	})
}
