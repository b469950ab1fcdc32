package v1alpha1

import (
	"errors"
	"fmt"
)

// MaxTerminationBytes bounds a termination message: kubelet keeps no more of one (R11; SPEC.md, Limits).
const MaxTerminationBytes = 4096

// MinTerminationBytes is how little of a termination message an envelope without texts fits into (SPEC.md, Limits).
const MinTerminationBytes = 1024

// EncodeTermination is an envelope as a one-shot harness leaves it as its container's termination message: always valid JSON of
// at most MaxTerminationBytes, cut as Fit says. It never fails, and the same envelope is always the same bytes.
func EncodeTermination(e Envelope) []byte { return EncodeTerminationWithin(e, MaxTerminationBytes) }

// EncodeTerminationWithin is EncodeTermination where kubelet keeps less: it shares 12 KiB among a Pod's containers. A limit is taken
// for one from MinTerminationBytes to MaxTerminationBytes.
func EncodeTerminationWithin(e Envelope, limit int) []byte {
	return mustEncode(e.Fit(min(max(limit, MinTerminationBytes), MaxTerminationBytes)))
}

// DecodeTermination reads what a container left as its termination message. The error says that it is no envelope of this
// version with an outcome and a reason, which is what a foreign image leaves; unknown fields are ignored. What was read is tidy,
// but it is the Pod's word: whoever runs in the container could have written it (SPEC.md, Trust).
func DecodeTermination(message []byte) (Envelope, error) {
	if len(message) > MaxTerminationBytes {
		return Envelope{}, fmt.Errorf("termination message: expected at most %d bytes, got %d", MaxTerminationBytes, len(message))
	}
	var e Envelope
	if err := DecodeAnswer(message, &e); err != nil {
		return Envelope{}, fmt.Errorf("termination message: %w", err)
	}
	if e.APIVersion != ResultAPIVersion {
		return Envelope{}, errors.New("termination message: /apiVersion: expected " + ResultAPIVersion)
	}
	switch e.Outcome {
	case OutcomeSucceeded, OutcomeFailed, OutcomeCancelled, OutcomeInterrupted:
	default:
		return Envelope{}, errors.New("termination message: /outcome: expected one of this version")
	}
	if e.Reason == "" {
		return Envelope{}, errors.New("termination message: /reason: expected a word")
	}
	return e.Tidy(), nil
}
