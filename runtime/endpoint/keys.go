package endpoint

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/hearthdev/hearth/runtime/attach"
)

// Keys open the endpoint to people (R50, R53). An empty one opens nothing.
type Keys struct {
	View, Steer string
	OlderSteer  string // as good as Steer; from the environment of an older platform
}

// HeaderKey is the header that goose's own server reads its key from; Authorization: Bearer and ?token= do as well.
const HeaderKey = "X-Secret-Key"

// access is that of the first key that a request presents. It takes as long for a wrong key as for a right one.
func (k Keys) access(r *http.Request) attach.Access {
	presented := presented(r)
	steer, older := same(k.Steer, presented), same(k.OlderSteer, presented)
	switch {
	case steer || older:
		return attach.Steer
	case same(k.View, presented):
		return attach.View
	default:
		return attach.None
	}
}

func presented(r *http.Request) string {
	if key := r.Header.Get(HeaderKey); key != "" {
		return key
	}
	if scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && key != "" {
		return key
	}
	return r.URL.Query().Get("token")
}

// same compares digests, so that not even the length of a key shows.
func same(key, presented string) bool {
	a, b := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && key != ""
}

// foreign tells whether a browser sent the request on behalf of another site (RFC 6454). No Origin: no browser.
func foreign(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return false
	}
	origin, err := url.Parse(values[0])
	return len(values) > 1 || err != nil || origin.Host == "" || !strings.EqualFold(origin.Host, r.Host)
}
