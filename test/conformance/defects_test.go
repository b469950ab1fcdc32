package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// defect is one way to be wrong, and the cases that it fails. Its functions may be nil.
type defect struct {
	name, fails string
	boots       bool                                           // shows at a start, restart or drain only
	request     func(*liar, *exchange)                         // before the real server sees the request
	mend        func(x *exchange, refusal map[string]any) bool // makes a malformed request pass; true to try it
	response    func(*liar, *exchange)                         // after the real server answered
	reply       func(http.ResponseWriter, *exchange) bool      // sends the response itself
	macStatus   int                                            // the status that every answer's MAC covers
	harness     func(*harness.Options)
	options     func(*liar, *Options)
}

func defects() []defect {
	return slices.Concat(formDefects(), authenticityDefects(), endpointDefects(), journalDefects(), secureDefects(), bootDefects())
}

// formDefects are about what a request or answer looks like.
//
//nolint:gocyclo // a table
func formDefects() []defect {
	expects := func(refusal map[string]any, what string) (pointer string, does bool) {
		detail, _ := refusal["detail"].(string)
		pointer, _ = refusal["field"].(string)
		return pointer, strings.Contains(detail, "expected "+what)
	}
	return []defect{
		{name: "speaks HTTP/1.0", fails: "W-2", reply: func(w http.ResponseWriter, x *exchange) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return false
			}
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "HTTP/1.0 %d X\r\n", x.status)
			w.Header().Set("Content-Length", fmt.Sprint(len(x.answer)))
			_ = w.Header().Write(conn)
			_, _ = fmt.Fprintf(conn, "\r\n%s", x.answer)
			return true
		}},
		{name: "closes each connection", fails: "W-4", response: func(_ *liar, x *exchange) { x.header.Set("Connection", "close") }},
		{name: "hangs up after each answer", fails: "W-4", reply: func(w http.ResponseWriter, x *exchange) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return false
			}
			defer func() { _ = conn.Close() }()
			length := ""
			if x.status != http.StatusNoContent {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(x.answer))
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\n%s", x.status, length)
			_ = w.Header().Write(conn)
			_, _ = fmt.Fprintf(conn, "\r\n%s", x.answer)
			return true
		}},
		{name: "leaves methods it does not know to its library", fails: "P-5", reply: func(w http.ResponseWriter, x *exchange) bool {
			known := slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, x.Method)
			if !known {
				w.Header().Del(wire.HeaderAnswer)
				http.Error(w, "Unsupported method", http.StatusNotImplemented)
			}
			return !known
		}},
		{name: "answers as text", fails: "W-3", response: func(_ *liar, x *exchange) {
			if x.status < http.StatusBadRequest {
				x.header.Set("Content-Type", "text/plain")
			}
		}},
		{name: "ignores unknown fields", fails: "S-1 E-29", mend: func(x *exchange, refusal map[string]any) bool {
			pointer, does := expects(refusal, "no such field")
			m := x.content()
			below, name := at(m, pointer)
			if _, is := below[name]; !does || !is || strings.ToLower(name) != name {
				return false
			}
			delete(below, name)
			x.body = encoded(m)
			return true
		}},
		{name: "takes the last of two fields", fails: "S-2", mend: func(x *exchange, refusal map[string]any) bool {
			_, does := expects(refusal, "the field once")
			x.body = encoded(x.content())
			return does
		}},
		{name: "takes fields in any case", fails: "S-3", mend: func(x *exchange, refusal map[string]any) bool {
			pointer, does := expects(refusal, "no such field")
			m := x.content()
			below, name := at(m, pointer)
			right := map[string]string{"APIVERSION": "apiVersion", "UID": "uid"}[strings.ToUpper(name)]
			if right == "" {
				right = strings.ToLower(name)
			}
			if !does || right == name {
				return false
			}
			below[right] = below[name]
			delete(below, name)
			x.body = encoded(m)
			return true
		}},
		{name: "reads the first of two values", fails: "S-4", mend: func(x *exchange, _ map[string]any) bool {
			var first json.RawMessage
			if json.NewDecoder(bytes.NewReader(x.body)).Decode(&first) != nil || bytes.Equal(first, x.body) {
				return false
			}
			x.body = first
			return true
		}},
		{name: "mends broken text", fails: "S-5", mend: func(x *exchange, _ map[string]any) bool {
			whole := bytes.ReplaceAll(bytes.ToValidUTF8(x.body, []byte("?")), []byte(`\ud800`), nil)
			changed := !bytes.Equal(whole, x.body)
			x.body = whole
			return changed
		}},
		{name: "puts something where text is missing", fails: "S-6", mend: func(x *exchange, refusal map[string]any) bool {
			pointer, does := expects(refusal, "text of 1 to")
			m := x.content()
			below, name := at(m, pointer)
			if text, _ := below[name].(string); !does || text != "" || x.Method != http.MethodPost || isRecorded(x) {
				return false
			}
			below[name] = "x"
			x.body = encoded(m)
			return true
		}},
		{name: "drops values of another type", fails: "S-7 E-16", mend: func(x *exchange, refusal map[string]any) bool {
			pointer, does := expects(refusal, "another type than")
			if !does || pointer == "/target" {
				return false
			}
			m := x.content()
			below, name := at(m, pointer)
			delete(below, name)
			if name == "attempt" {
				below[name] = 1
			}
			if name == "goal" || name == "uid" {
				below[name] = "x"
			}
			x.body = encoded(m)
			return true
		}},
		{name: "does not name the field", fails: "S-8", response: onRefusal(wire.CodeMalformed, func(x *exchange) {
			m := x.shown()
			delete(m, "field")
			x.show(m)
		})},
		{name: "reads bodies of any size", fails: "S-9 E-29", request: func(_ *liar, x *exchange) {
			if len(x.body) > wire.MaxBodyBytes {
				x.body = bytes.TrimLeft(x.body, " ")
			}
		}},
		{name: "reads any media type", fails: "S-10 E-29", request: func(_ *liar, x *exchange) {
			if len(x.body) > 0 {
				x.Header.Set("Content-Type", "application/json")
			}
		}},
		{name: "reads any version", fails: "S-11 E-29", response: onRefusal(wire.CodeUnsupportedVersion, func(x *exchange) {
			x.refuse(wire.Malformed("/apiVersion", "another"))
		})},
		{name: "repeats what was sent", fails: "S-12", response: onRefusal(wire.CodeMalformed, func(x *exchange) {
			m := x.shown()
			m["detail"] = fmt.Sprint("cannot read ", string(bytes.ToValidUTF8(x.body, nil)))
			x.show(m)
		})},
		{name: "refuses with plain JSON", fails: "P-1", response: func(_ *liar, x *exchange) {
			if x.status >= http.StatusBadRequest {
				x.header.Set("Content-Type", "application/json")
			}
		}},
		{name: "takes a limit of 1 MiB for one of less", fails: "L-1", request: func(_ *liar, x *exchange) {
			if len(x.body) == wire.MaxBodyBytes {
				x.body = padded(x.body, wire.MaxBodyBytes+1)
			}
		}},
		{name: "takes names of 63 bytes", fails: "L-3", response: refuseContent(func(m map[string]any) bool {
			run, _ := m["run"].(map[string]any)
			name, _ := run["name"].(string)
			return len(name) > 63
		})},
		{name: "takes a thousand attempts", fails: "L-4", response: refuseContent(func(m map[string]any) bool { n, _ := m["attempt"].(float64); return n > 1000 })},
		{name: "takes limits up to a day", fails: "L-5", response: refuseContent(func(m map[string]any) bool {
			limits, _ := m["limits"].(map[string]any)
			n, _ := limits["activeSeconds"].(float64)
			return n > 86_400
		})},
		{name: "knows no cost", fails: "E-3", response: refuseContent(func(m map[string]any) bool {
			limits, _ := m["limits"].(map[string]any)
			return limits["cost"] != nil
		})},
		{name: "takes any word for a session", fails: "E-16", mend: func(x *exchange, refusal map[string]any) bool {
			m := x.content()
			_, is := m["session"].(string)
			delete(m, "session")
			x.body = encoded(m)
			return is && refusal["field"] == "/session"
		}},
		{name: "ignores limits that are not positive", fails: "E-17 L-5", mend: func(x *exchange, refusal map[string]any) bool {
			pointer, _ := refusal["field"].(string)
			_, number := expects(refusal, "a number")
			_, amount := expects(refusal, "a positive")
			m := x.content()
			delete(m, "limits")
			x.body = encoded(m)
			return strings.HasPrefix(pointer, "/limits/") && (number || amount)
		}},
		{name: "ignores unknown parameters", fails: "E-27", request: func(_ *liar, x *exchange) {
			q := x.URL.Query()
			for name := range q {
				if !slices.Contains([]string{wire.QueryAttempt, wire.QuerySince, wire.QueryIfNotStarted}, name) {
					q.Del(name)
					x.URL.RawQuery = q.Encode()
				}
			}
		}},
	}
}

