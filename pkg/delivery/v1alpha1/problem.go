package v1alpha1

import (
	"fmt"
	"net/http"
)

// Code is the stable, machine-readable code of a refusal (SPEC.md, Codes).
type Code string

// The codes.
const (
	CodeMalformed          Code = "malformed"           // 400
	CodeUnauthenticated    Code = "unauthenticated"     // 401
	CodeUnknown            Code = "unknown"             // 404
	CodeNotFound           Code = "not_found"           // 404: no such endpoint
	CodeMethodNotAllowed   Code = "method_not_allowed"  // 405
	CodeUnsupportedVersion Code = "unsupported_version" // 406
	CodeDigestMismatch     Code = "digest_mismatch"     // 409
	CodeAttemptActive      Code = "attempt_active"      // 409
	CodeStarted            Code = "started"             // 409
	CodeVoided             Code = "voided"              // 410
	CodeForgotten          Code = "forgotten"           // 410
	CodeSuperseded         Code = "superseded"          // 410
	CodeBootChanged        Code = "boot_changed"        // 412
	CodeJournalChanged     Code = "journal_changed"     // 412
	CodeTooLarge           Code = "too_large"           // 413
	CodeUnsupportedMedia   Code = "unsupported_media"   // 415
	CodeMisdirected        Code = "misdirected"         // 421
	CodeBusy               Code = "busy"                // 429
	CodeInternal           Code = "internal"            // 500
	CodeDraining           Code = "draining"            // 503
	CodeAgentUnavailable   Code = "agent_unavailable"   // 503
	CodeJournalFull        Code = "journal_full"        // 507
)

var statusOf = map[Code]int{
	CodeMalformed:          http.StatusBadRequest,
	CodeUnauthenticated:    http.StatusUnauthorized,
	CodeUnknown:            http.StatusNotFound,
	CodeNotFound:           http.StatusNotFound,
	CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	CodeUnsupportedVersion: http.StatusNotAcceptable,
	CodeDigestMismatch:     http.StatusConflict,
	CodeAttemptActive:      http.StatusConflict,
	CodeStarted:            http.StatusConflict,
	CodeVoided:             http.StatusGone,
	CodeForgotten:          http.StatusGone,
	CodeSuperseded:         http.StatusGone,
	CodeBootChanged:        http.StatusPreconditionFailed,
	CodeJournalChanged:     http.StatusPreconditionFailed,
	CodeTooLarge:           http.StatusRequestEntityTooLarge,
	CodeUnsupportedMedia:   http.StatusUnsupportedMediaType,
	CodeMisdirected:        http.StatusMisdirectedRequest,
	CodeBusy:               http.StatusTooManyRequests,
	CodeInternal:           http.StatusInternalServerError,
	CodeDraining:           http.StatusServiceUnavailable,
	CodeAgentUnavailable:   http.StatusServiceUnavailable,
	CodeJournalFull:        http.StatusInsufficientStorage,
}

// Status is the HTTP status that goes with the code; 0 for a code this version does not know.
func (c Code) Status() int { return statusOf[c] }

// ProblemMediaType is the media type of a refusal (RFC 9457).
const ProblemMediaType = "application/problem+json"

// Problem is the body of every refusal (RFC 9457). Detail never holds a goal or a secret.
type Problem struct {
	Type   string `json:"type,omitzero"`
	Title  string `json:"title,omitzero"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitzero"`
	Code   Code   `json:"code"`
	// Field is the JSON pointer or query parameter that a malformed request got wrong.
	Field string `json:"field,omitzero"`
	// Versions are the versions served, with unsupported_version.
	Versions []string `json:"versions,omitzero"`
	// Journal is the present journal ID, with unknown and journal_changed.
	Journal string `json:"journal,omitzero"`
	// Capacity is the present capacity, with busy.
	Capacity *Capacity `json:"capacity,omitzero"`
}

// NewProblem makes a refusal with the code's own status.
func NewProblem(code Code, detail string) *Problem {
	status := code.Status()
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// Malformed makes the refusal of a bad request: which field, and what was expected.
func Malformed(field, expected string) *Problem {
	p := NewProblem(CodeMalformed, fmt.Sprintf("%s: expected %s", field, expected))
	p.Field = field
	return p
}

// Error makes a Problem usable as an error.
func (p *Problem) Error() string { return fmt.Sprintf("%s (%d): %s", p.Code, p.Status, p.Detail) }
