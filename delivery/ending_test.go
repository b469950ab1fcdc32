package delivery

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func number(n int64) *int64 { return &n }

func recordOf(t *testing.T, e wire.Envelope) Status {
	t.Helper()
	run, obs := scene(t)
	obs.sees(told(wire.StateFinished, func(a *wire.Attempt) { a.Envelope = &e; a.Session = "session-1" }))
	d := Decide(later, run, obs)
	require.Equal(t, ActionRecord, d.Action)
	return *d.Status
}

// R27, R4, I2: one status that has everything.
func TestTheTerminalStatusHasEverything(t *testing.T) {
	e := wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted, Message: "done", Output: &wire.Output{MediaType: "text/plain", Value: "all good"},
		Usage:  &wire.Usage{InputTokens: number(0), TotalTokens: number(7), Cost: &wire.Cost{Amount: "0.5", Currency: "USD"}},
		Timing: wire.Timing{StartedAt: reserved, FinishedAt: later, DurationMillis: 9999}}
	s := recordOf(t, e)
	run, _ := scene(t)
	accepted := reserved.Add(time.Second)
	assert.Equal(t, PhaseSucceeded, s.Phase)
	assert.Equal(t, Condition{True, "Completed", "done"}, s.Succeeded)
	assert.Equal(t, Condition{Status: True, Reason: ReasonAccepted}, s.Delivered)
	assert.Equal(t, &Condition{False, ReasonFinished, "the run has ended"}, s.ACPReady)
	assert.Equal(t, Progress{Reservation: run.Reservation, AcceptedAt: accepted, StartedAt: accepted, Session: "session-1"}, s.Progress)
	assert.Equal(t, &Ending{Outcome: "Succeeded", Reason: "Completed", Message: "done", Output: e.Output, Usage: e.Usage,
		CompletionTime: later, RecordedAt: later, DurationSeconds: number(9)}, s.Ending)
}

func TestOnlySucceededSucceeds(t *testing.T) {
	for outcome, want := range map[wire.Outcome]wire.Outcome{"Failed": "Failed", "Cancelled": "Cancelled", "Interrupted": "Interrupted", "Novel": "Failed", "": "Failed"} {
		s := recordOf(t, wire.Envelope{Outcome: outcome, Reason: "AgentError"})
		assert.Equal(t, PhaseFailed, s.Phase)
		assert.Equal(t, False, s.Succeeded.Status)
		assert.Equal(t, want, s.Ending.Outcome)
	}
}

// An envelope comes from a Pod: it cannot contradict itself in a record, nor use the controller's words.
func TestAnEnvelopesReasonFitsItsOutcome(t *testing.T) {
	for _, c := range []struct {
		outcome wire.Outcome
		reason  wire.Reason
		want    Reason
	}{
		{"Succeeded", "Completed", "Completed"}, {"Succeeded", "AgentCrashed", "Completed"}, {"Succeeded", "TargetLost", "Completed"},
		{"Failed", "Completed", "AgentError"}, {"Cancelled", "Completed", "AgentError"}, {"Failed", "LimitReached", "LimitReached"},
		{"Failed", "NotAdmitted", "AgentError"}, {"Failed", "TargetLost", "AgentError"}, {"Failed", "InvalidTemplate", "AgentError"},
		{"Failed", "PodFailed", "AgentError"}, {"Failed", "OutOfLuck", "OutOfLuck"},
	} {
		assert.Equal(t, c.want, NewEnding(later, wire.Envelope{Outcome: c.outcome, Reason: c.reason}).Reason, "%s/%s", c.outcome, c.reason)
	}
}

func TestTheEndThatAPodTellsIsBelievedWithinReason(t *testing.T) {
	for told, want := range map[time.Time]time.Time{
		later.Add(-time.Hour): later.Add(-time.Hour), later.Add(time.Hour): later.Add(time.Hour), later.Add(time.Hour + 1): later, later.AddDate(1000, 0, 0): later, {}: later,
	} {
		assert.Equal(t, want, NewEnding(later, wire.Envelope{Outcome: "Succeeded", Timing: wire.Timing{FinishedAt: told}}).CompletionTime)
	}
}

