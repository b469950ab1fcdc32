package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/metrics"
	"github.com/hearthdev/hearth/test/exposition"
)

// scrape reads the metrics of a harness, as text for who asks for nothing else.
func (b *booted) scrape(accept string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.metrics()+metrics.Path, nil)
	require.NoError(b.t, err)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(b.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, response.StatusCode, "%s", body)
	return string(body)
}

func (b *booted) metrics() string {
	b.t.Helper()
	return b.log.Await(b.t, `metrics: listening"? addr=(\S+)`)
}

// series are the values of a scrape by name and labels, as written.
func (b *booted) series() map[string]int {
	b.t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(b.scrape("")) {
		name, value, ok := cutLast(strings.TrimSpace(line))
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		require.NoError(b.t, err, line)
		out[name] = int(number) // counts, as far as anybody asks
	}
	return out
}

func cutLast(line string) (before, after string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// awaits waits until a series has a value.
func (b *booted) awaits(series string, value int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.series()[series] == value }, patience, tick, "%s is never %v: %v", series, value, b.log)
}

const (
	succeeded = `hearth_turns_total{outcome="Succeeded",reason="Completed"}`
	writes    = "hearth_journal_write_seconds_count"
)

// SPEC.md, Metrics of the harness: each of them moves as its row says, and none of them names a run, a Pod, a session or a goal.
func TestEveryMetricMovesAsTheTableSays(t *testing.T) {
	p := newPlace(t)
	p.env = []string{envView + "=" + viewKey, envSteer + "=" + steerKey}
	b := p.ready()
	before := b.series()
	assert.Equal(t, 1, before["hearth_agent_up"])
	assert.Equal(t, 0, before["hearth_agent_restarts_total"])
	assert.Equal(t, 1, before[`hearth_delivery_requests_total{code="200",endpoint="challenge"}`])

	b.accepted("run-one", "permit: allow_once,reject_once ;; say: fine", wire.StateFinished)
	after := b.series()
	assert.Equal(t, 1, after[succeeded])
	assert.Equal(t, 1, after["hearth_turn_seconds_count"])
	assert.Equal(t, 1, after[`hearth_permission_decisions_total{by="policy",decision="deny"}`])
	assert.Equal(t, 3, after[writes]-before[writes], "accept, start and finish")
	assert.Equal(t, 1, after[`hearth_delivery_requests_total{code="202",endpoint="deliver"}`])
	require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/run-one/recorded?attempt=1", nil, nil))
	assert.Equal(t, 3, b.series()[writes]-before[writes], "a mark of recorded goes with the next write")
	assert.Equal(t, 1, b.series()[`hearth_delivery_requests_total{code="204",endpoint="recorded"}`])

	b.strange(wire.RunsPath)
	b.strange("/run-one/../anything")
	b.awaits(`hearth_delivery_requests_total{code="400",endpoint="changes"}`, 1)
	b.awaits(`hearth_delivery_requests_total{code="400",endpoint="other"}`, 1)

	b.accepted("run-two", "mute:", wire.StateRunning)
	b.accepted("run-three", "say: later", wire.StateAccepted)
	assert.Equal(t, 1, b.series()[`hearth_harness_runs{state="running"}`])
	assert.Equal(t, 1, b.series()[`hearth_harness_runs{state="queued"}`])
	viewer, steerer := b.attach(viewKey), b.attach(steerKey)
	b.awaits(`hearth_acp_clients{access="view",transport="websocket"}`, 1)
	b.awaits(`hearth_acp_clients{access="steer",transport="websocket"}`, 1)
	require.NoError(t, viewer.conn.Close(websocket.StatusNormalClosure, ""))
	require.NoError(t, steerer.conn.Close(websocket.StatusNormalClosure, ""))
	b.awaits(`hearth_acp_clients{access="view",transport="websocket"}`, 0)
	b.awaits(`hearth_acp_clients{access="steer",transport="websocket"}`, 0)
	assert.Equal(t, http.StatusAccepted, b.call(http.MethodDelete, wire.RunsPath+"/run-two?attempt=1", nil, nil))
	b.until("run-three", wire.StateFinished)
	assert.Equal(t, 1, b.series()[`hearth_turns_total{outcome="Cancelled",reason="Cancelled"}`])
	assert.Equal(t, 2, b.series()[succeeded])
	assert.Equal(t, 1, b.series()[`hearth_delivery_requests_total{code="202",endpoint="cancel"}`])

	b.accepted("run-four", "die:", wire.StateFinished)
	b.log.AwaitNth(t, `acp: listening`, 2)
	assert.Equal(t, 1, b.series()[`hearth_turns_total{outcome="Failed",reason="AgentCrashed"}`])
	assert.Equal(t, 1, b.series()["hearth_agent_restarts_total"])
	assert.Equal(t, 1, b.series()["hearth_agent_up"])

	b.table()
	text := b.scrape("")
	require.NoError(t, exposition.Keep("harness", text))
	for _, secret := range []string{"run-", p.Identity.PodName, podUID, p.Identity.Namespace + `"`, b.attempt("run-four").Session, "fine", "later"} {
		assert.NotContains(t, strings.ReplaceAll(text, "hearth_harness_runs", ""), secret)
	}
}

