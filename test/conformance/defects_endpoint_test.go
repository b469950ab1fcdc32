package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// onState changes a state that is shown: by a GET, a DELETE or the answer to a delivery.
func onState(change func(l *liar, x *exchange, m map[string]any)) func(*liar, *exchange) {
	return func(l *liar, x *exchange) {
		if x.status < http.StatusBadRequest && strings.HasPrefix(x.URL.Path, wire.RunsPath) && len(x.answer) > 0 {
			if m := x.shown(); m["state"] != nil {
				change(l, x, m)
				x.show(m)
			}
		}
	}
}

// onEnvelope changes the envelopes that are shown.
func onEnvelope(change func(l *liar, e map[string]any)) func(*liar, *exchange) {
	return onState(func(l *liar, _ *exchange, m map[string]any) {
		if e, ok := m["envelope"].(map[string]any); ok {
			change(l, e)
		}
	})
}

// onPage changes the feed.
func onPage(change func(l *liar, page map[string]any)) func(*liar, *exchange) {
	return func(l *liar, x *exchange) {
		if x.is(http.MethodGet, wire.RunsPath) && x.status == http.StatusOK {
			m := x.shown()
			change(l, m)
			x.show(m)
		}
	}
}

func isDelete(x *exchange) bool { return x.Method == http.MethodDelete }

func isRecorded(x *exchange) bool { return strings.HasSuffix(x.URL.Path, wire.RecordedSuffix) }

