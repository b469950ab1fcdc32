package server

import (
	"errors"
	"slices"
	"time"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// store journals the end of an attempt. While the journal cannot take it nobody is told: the attempt stays running in the
// feed and the write is tried again, loudly, until it works or the harness ends (then the next boot says Interrupted).
func (s *Server) store(a *attempt, envelope wire.Envelope) {
	envelope = fit(envelope)
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		s.mu.Lock()
		_, err := s.cfg.Journal.Finish(a.key, envelope)
		s.mu.Unlock()
		if err == nil {
			return
		}
		s.cfg.Log.Error("the result of an attempt cannot be stored and is not served", "run", a.key.RunUID, "attempt", a.key.Attempt, "retry", wait, "cause", err)
		if errors.Is(err, journal.ErrState) {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.life.Done():
			timer.Stop()
			return
		}
	}
}

// fit makes any envelope a valid one within the wire's limit (SPEC.md, Envelope): an output too long for it is cut, and the
// cut is recorded.
func fit(e wire.Envelope) wire.Envelope {
	e.APIVersion = wire.ResultAPIVersion
	if e.Outcome == "" || e.Reason == "" {
		e.Outcome, e.Reason = wire.OutcomeFailed, wire.ReasonAgentError
	}
	e = clean(e)
	for !fits(e) {
		if e.Output == nil || e.Output.Value == "" {
			e.Output, e.Warnings, e.StopReason, e.Session = nil, nil, "", ""
			return e
		}
		if e.Truncation == nil {
			e.Truncation = wire.WholeText(e.Output.Value)
		}
		cut := *e.Output
		cut.Value = wire.CutText(cut.Value, len(cut.Value)/2)
		e.Output = &cut
	}
	return e
}

// What an envelope's texts but its output may be long, in bytes.
const (
	maxMessage = 32 << 10
	maxWord    = 256
)

// clean makes every text of an envelope valid and all but the output short. A cost that is none is left out, as callers do.
func clean(e wire.Envelope) wire.Envelope {
	word := func(s string) string { return wire.CutText(wire.CleanText(s), maxWord) }
	e.Outcome, e.Reason, e.StopReason = wire.Outcome(word(string(e.Outcome))), wire.Reason(word(string(e.Reason))), word(e.StopReason)
	e.Message = wire.CutText(wire.CleanText(e.Message), maxMessage)
	e.Session = sessionName(e.Session)
	if e.Output != nil {
		e.Output = &wire.Output{MediaType: word(e.Output.MediaType), Value: wire.CleanText(e.Output.Value)}
	}
	e.Warnings = slices.Clone(e.Warnings)
	for i, w := range e.Warnings {
		e.Warnings[i] = wire.CleanText(w)
	}
	if e.Usage != nil && e.Usage.Cost != nil && (!e.Usage.Cost.ValidAmount() || !e.Usage.Cost.ValidCurrency()) {
		usage := *e.Usage
		usage.Cost = nil
		e.Usage = &usage
	}
	if e.Truncation != nil {
		e.Truncation = &wire.Truncation{OriginalBytes: e.Truncation.OriginalBytes, SHA256: word(e.Truncation.SHA256)}
	}
	return e
}

// sessionName makes an agent's word into a name of the wire (SPEC.md, Limits): callers refuse a state with a longer one.
func sessionName(session string) string {
	return wire.CutText(wire.CleanText(session), wire.MaxNameBytes)
}

func fits(e wire.Envelope) bool {
	b, err := wire.Encode(e)
	return err == nil && len(b) <= wire.MaxEnvelopeBytes
}

func failed(reason wire.Reason, message string, began, ended time.Time) wire.Envelope {
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeFailed, Reason: reason, Message: message,
		Timing: wire.Timing{StartedAt: began.UTC(), FinishedAt: ended.UTC(), DurationMillis: max(0, ended.Sub(began).Milliseconds())},
	}
}