// Fault row 34: whatever an agent's Pod sends, the record is valid, bounded, and says what was cut.
func TestARecordIsValidAndBoundedWhateverTheEnvelopeHolds(t *testing.T) {
	whole := strings.Repeat("ü", MaxOutputBytes/2) + "x"
	s := recordOf(t, wire.Envelope{Outcome: "Failed", Reason: "not a word", Message: strings.Repeat("€", MaxMessageBytes), Session: strings.Repeat("s", 999),
		Output: &wire.Output{MediaType: strings.Repeat("m", 999), Value: whole},
		Usage:  &wire.Usage{InputTokens: number(-1), OutputTokens: number(2), Cost: &wire.Cost{Amount: "many", Currency: "USD"}}, Timing: wire.Timing{DurationMillis: -5}})
	e := s.Ending
	sum := sha256.Sum256([]byte(whole))
	assert.Equal(t, Reason("AgentError"), e.Reason)
	assert.LessOrEqual(t, len(e.Message), MaxMessageBytes)
	assert.True(t, utf8.ValidString(e.Message))
	assert.Equal(t, whole[:MaxOutputBytes], e.Output.Value)
	assert.Len(t, e.Output.MediaType, MaxMediaTypeBytes)
	assert.Equal(t, &wire.Truncation{OriginalBytes: int64(len(whole)), SHA256: base64.RawURLEncoding.EncodeToString(sum[:])}, e.Truncation)
	assert.Equal(t, &wire.Usage{OutputTokens: number(2)}, e.Usage)
	assert.Equal(t, later, e.CompletionTime, "without a finish of its own it ended when it was recorded")
	assert.Zero(t, *e.DurationSeconds)

	s = recordOf(t, wire.Envelope{Outcome: "Failed", Reason: "AgentError", Message: "a\x00\xff", Output: &wire.Output{Value: "b\x00" + strings.Repeat("ü", MaxOutputBytes)},
		Truncation: &wire.Truncation{OriginalBytes: 50 << 20, SHA256: "abc"}})
	assert.Equal(t, "a\uFFFD\uFFFD", s.Ending.Message)
	assert.True(t, utf8.ValidString(s.Ending.Output.Value))
	assert.NotContains(t, s.Ending.Output.Value, "\x00")
	assert.Equal(t, &wire.Truncation{OriginalBytes: 50 << 20, SHA256: "abc"}, s.Ending.Truncation, "the harness saw the whole")
	forged := NewEnding(time.Time{}, wire.Envelope{Truncation: &wire.Truncation{SHA256: "a\nb"}})
	assert.Empty(t, forged.Truncation.SHA256, "no digest")
}

// SPEC.md, JSON output.
func TestJSONThatARecordHadToCutIsText(t *testing.T) {
	e := Ending{Output: &wire.Output{MediaType: "application/json", Value: `"` + strings.Repeat("x", shrunkOutputBytes) + `"`}}
	e.cutOutput(shrunkOutputBytes + 2)
	assert.Equal(t, "application/json", e.Output.MediaType)
	e.cutOutput(shrunkOutputBytes)
	assert.Equal(t, "text/plain", e.Output.MediaType)
	assert.EqualValues(t, shrunkOutputBytes+2, e.Truncation.OriginalBytes)
}

// Fault row 56: cut further, said, and never for ever.
func TestARefusedRecordShrinksAndStops(t *testing.T) {
	whole := strings.Repeat("o", MaxOutputBytes)
	e := *recordOf(t, wire.Envelope{Outcome: "Succeeded", Reason: "Completed", Message: strings.Repeat("m", 4000), Output: &wire.Output{MediaType: "text/plain", Value: whole}, Usage: &wire.Usage{}}).Ending
	short, ok := e.Shrink()
	require.True(t, ok)
	assert.Len(t, short.Output.Value, shrunkOutputBytes)
	assert.Equal(t, int64(MaxOutputBytes), short.Truncation.OriginalBytes)
	assert.Len(t, short.Message, shrunkMessageBytes)
	assert.Contains(t, short.Message, "cut")
	bare, ok := short.Shrink()
	require.True(t, ok)
	assert.Nil(t, bare.Output)
	assert.Equal(t, int64(MaxOutputBytes), bare.Truncation.OriginalBytes)
	assert.Equal(t, "(the record was cut to fit)", bare.Message)
	assert.Equal(t, Reason("Completed"), bare.Reason)
	assert.Len(t, e.Output.Value, MaxOutputBytes, "a value is not changed behind its holder's back")
	_, ok = bare.Shrink()
	assert.False(t, ok)

	foreign := Ending{Reason: ReasonTargetLost, Message: "m", Data: strings.Repeat("€", 1000)}
	short, ok = foreign.Shrink()
	require.True(t, ok)
	assert.Equal(t, strings.Repeat("€", shrunkMessageBytes/3), short.Data)
	bare, ok = short.Shrink()
	require.True(t, ok)
	assert.Empty(t, bare.Data)
	_, ok = bare.Shrink()
	assert.False(t, ok)
}

func TestALossIsCountedAndItsRunningIsNotWaiting(t *testing.T) {
	run, obs := scene(t)
	run.BackoffLimit, run.Spent = 1, time.Minute
	obs.sees(told(wire.StateRunning))
	obs.PodRead = PodGone
	p := Decide(later, run, obs).Status.Progress
	assert.Equal(t, Progress{Reservation: Reservation{Attempt: 1}, Losses: 1, Spent: time.Minute + 9*time.Second, NextTime: later.Add(time.Second)}, p)
	run.BackoffLimit = 0
	s := Decide(later, run, obs).Status
	assert.Equal(t, int32(1), s.Losses)
	assert.Equal(t, run.Reservation, s.Reservation, "the record says where it was lost")
	early := noon.Add(-24 * time.Hour)
	obs.Seen.StartedAt = &early
	run.BackoffLimit = 1
	assert.Equal(t, time.Minute+10*time.Second, Decide(later, run, obs).Status.Spent, "row 37: a clock that is off cannot stretch it")
}

func TestAGiveBackIsNoLoss(t *testing.T) {
	run, obs := scene(t)
	run.Losses, run.Spent = 1, time.Minute
	obs.refused(1, wire.CodeJournalFull)
	obs.Seen, obs.SeenJournal = told(wire.StateVoided), testJournal
	s := Decide(later, run, obs).Status
	assert.Equal(t, Progress{Reservation: Reservation{Attempt: 1}, Losses: 1, Spent: time.Minute}, s.Progress)
	assert.Equal(t, Condition{False, ReasonTargetBusy, "because"}, s.Delivered)
}