// endpointDefects are about what a call means.
//
//nolint:gocyclo // a table
func endpointDefects() []defect {
	return []defect{
		{name: "ignores since", fails: "E-4 E-5 E-21", request: func(_ *liar, x *exchange) {
			if n, err := strconv.ParseInt(x.URL.Query().Get(wire.QuerySince), 10, 64); err == nil && n > 0 {
				x.URL.RawQuery = wire.QuerySince + "=0"
			}
		}},
		{name: "looks, and then acts", fails: "P-3", request: func(l *liar, x *exchange) {
			if x.is(http.MethodPost, wire.RunsPath) {
				l.mu.Lock()
				l.memory["inside"] += "."
				l.mu.Unlock()
				time.Sleep(100 * time.Millisecond) // whoever comes now finds nothing, too
			}
		}, response: func(l *liar, x *exchange) {
			if !x.is(http.MethodPost, wire.RunsPath) {
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.memory["inside"]) > 1 && x.status == http.StatusOK {
				x.status = http.StatusAccepted
			}
			l.memory["inside"] = l.memory["inside"][1:]
		}},
		{name: "does not hold the feed", fails: "E-5", request: func(_ *liar, x *exchange) {
			if x.is(http.MethodGet, wire.RunsPath) {
				x.Header.Del("Prefer")
			}
		}},
		{name: "holds the feed whatever changes", fails: "E-5", response: func(_ *liar, x *exchange) {
			if x.Header.Get("Prefer") == fmt.Sprint("wait=", longWait) {
				select {
				case <-time.After((longWait - 1) * time.Second):
				case <-x.Context().Done():
				}
			}
		}},
		{name: "puts envelopes into the feed", fails: "E-6", response: onPage(func(_ *liar, page map[string]any) {
			for _, run := range page["runs"].([]any) {
				run.(map[string]any)["envelope"] = map[string]any{}
			}
		})},
		{name: "leaves voided attempts out of the feed", fails: "E-20", response: onPage(func(_ *liar, page map[string]any) {
			kept := []any{}
			for _, run := range page["runs"].([]any) {
				if run.(map[string]any)["state"] != string(wire.StateVoided) {
					kept = append(kept, run)
				}
			}
			page["runs"] = kept
		})},
		{name: "shows no envelopes", fails: "E-7 E-10 E-18 E-26 P-3 V-1 V-2 H-1 H-2", response: onState(func(_ *liar, _ *exchange, m map[string]any) { delete(m, "envelope") })},
		{name: "does not tell its journal with 404", fails: "E-8", response: onRefusal(wire.CodeUnknown, func(x *exchange) {
			m := x.shown()
			delete(m, "journal")
			x.show(m)
		})},
		{name: "says 200 while it stops", fails: "E-9 E-14 A-1", response: func(_ *liar, x *exchange) {
			if isDelete(x) && x.status == http.StatusAccepted {
				x.status = http.StatusOK
			}
		}},
		{name: "does not stop", fails: "E-9 H-2", request: func(l *liar, x *exchange) {
			if isDelete(x) && x.URL.Query().Get(wire.QueryIfNotStarted) == "" && l.ask(x, http.MethodGet, x.URL.RequestURI(), nil).shown()["state"] == "running" {
				x.Method = http.MethodGet
			}
		}, response: func(_ *liar, x *exchange) {
			if x.asked.Method == http.MethodDelete && x.status == http.StatusOK && x.shown()["state"] == "running" {
				x.status = http.StatusAccepted
			}
		}},
		{name: "refuses to cancel what ended", fails: "E-10 E-14", response: func(_ *liar, x *exchange) {
			if isDelete(x) && x.status == http.StatusOK && x.shown()["state"] == "finished" {
				x.refuse(wire.NewProblem(wire.CodeForgotten, ""))
			}
		}},
		{name: "does not void what waits", fails: "E-11 E-25", request: func(l *liar, x *exchange) {
			if isDelete(x) && l.ask(x, http.MethodGet, x.URL.RequestURI(), nil).shown()["state"] == "accepted" {
				x.Method = http.MethodGet
			}
		}},
		{name: "does not void what it never saw", fails: "E-12 E-13 E-14 E-20 E-30", request: func(l *liar, x *exchange) {
			if isDelete(x) && x.URL.Path != wire.RunsPath && l.ask(x, http.MethodGet, wire.RunsPath+"/"+x.run()+"?attempt="+x.URL.Query().Get("attempt"), nil).status == http.StatusNotFound {
				x.Method = http.MethodGet
				x.URL.RawQuery = "attempt=" + x.URL.Query().Get("attempt")
			}
		}},
		{name: "ignores ifNotStarted", fails: "E-13", request: func(_ *liar, x *exchange) {
			if isDelete(x) {
				x.URL.RawQuery = strings.ReplaceAll(x.URL.RawQuery, "&ifNotStarted=true", "")
			}
		}},
		{name: "cancels once only", fails: "E-14", response: func(l *liar, x *exchange) {
			if isDelete(x) && x.status < http.StatusBadRequest {
				if l.recall(x.URL.Path) != "" {
					x.refuse(wire.NewProblem(wire.CodeVoided, ""))
				}
				l.remember(x.URL.Path, "cancelled")
			}
		}},
		{name: "answers recorded with 200", fails: "E-15 E-20 E-26 C-8", response: func(_ *liar, x *exchange) {
			if isRecorded(x) && x.status == http.StatusNoContent {
				x.status, x.answer = http.StatusOK, []byte("{}")
			}
		}},
		{name: "does not wait for the end", fails: "E-18", request: func(_ *liar, x *exchange) {
			if x.is(http.MethodPost, wire.RunsPath) {
				x.Header.Del("Prefer")
			}
		}},
		{name: "always waits for the end", fails: "E-19", request: func(_ *liar, x *exchange) {
			if x.is(http.MethodPost, wire.RunsPath) && x.Header.Get("Prefer") != "" {
				x.Header.Set("Prefer", "wait=30")
			}
		}},
		{name: "takes a revision of the future", fails: "E-21", request: func(_ *liar, x *exchange) {
			if n, err := strconv.ParseInt(x.URL.Query().Get(wire.QuerySince), 10, 64); err == nil && n > 500_000 {
				x.URL.RawQuery = wire.QuerySince + "=0"
			}
		}},
		{name: "records what is alive", fails: "E-22", response: func(_ *liar, x *exchange) {
			if isRecorded(x) && x.code() == wire.CodeAttemptActive {
				x.status, x.answer = http.StatusNoContent, nil
			}
		}},
		{name: "does not name the attempt in Location", fails: "P-2", response: func(_ *liar, x *exchange) { x.header.Del("Location") }},
		{name: "knows one 404 only", fails: "P-4", response: onRefusal(wire.CodeNotFound, func(x *exchange) { x.refuse(wire.NewProblem(wire.CodeUnknown, "")) })},
		{name: "knows no 405", fails: "P-5", response: onRefusal(wire.CodeMethodNotAllowed, func(x *exchange) { x.refuse(wire.NewProblem(wire.CodeNotFound, "")) })},
		{name: "does not say when to come again", fails: "P-9", response: onRefusal(wire.CodeBusy, func(x *exchange) { x.header.Del("Retry-After") })},
		{name: "has another digest", fails: "D-1", response: onState(func(_ *liar, _ *exchange, m map[string]any) { m["digest"] = "another" })},
		{name: "does not say when it started", fails: "A-1", response: onState(func(_ *liar, _ *exchange, m map[string]any) { delete(m, "startedAt") })},
		{name: "never voids what waits too long", fails: "A-4", request: func(_ *liar, x *exchange) {
			if m := x.content(); x.proven && m["limits"] != nil {
				if limits, _ := m["limits"].(map[string]any); limits["startWithinSeconds"] == 1.0 {
					delete(limits, "startWithinSeconds")
					x.body = encoded(m)
				}
			}
		}},
		{name: "has no time of its own", fails: "H-1", request: func(_ *liar, x *exchange) {
			if m := x.content(); x.proven && m["limits"] != nil {
				if limits, _ := m["limits"].(map[string]any); limits["activeSeconds"] == 1.0 {
					delete(limits, "activeSeconds")
					x.body = encoded(m)
				}
			}
		}},
		{name: "calls a cancel a failure", fails: "H-2", response: onEnvelope(func(_ *liar, e map[string]any) {
			if e["outcome"] == "Cancelled" {
				e["outcome"], e["reason"] = "Failed", "AgentError"
			}
		})},
		{name: "has words of its own", fails: "V-1", response: onEnvelope(func(_ *liar, e map[string]any) {
			if e["reason"] == "Completed" {
				e["reason"] = "Done"
			}
		})},
		{name: "lets a NUL through", fails: "V-2", response: onEnvelope(func(_ *liar, e map[string]any) { e["message"] = "a\x00b" })},
	}
}

