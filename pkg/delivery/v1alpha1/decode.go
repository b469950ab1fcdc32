package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Strict decoding refuses unknown, duplicate or differently-cased fields, trailing data and invalid UTF-8, and names the
// field (R24; SPEC.md, Strictness). Answers are read with DecodeAnswer, which ignores unknown fields so that the contract can grow.

// DecodeChallenge reads the body of POST ChallengePath.
func DecodeChallenge(body []byte) (ChallengeRequest, *Problem) {
	var r ChallengeRequest
	if p := DecodeStrict(body, APIVersion, &r); p != nil {
		return ChallengeRequest{}, p
	}
	if p := checkTarget(r.Target); p != nil {
		return ChallengeRequest{}, p
	}
	return r, nil
}

// DecodeDelivery reads the body of POST RunsPath.
func DecodeDelivery(body []byte) (DeliveryRequest, *Problem) {
	var r DeliveryRequest
	if p := DecodeStrict(body, APIVersion, &r); p != nil {
		return DeliveryRequest{}, p
	}
	if p := r.check(); p != nil {
		return DeliveryRequest{}, p
	}
	return r, nil
}

// DecodeAnswer reads an answer leniently: unknown fields are ignored.
func DecodeAnswer(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode answer: %w", withoutValue(err))
	}
	return nil
}

// Encode writes a request or an answer. Text that is not valid UTF-8 is written with U+FFFD in place of the bad bytes.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", withoutValue(err))
	}
	return b, nil
}

// DecodeStrict reads a request of a version, of this contract or of another that is as strict, into a struct with a field
// apiVersion. That field is looked at before anything else, so that a caller of another version is told so, and not that its
// newer fields are unknown (SPEC.md, order of checks: version, then decoding). What the fields hold is the caller's to check.
func DecodeStrict(body []byte, version string, into any) *Problem {
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(body, &head); err == nil && head.APIVersion != "" && head.APIVersion != version {
		p := NewProblem(CodeUnsupportedVersion, "apiVersion: expected "+version)
		p.Versions = []string{version}
		return p
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return malformedJSON(err)
	}
	if head.APIVersion == "" {
		return Malformed("/apiVersion", version)
	}
	return nil
}

// malformedJSON tells where and what, never the value: it may be part of a goal.
func malformedJSON(err error) *Problem {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return Malformed(pointer(semantic.JSONPointer), "no such field")
	case errors.As(err, &semantic):
		return Malformed(pointer(semantic.JSONPointer), fmt.Sprintf("another type than %s", semantic.JSONKind))
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return Malformed(pointer(syntactic.JSONPointer), "the field once")
	case errors.As(err, &syntactic):
		return Malformed(pointer(syntactic.JSONPointer), "one valid JSON object in UTF-8 and nothing after it")
	default:
		return Malformed("body", "one valid JSON object")
	}
}

// withoutValue drops the offending value, which may be part of a goal, from a decoding error.
func withoutValue(err error) error {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		return fmt.Errorf("%s: unexpected %s", pointer(semantic.JSONPointer), semantic.JSONKind)
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return fmt.Errorf("%s: invalid JSON at byte %d", pointer(syntactic.JSONPointer), syntactic.ByteOffset)
	}
	return errors.New("invalid JSON")
}

const maxPointer = 128

func pointer(p jsontext.Pointer) string {
	switch {
	case p == "":
		return "body"
	case len(p) > maxPointer:
		return string(p[:maxPointer]) + "…"
	default:
		return string(p)
	}
}

var (
	amountPattern   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,9})?$`) })
	currencyPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]{3}$`) })
)

// ValidAmount: the amount is a decimal number as text, of at most 15 and 9 digits.
func (c Cost) ValidAmount() bool { return amountPattern().MatchString(c.Amount) }

// ValidCurrency: the currency looks like an ISO 4217 code.
func (c Cost) ValidCurrency() bool { return currencyPattern().MatchString(c.Currency) }

func (r DeliveryRequest) check() *Problem {
	for _, f := range []struct {
		field, value string
		limit        int
	}{
		{"/run/namespace", r.Run.Namespace, MaxNameBytes},
		{"/run/name", r.Run.Name, MaxNameBytes},
		{"/run/uid", r.Run.UID, MaxUIDBytes},
		{"/journal", r.Journal, MaxUIDBytes},
		{"/goal", r.Goal, MaxBodyBytes},
	} {
		if p := checkText(f.field, f.value, f.limit); p != nil {
			return p
		}
	}
	if p := checkTarget(r.Target); p != nil {
		return p
	}
	if r.Attempt < 1 || r.Attempt > MaxAttempt {
		return Malformed("/attempt", fmt.Sprintf("a number from 1 to %d", MaxAttempt))
	}
	switch r.Session {
	case "", SessionFresh, SessionStanding:
	default:
		return Malformed("/session", "fresh or standing")
	}
	return r.Limits.check()
}

func (l *Limits) check() *Problem {
	if l == nil {
		return nil
	}
	for _, f := range []struct {
		field string
		value *int64
		limit int64
	}{
		{"/limits/startWithinSeconds", l.StartWithinSeconds, MaxSeconds},
		{"/limits/activeSeconds", l.ActiveSeconds, MaxSeconds},
		{"/limits/tokens", l.Tokens, 1 << 53},
	} {
		if f.value != nil && (*f.value < 1 || *f.value > f.limit) {
			return Malformed(f.field, fmt.Sprintf("a number from 1 to %d", f.limit))
		}
	}
	if l.Cost == nil {
		return nil
	}
	if !l.Cost.ValidAmount() || !strings.ContainsAny(l.Cost.Amount, "123456789") {
		return Malformed("/limits/cost/amount", "a positive decimal number as text")
	}
	if !l.Cost.ValidCurrency() {
		return Malformed("/limits/cost/currency", "three capital letters (ISO 4217)")
	}
	return nil
}

func checkTarget(t Target) *Problem {
	if p := checkText("/target/name", t.Name, MaxNameBytes); p != nil {
		return p
	}
	return checkText("/target/uid", t.UID, MaxUIDBytes)
}

func checkText(field, value string, limit int) *Problem {
	if value == "" || len(value) > limit {
		return Malformed(field, fmt.Sprintf("text of 1 to %d bytes", limit))
	}
	return nil
}
