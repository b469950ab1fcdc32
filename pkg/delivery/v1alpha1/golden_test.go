package v1alpha1

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, Wire: the exact bytes of every type. UPDATE_GOLDEN=1 rewrites the files; a diff is a change of the contract.
func TestGoldens(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC)
	n := func(v int64) *int64 { return &v }
	envelope := Envelope{
		APIVersion: ResultAPIVersion, Outcome: OutcomeFailed, Reason: ReasonLimitReached, Message: "stopped at its limit",
		Output: &Output{MediaType: "text/plain", Value: "half of it"}, Usage: &Usage{InputTokens: n(0), TotalTokens: n(12), Cost: &Cost{"0.01", "USD"}},
		Timing: Timing{at, at.Add(time.Second), 1000}, StopReason: "max_tokens", Tools: Tools{2, 1}, Session: "s1",
		Truncation: &Truncation{99, "abc"}, Warnings: []string{"heuristic"},
	}
	attempt := Attempt{Run: RunRef{"team", "r", "u"}, Attempt: 2, Digest: "d", State: StateFinished, CancelRequested: true,
		AcceptedAt: &at, StartedAt: &at, FinishedAt: &at, Session: "s1", Envelope: &envelope}
	busy := NewProblem(CodeBusy, "no room")
	busy.Capacity = &Capacity{1, 1, 1, 1}
	cut := envelope
	cut.Output, cut.Truncation = &Output{MediaType: "text/plain", Value: strings.Repeat("süß \"<&>\" ", 400)}, nil
	for name, v := range map[string]any{
		"termination":       cut.Fit(MaxTerminationBytes),
		"challenge_request": ChallengeRequest{APIVersion, Target{"reviewer-1", "p1"}},
		"challenge_answer": ChallengeAnswer{APIVersion, Identity{"team", "reviewer-1", "p1"}, "b", "j", HarnessInfo{"v0"},
			AgentInfo{"goose", "1.52.0", AgentReady}, Capacity{1, 1, 0, 0}, []string{APIVersion}},
		"delivery_request": DeliveryRequest{APIVersion, RunRef{"team", "r", "u"}, 1, Target{"reviewer-1", "p1"}, "j", "süß <&>", SessionFresh,
			&Limits{n(1), n(2), n(3), &Cost{"5", "USD"}}},
		"attempt":  attempt,
		"changes":  Changes{Revision: 7, Agent: AgentInfo{State: AgentDown}, Capacity: Capacity{1, 1, 0, 0}},
		"envelope": envelope,
		"problem":  busy,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Encode(v)
			require.NoError(t, err)
			path := filepath.Join("testdata", name+".json")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.MkdirAll("testdata", 0o750))
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(path) //nolint:gosec // a file of this folder
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got)+"\n")
		})
	}
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	for code, status := range map[Code]int{
		CodeMalformed: 400, CodeUnauthenticated: 401, CodeUnknown: 404, CodeUnsupportedVersion: 406, CodeDigestMismatch: 409,
		CodeAttemptActive: 409, CodeStarted: 409, CodeVoided: 410, CodeForgotten: 410, CodeSuperseded: 410, CodeBootChanged: 412,
		CodeJournalChanged: 412, CodeTooLarge: 413, CodeUnsupportedMedia: 415, CodeMisdirected: 421, CodeBusy: 429, CodeDraining: 503,
		CodeAgentUnavailable: 503, CodeJournalFull: 507,
	} {
		assert.Equal(t, status, code.Status(), code)
		assert.NotEmpty(t, http.StatusText(code.Status()))
	}
	assert.Zero(t, Code("novel").Status())
}

func TestACapacityCountsFromNone(t *testing.T) {
	assert.True(t, Capacity{}.Valid())
	assert.True(t, Capacity{math.MaxInt32, math.MaxInt32, math.MaxInt32, math.MaxInt32}.Valid())
	for _, n := range []int{-1, math.MinInt, math.MaxInt32 + 1, math.MaxInt} {
		for _, c := range []Capacity{{Concurrency: n}, {Queue: n}, {Running: n}, {Queued: n}} {
			assert.False(t, c.Valid(), c)
		}
	}
}

func TestRoomIsNeverNegative(t *testing.T) {
	assert.Equal(t, 2, Capacity{1, 1, 0, 0}.Room())
	assert.Equal(t, 0, Capacity{1, 1, 1, 2}.Room())
}
