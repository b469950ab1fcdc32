// Package record makes how a run ended into the status that says so, in one write that the API server takes (I2; SPEC.md, Envelope;
// Lifecycle, Record). It is shared by what delivers runs and by what gives them Pods.
package record

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// maxCuts bounds how often a record is cut further; delivery.Ending.Shrink ends sooner.
const maxCuts = 4

// Put fills in everything of a status that tells of the end, but for phase and conditions.
func Put(s *hearthv1.AgentRunStatus, e delivery.Ending) {
	s.Outcome, s.Reason, s.Message, s.TerminationData = string(e.Outcome), string(e.Reason), e.Message, e.Data
	s.CompletionTime, s.RecordedAt, s.DurationSeconds = Micro(e.CompletionTime), Micro(e.RecordedAt), e.DurationSeconds
	s.Output, s.Truncation, s.Usage = nil, nil, usage(e.Usage)
	if e.Output != nil {
		s.Output = &hearthv1.Output{MediaType: e.Output.MediaType, Value: e.Output.Value}
	}
	if e.Truncation != nil {
		s.Truncation = &hearthv1.Truncation{OriginalBytes: e.Truncation.OriginalBytes, SHA256: e.Truncation.SHA256}
	}
}

// Write has a status written: write gets the ending to put in, nil for a run that lives. A record that the API server refuses as too
// large or invalid is cut further and written again, never for ever (fault row 56).
func Write(e *delivery.Ending, write func(*delivery.Ending) error) error {
	for range maxCuts {
		err := write(e)
		if err == nil || e == nil || !(apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)) {
			return err
		}
		smaller, ok := e.Shrink()
		if !ok {
			return err
		}
		e = &smaller
	}
	return errors.New("the record could not be cut to fit")
}

// Micro keeps what the API keeps, so that a status that was read back equals the one that was written; nil for no time.
func Micro(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	m := metav1.NewMicroTime(t.UTC().Truncate(time.Microsecond))
	return &m
}

func usage(u *wire.Usage) *hearthv1.Usage {
	if u == nil {
		return nil
	}
	out := &hearthv1.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens}
	if u.Cost != nil {
		out.Cost = &hearthv1.Cost{Amount: u.Cost.Amount, Currency: u.Cost.Currency}
	}
	return out
}
