package kontext

import (
	"fmt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Request is the body of POST Path. Every field is required; the run's UID is its identity.
type Request struct {
	APIVersion string      `json:"apiVersion"`
	Run        wire.RunRef `json:"run"`
	Target     wire.Target `json:"target"`
	Goal       string      `json:"goal"`
}

// Decode reads a request as strictly as the wire's own (SPEC.md, Strictness).
func Decode(body []byte) (Request, *wire.Problem) {
	var r Request
	if p := wire.DecodeStrict(body, APIVersion, &r); p != nil {
		return Request{}, p
	}
	for _, f := range []struct {
		field, value string
		limit        int
	}{
		{"/run/name", r.Run.Name, wire.MaxNameBytes},
		{"/run/namespace", r.Run.Namespace, wire.MaxNameBytes},
		{"/run/uid", r.Run.UID, wire.MaxUIDBytes},
		{"/target/name", r.Target.Name, wire.MaxNameBytes},
		{"/target/uid", r.Target.UID, wire.MaxUIDBytes},
	} {
		if f.value == "" || len(f.value) > f.limit || !visible(f.value) {
			return Request{}, wire.Malformed(f.field, fmt.Sprintf("1 to %d visible ASCII characters", f.limit))
		}
	}
	if r.Goal == "" {
		return Request{}, wire.Malformed("/goal", "text that is not empty")
	}
	return r, nil
}

// visible tells whether a text is of visible ASCII alone. The signature parts its fields with NUL bytes, so none may hold one.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