// journalDefects are about what is known of a run.
//
//nolint:gocyclo // a table
func journalDefects() []defect {
	deliver := func(l *liar, x *exchange) (uid string, attempt float64, ok bool) {
		if !x.is(http.MethodPost, wire.RunsPath) || !x.proven {
			return "", 0, false
		}
		run, _ := x.content()["run"].(map[string]any)
		uid, _ = run["uid"].(string)
		attempt, _ = x.content()["attempt"].(float64)
		return uid, attempt, true
	}
	return []defect{
		{name: "forgets what was recorded", fails: "C-8 C-9 E-15 E-26", boots: true, response: func(l *liar, x *exchange) {
			if isRecorded(x) && x.status == http.StatusNoContent {
				l.remember(x.run(), "recorded")
			}
			if uid, _, ok := deliver(l, x); ok && l.recall(uid) != "" && x.status == http.StatusOK {
				x.accept(http.StatusAccepted)
			}
		}},
		{name: "does not show what was recorded", fails: "C-8 E-26", response: func(l *liar, x *exchange) {
			if x.Method == http.MethodGet && x.status == http.StatusOK && x.shown()["recorded"] == true {
				x.refuse(wire.NewProblem(wire.CodeUnknown, ""))
			}
		}},
		{name: "knows the newest attempt only", fails: "E-23", response: func(l *liar, x *exchange) {
			if uid, n, ok := deliver(l, x); ok && x.status < http.StatusBadRequest {
				if last, _ := strconv.ParseFloat(l.recall(uid), 64); n < last {
					x.refuse(wire.NewProblem(wire.CodeSuperseded, ""))
				} else {
					l.remember(uid, fmt.Sprint(n))
				}
			}
		}},
		{name: "takes any attempt number next", fails: "E-24", response: onRefusal(wire.CodeSuperseded, func(x *exchange) { x.accept(http.StatusAccepted) })},
		{name: "runs two attempts at once", fails: "E-31", response: onRefusal(wire.CodeAttemptActive, func(x *exchange) {
			if !isRecorded(x) {
				x.accept(http.StatusAccepted)
			}
		})},
		{name: "compares content before it looks whether it was voided", fails: "E-25", response: func(l *liar, x *exchange) {
			if uid, _, ok := deliver(l, x); ok {
				goal, _ := x.content()["goal"].(string)
				if known := l.recall(uid); known != "" && known != goal && x.code() == wire.CodeVoided {
					x.refuse(wire.NewProblem(wire.CodeDigestMismatch, ""))
				}
				if x.status < http.StatusBadRequest {
					l.remember(uid, goal)
				}
			}
		}},
		{name: "looks at its capacity first", fails: "E-30", response: func(l *liar, x *exchange) {
			if _, _, ok := deliver(l, x); ok && x.status == http.StatusOK {
				if c := tells(l.ask(x, http.MethodPost, wire.ChallengePath, challengeBody(l))).Capacity; c.Room() == 0 {
					x.refuse(wire.NewProblem(wire.CodeBusy, ""))
				}
			}
		}},
		{name: "accepts what it knows", fails: "C-8 E-15 E-23 E-26 E-30 P-3", response: func(l *liar, x *exchange) {
			if _, _, ok := deliver(l, x); ok && x.status == http.StatusOK && x.Header.Get("Prefer") == "" {
				x.status = http.StatusAccepted
			}
		}},
		{name: "answers 200 to other content", fails: "E-23 E-30 P-6", response: onRefusal(wire.CodeDigestMismatch, func(x *exchange) { x.accept(http.StatusOK) })},
		{name: "ignores the journal", fails: "E-29 P-8", request: func(l *liar, x *exchange) {
			if _, _, ok := deliver(l, x); ok {
				if m := x.content(); m["journal"] == "another-journal" {
					m["journal"] = tells(l.ask(x, http.MethodPost, wire.ChallengePath, challengeBody(l))).Journal
					x.body = encoded(m)
				}
			}
		}},
	}
}