// table holds what is served against the table: the same names, kinds and labels, and nothing else of ours.
func (b *booted) table() {
	b.t.Helper()
	served, labels := map[string]string{}, map[string]map[string]bool{}
	label := regexp.MustCompile(`[{,]([a-z_]+)="`)
	for line := range strings.Lines(b.scrape("")) {
		if rest, is := strings.CutPrefix(line, "# TYPE "); is {
			name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
			served[name] = kind
			continue
		}
		name, _, _ := strings.Cut(line, "{")
		for _, m := range label.FindAllStringSubmatch(line, -1) {
			if labels[name] == nil {
				labels[name] = map[string]bool{}
			}
			labels[name][m[1]] = true
		}
	}
	for _, m := range metrics.Table {
		assert.Equal(b.t, string(m.Kind), served[m.Name], m.Name)
		delete(served, m.Name)
		assert.Len(b.t, labels[m.Name], len(m.Labels), m.Name)
		for _, l := range m.Labels {
			assert.True(b.t, labels[m.Name][l], "%s has no label %s", m.Name, l)
		}
	}
	for name := range served {
		assert.Regexp(b.t, `^(go|process|promhttp)_`, name, "it is in no table")
	}
}

// strange asks the delivery port for something with no challenge.
func (b *booted) strange(path string) {
	b.t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(b.t.Context(), "tcp", b.delivery())
	require.NoError(b.t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	require.NoError(b.t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.t, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(b.t, http.StatusBadRequest, answer.StatusCode)
}

// SPEC.md, Metrics of the harness and Permissions: by whom a question was answered.
func TestPermissionDecisionsAreCountedByWhoDecided(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		options string
		answer  string // of a client with the steer key, "" for none
		watched bool
		series  string
	}{
		"allowed by the policy":    {[]string{"--permissions=Allow"}, "allow_once,reject_once", "", false, `{by="policy",decision="allow"}`},
		"no such option":           {[]string{"--permissions=Deny"}, "allow_once", "", false, `{by="policy",decision="cancelled"}`},
		"nobody is there to ask":   {[]string{"--permissions=Ask"}, "allow_once,reject_once", "", false, `{by="policy",decision="deny"}`},
		"nobody answers in time":   {[]string{"--permissions=Ask", "--ask-timeout=1s"}, "allow_once,reject_once", "", true, `{by="timeout",decision="deny"}`},
		"a client allows":          {[]string{"--permissions=Ask"}, "allow_once,reject_once", "0", true, `{by="client",decision="allow"}`},
		"a client allows for ever": {[]string{"--permissions=Ask"}, "reject_once,allow_always", "1", true, `{by="client",decision="allow"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.env = []string{envSteer + "=" + steerKey}
			b := p.ready(c.args...)
			gate := filepath.Join(t.TempDir(), "gate")
			b.accepted("run", "wait: "+gate+" ;; permit: "+c.options+" ;; say: over", wire.StateRunning)
			var client *attached
			if c.watched {
				client = b.attach(steerKey)
				client.load()
			}
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			if c.answer != "" {
				client.answer(c.answer)
			}
			b.until("run", wire.StateFinished)
			assert.Equal(t, 1, b.series()["hearth_permission_decisions_total"+c.series], b.scrape(""))
		})
	}
}

// answer chooses the nth option of the next permission question.
func (a *attached) answer(nth string) {
	a.t.Helper()
	question := a.until(`"session/request_permission"`)
	id := regexp.MustCompile(`"id":("?[^,}"]+"?)`).FindStringSubmatch(question)
	options := regexp.MustCompile(`"optionId":"([^"]+)"`).FindAllStringSubmatch(question, -1)
	n, err := strconv.Atoi(nth)
	require.NoError(a.t, err)
	require.NotNil(a.t, id, question)
	require.Greater(a.t, len(options), n, question)
	require.NoError(a.t, a.conn.Write(a.t.Context(), websocket.MessageText,
		[]byte(`{"jsonrpc":"2.0","id":`+id[1]+`,"result":{"outcome":{"outcome":"selected","optionId":"`+options[n][1]+`"}}}`)))
}

// SPEC.md, Metrics of the harness: the exemplar of a turn is its trace, where that is kept, for who asks for OpenMetrics.
func TestATurnIsAnExemplarOfItsTrace(t *testing.T) {
	const open = "application/openmetrics-text; version=1.0.0"
	b := newPlace(t).ready()
	b.headers = http.Header{"Traceparent": {"00-" + strings.Repeat("a", 32) + "-00f067aa0ba902b7-00"}}
	b.accepted("unsampled", "say: one", wire.StateFinished)
	assert.NotContains(t, b.scrape(open), "trace_id")
	b.headers = http.Header{"Traceparent": {"00-" + strings.Repeat("b", 32) + "-00f067aa0ba902b7-01"}}
	b.accepted("sampled", "say: two", wire.StateFinished)
	assert.Contains(t, b.scrape(open), `# {trace_id="`+strings.Repeat("b", 32)+`"}`)
	assert.NotContains(t, b.scrape(""), "trace_id", "the text format has no exemplars")
	b.log.Await(t, `msg=finished namespace=team run=review-sampled runUID=sampled attempt=1 trace_id=`+strings.Repeat("b", 32)+` outcome=Succeeded`)
}

func TestAOneShotRunServesItsMetrics(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	k := newTask(t, "wait: "+gate+" ;; say: over")
	b := k.start()
	b.awaits(`hearth_harness_runs{state="running"}`, 1)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, exitOK, b.code(), b.log.String())
}

// SPEC.md, Metrics of the harness: work is worth more than its metrics.
func TestAHarnessWorksWithoutItsMetrics(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	for address, says := range map[string]string{
		taken.Addr().String(): `level=ERROR msg="metrics: off; --metrics-listen \(HEARTH_METRICS_LISTEN\)[^"]*" cause=".*in use by another process`,
		"nowhere:x":           `level=ERROR msg="metrics: off`, "off": "", "0": "",
	} {
		t.Run(address, func(t *testing.T) {
			b := newPlace(t).ready("--metrics-listen=" + address)
			b.accepted("run", "say: done", wire.StateFinished)
			assert.NotContains(t, b.log.String(), "metrics: listening")
			if says == "" {
				assert.NotContains(t, b.log.String(), "metrics")
				return
			}
			b.log.Await(t, says)
		})
	}
}

// Fault row 40 for the third port: whatever strangers do there, it costs a bounded number of connections and of bytes, a scraper gets
// in, and the harness works on.
func TestStrangersAtTheMetricsCostLittle(t *testing.T) {
	b := newPlace(t).ready()
	address := b.metrics()
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for path, want := range map[string]int{"/": 404, "/debug/pprof/": 404, metrics.Path + "/": 404, "//metrics": 404} {
		assert.Equal(t, want, b.status(dial(), "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), path)
	}
	for _, method := range []string{"POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		assert.Equal(t, 405, b.status(dial(), method+" /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n"), method)
	}
	assert.Equal(t, 431, b.status(dial(), "GET /metrics HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n"))
	assert.Equal(t, 400, b.status(dial(), "GET /metrics HTTP/1.1\r\n\r\n"))

	first := dial()
	_, err := io.WriteString(first, "GET /metrics HTTP/1.1\r\n")
	require.NoError(t, err)
	for range metrics.MaxConnections {
		_, err := io.WriteString(dial(), "GET /metrics HTTP/1.1\r\n") // and no end
		require.NoError(t, err)
	}
	_, err = first.Read(make([]byte, 1))
	require.ErrorIs(t, gone(err), io.EOF, "the oldest makes room")
	assert.Contains(t, b.scrape(""), "hearth_build_info")
	b.accepted("run", "say: done", wire.StateFinished)
	require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/run/recorded?attempt=1", nil, nil))
	b.signal(syscall.SIGTERM)
	assert.Equal(t, 0, b.code(), b.log.String())
	assert.True(t, refuses(t, address))
}

// gone makes a connection that was reset one that has ended: what was not read yet decides which of the two it is.
func gone(err error) error {
	if err != nil && (strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "EOF")) {
		return io.EOF
	}
	return err
}

func (b *booted) status(conn net.Conn, request string) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err := io.WriteString(conn, request)
	require.NoError(b.t, err)
	method, _, _ := strings.Cut(request, " ")
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(b.t, err)
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode
}
