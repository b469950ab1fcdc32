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

// mustVoid tells whether a delivery that was not taken has to be voided there before it may go elsewhere: every one that was
// answered. The proof does not cover Host, media type or length, so somebody on the path can forward the request, keep its 202,
// and show us a genuine refusal of a spoilt copy; or keep a copy until there is room. Only what never left needs no void.
func mustVoid(c wire.Code) bool { return c != "" }