// onRefusal changes refusals with a code.
func onRefusal(code wire.Code, change func(*exchange)) func(*liar, *exchange) {
	return func(_ *liar, x *exchange) {
		if x.status >= http.StatusBadRequest && x.code() == code {
			change(x)
		}
	}
}

// refuseContent refuses deliveries that would have been taken.
func refuseContent(bad func(map[string]any) bool) func(*liar, *exchange) {
	return func(_ *liar, x *exchange) {
		if x.is(http.MethodPost, wire.RunsPath) && x.status < http.StatusBadRequest && bad(x.content()) {
			x.refuse(wire.Malformed("/", "less"))
		}
	}
}

// authenticityDefects are about who is speaking to whom.
//
//nolint:gocyclo // a table
func authenticityDefects() []defect {
	return []defect{
		{name: "refuses a Host with a port", fails: "I-3", response: func(_ *liar, x *exchange) {
			if strings.Contains(x.Host, ":") {
				x.refuse(wire.NewProblem(wire.CodeMisdirected, "a port"))
			}
		}},
		{name: "ignores Host", fails: "I-4 E-29", request: func(l *liar, x *exchange) { x.Host = l.house.Identity.PodName }},
		{name: "ignores the target", fails: "I-5 E-29", request: func(l *liar, x *exchange) {
			if x.proven {
				x.body = bytes.Replace(x.body, []byte(`"name":"another-pod"`), []byte(`"name":"`+l.house.Identity.PodName+`"`), 1)
				x.body = bytes.Replace(x.body, []byte(`"uid":"another-uid"`), []byte(`"uid":"`+l.house.Identity.PodUID+`"`), 1)
			}
		}},
		{name: "has the same keys in every Pod", fails: "I-6", request: func(l *liar, x *exchange) {
			keys, _ := challenge.Derive([]byte(harness.Root), "uid-of-another-pod")
			x.trusted = keys.VerifyProof(x.asked, x.Header.Get(wire.HeaderProof))
		}},
		{name: "needs no boot", fails: "C-1", request: func(l *liar, x *exchange) {
			if x.Header.Get(wire.HeaderBoot) == "" && x.URL.Path != wire.ChallengePath && x.proven {
				x.Header.Set(wire.HeaderBoot, tells(l.ask(x, http.MethodPost, wire.ChallengePath, challengeBody(l))).Boot)
			}
		}},
		{name: "a proof covers the body only", fails: "C-2", request: func(l *liar, x *exchange) {
			another := x.asked
			another.Method = http.MethodPut
			x.trusted = l.keys.VerifyProof(another, x.Header.Get(wire.HeaderProof))
		}},
		{name: "does not sign answers", fails: "C-3", response: func(_ *liar, x *exchange) { x.unsigned = x.status < http.StatusBadRequest }},
		{name: "does not sign refusals", fails: "C-4", response: func(_ *liar, x *exchange) { x.unsigned = x.status >= http.StatusBadRequest }},
		{name: "signs another status", fails: "C-3 C-4", macStatus: http.StatusOK},
		{name: "takes any challenge", fails: "C-5 E-29", request: func(l *liar, x *exchange) {
			if values := x.Header.Values(wire.HeaderChallenge); len(values) != 1 || !challenge.Valid(values[0]) {
				x.Header.Set(wire.HeaderChallenge, nonce())
				x.asked.Challenge = x.Header.Get(wire.HeaderChallenge)
			}
		}},
		{name: "needs no proof", fails: "C-6", request: func(_ *liar, x *exchange) { x.trusted = len(x.Header.Values(wire.HeaderProof)) == 0 }},
		{name: "skips the proof", fails: "C-2 C-6 C-7 I-6 E-29", request: func(_ *liar, x *exchange) { x.trusted = true }},
		{name: "looks at the body before the proof", fails: "C-7", request: func(_ *liar, x *exchange) {
			if x.is(http.MethodPost, wire.RunsPath) {
				_, p := wire.DecodeDelivery(x.body)
				x.trusted = p != nil && p.Code == wire.CodeMalformed && len(x.body) < 2
			}
		}},
		{name: "looks at the media type before the boot", fails: "E-29", request: func(l *liar, x *exchange) {
			if x.proven && x.Header.Get("Content-Type") == "text/plain" && x.Header.Get(wire.HeaderBoot) == "another-boot" {
				x.Header.Set(wire.HeaderBoot, tells(l.ask(x, http.MethodPost, wire.ChallengePath, challengeBody(l))).Boot)
			}
		}},
		{name: "says nothing of its versions", fails: "E-1", response: func(_ *liar, x *exchange) {
			if x.is(http.MethodPost, wire.ChallengePath) && x.status == http.StatusOK {
				m := x.shown()
				delete(m, "versions")
				x.show(m)
			}
		}},
		{name: "calls a cut body malformed", fails: "E-28", response: func(_ *liar, x *exchange) {
			if x.cut != nil {
				x.refuse(wire.Malformed("body", "all of it"))
			}
		}},
	}
}

func challengeBody(l *liar) []byte {
	return encoded(wire.ChallengeRequest{APIVersion: wire.APIVersion, Target: wire.Target{Name: l.house.Identity.PodName, UID: l.house.Identity.PodUID}})
}

// tells is the challenge's answer to a question of the liar's own.
func tells(x *exchange) wire.ChallengeAnswer {
	var a wire.ChallengeAnswer
	_ = wire.DecodeAnswer(x.answer, &a)
	return a
}
