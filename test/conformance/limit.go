package conformance

import (
	"net"
	"net/http"
	"strings"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func limitCases() []Case {
	return []Case{
		{ID: "L-1", Title: "a body of exactly 1 MiB is taken", run: func(t *trial) {
			for _, chunked := range []bool{false, true} {
				c := t.challenge()
				c.body, c.chunked = padded(c.body, wire.MaxBodyBytes), chunked
				t.want(t.send(c), http.StatusOK, "")
			}
		}},
		{ID: "L-2", Title: "connections on which nothing was proven keep nobody out", run: idleStrangers},
		{ID: "L-3", Title: "names of 253 and UIDs of 128 bytes, and no more", run: func(t *trial) {
			k := key{uid: fitted(fresh().uid, wire.MaxUIDBytes), attempt: 1}
			content := t.content(k, t.kit.GoalQuick)
			for field, limit := range map[string]int{"run.namespace": wire.MaxNameBytes, "run.name": wire.MaxNameBytes, "run.uid": wire.MaxUIDBytes} {
				t.malformed(field, with(content, field, strings.Repeat("x", limit+1)))
			}
			t.refused(t.get(key{uid: strings.Repeat("x", wire.MaxUIDBytes+1), attempt: 1}), wire.CodeMalformed)
			t.taken(k, with(t.content(k, t.kit.GoalQuick), "run", map[string]any{"namespace": strings.Repeat("n", wire.MaxNameBytes), "name": strings.Repeat("n", wire.MaxNameBytes), "uid": k.uid}))
		}},
		{ID: "L-4", Title: "attempt numbers from 1 to 2³⁰", run: func(t *trial) {
			k := fresh()
			for _, n := range []int{0, wire.MaxAttempt + 1} {
				t.malformed("attempt", with(t.content(k, t.kit.GoalQuick), "attempt", n))
				t.refused(t.get(k.next(int64(n))), wire.CodeMalformed)
			}
			last := k.next(wire.MaxAttempt)
			t.taken(last, encoded(t.content(last, t.kit.GoalQuick)))
		}},
		{ID: "L-5", Title: "seconds from 1 to 10⁹", run: func(t *trial) {
			k := fresh()
			for _, field := range []string{"limits.startWithinSeconds", "limits.activeSeconds"} {
				for _, n := range []int{0, wire.MaxSeconds + 1} {
					t.malformed(field, with(t.content(k, t.kit.GoalQuick), field, n))
				}
			}
			t.taken(k, with(t.content(k, t.kit.GoalQuick), "limits", map[string]any{"startWithinSeconds": wire.MaxSeconds, "activeSeconds": wire.MaxSeconds}))
		}},
	}
}

func fitted(s string, n int) string { return s + strings.Repeat("x", n-len(s)) }

func (t *trial) malformed(field string, body []byte) {
	c := t.delivery(fresh(), "")
	c.body = body
	a := t.send(c)
	t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed, "%s out of range: expected 400 malformed, got %s", field, describe(a.status, a.problem.Code))
}

// taken delivers a body that lies just within a limit.
func (t *trial) taken(k key, body []byte) {
	t.finished(fresh()) // the agent takes goals
	c := t.delivery(k, "")
	c.body = body
	t.want(t.send(c), http.StatusAccepted, "")
	t.until(k, wire.StateFinished)
}

// strangers is more than the connections that a harness holds.
const strangers = 160

func idleStrangers(t *trial) {
	conns := make([]net.Conn, 0, strangers)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
		t.await("the runtime to see that the strangers left", func() bool {
			c := t.challenge()
			_, err := t.kit.exchange(t.ctx, c, t.kit.encode(c))
			return err == nil
		})
	}()
	for range strangers {
		conn, err := t.kit.dialPlain(t.ctx)
		if err != nil {
			break // a runtime may turn strangers away
		}
		conns = append(conns, conn)
		_, _ = conn.Write([]byte("G"))
	}
	t.want(t.send(t.challenge()), http.StatusOK, "")
}
