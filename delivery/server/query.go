package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// query is a request's query, read as strictly as a body: no unknown and no repeated parameters.
func query(r *http.Request, known ...string) (map[string]string, *wire.Problem) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wire.Malformed("query", "parameters in URL encoding")
	}
	out := map[string]string{}
	for _, name := range known {
		if given := values[name]; len(given) > 1 {
			return nil, wire.Malformed(name, "the parameter once")
		} else if len(given) == 1 {
			out[name] = given[0]
		}
		delete(values, name)
	}
	if len(values) > 0 {
		return nil, wire.Malformed("query", "only the parameters "+strings.Join(known, ", "))
	}
	return out, nil
}

// attemptKey reads which attempt a request is about, and the rest of its query.
func attemptKey(r *http.Request, more ...string) (journal.Key, map[string]string, *wire.Problem) {
	uid, err := url.PathUnescape(chi.URLParam(r, "uid"))
	// What is no text would be journalled as another one, and a journal that contradicts itself counts as damaged.
	if err != nil || uid == "" || len(uid) > wire.MaxUIDBytes || !utf8.ValidString(uid) {
		return journal.Key{}, nil, wire.Malformed("uid", fmt.Sprintf("text of 1 to %d bytes in the path", wire.MaxUIDBytes))
	}
	q, p := query(r, append(more, wire.QueryAttempt)...)
	if p != nil {
		return journal.Key{}, nil, p
	}
	n, err := strconv.ParseInt(q[wire.QueryAttempt], 10, 64)
	if err != nil || n < 1 || n > wire.MaxAttempt {
		return journal.Key{}, nil, wire.Malformed(wire.QueryAttempt, fmt.Sprintf("a number from 1 to %d", wire.MaxAttempt))
	}
	return journal.Key{RunUID: uid, Attempt: n}, q, nil
}

// preferredWait reads Prefer: wait=N (RFC 7240), capped. What cannot be read is ignored, as that RFC wants it.
func preferredWait(r *http.Request) time.Duration {
	for _, header := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			token, _, _ := strings.Cut(preference, ";")
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return time.Duration(min(n, wire.MaxWaitSeconds)) * time.Second
		}
	}
	return 0
}
