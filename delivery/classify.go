package delivery

import (
	"net/http"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Reply is what came of one delivery on the wire.
type Reply struct {
	// NeverLeft: dial or TLS failed before a byte of the request.
	NeverLeft bool
	// Verified: the answer's MAC was right. Without it the reply came from a stranger and its status proves nothing (R26).
	Verified bool
	Status   int
	Code     wire.Code
}

// Classify says what a reply to a delivery proves (SPEC.md, Lifecycle, Send). What it proves about an attempt depends also on
// whether an earlier send of the same attempt is still open; Decide knows that.
func Classify(r Reply) SendOutcome {
	if r.NeverLeft {
		return SendNotTaken
	}
	if !r.Verified {
		return SendUnknown
	}
	switch r.Status {
	case http.StatusOK, http.StatusAccepted:
		return SendAccepted
	case http.StatusBadRequest:
		return SendRejected
	case http.StatusUnauthorized, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return SendNotTaken
	default:
		return SendUnknown
	}
}

// mustVoid tells the refusals that are about the moment. The harness is up and will answer a void, and a void there makes
// sure that no copy of the request still under way is taken later.
func mustVoid(c wire.Code) bool {
	return c == wire.CodeBusy || c == wire.CodeDraining || c == wire.CodeAgentUnavailable
}
