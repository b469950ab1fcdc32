package page

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	toolscache "k8s.io/client-go/tools/cache"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const patience = time.Minute // for what comes when it comes

// serve runs the real server on a port of its own until the test ends, and gives its address.
func (g *stage) serve(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, done := g.server(), make(chan error, 1)
	server.ReadHeaderTimeout, server.ReadTimeout = time.Hour, time.Hour // who has to go has to be thrown out
	go func() { done <- server.Serve(bounded(listener)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, server.Shutdown(ctx), "open streams end at once")
		assert.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return "http://" + listener.Addr().String()
}

// reply is what was answered; its body is closed at the end of the test.
type reply struct {
	code   int
	header http.Header
	body   io.ReadCloser
}

func ask(t *testing.T, method, url string, change func(*http.Request)) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	if change != nil {
		change(request)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return reply{code: response.StatusCode, header: response.Header, body: response.Body}
}

// Who opens connections and asks for nothing keeps nobody out.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	url := playedStage(t).serve(t)
	for range maxConnections + 8 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/", nil)
	require.NoError(t, err)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
}

func TestThePageOnlyReads(t *testing.T) {
	url := playedStage(t).serve(t)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace} {
		for _, path := range []string{"/", "/runs/payments/review-480", "/changes", "/static/page.js"} {
			response := ask(t, method, url+path, nil)
			assert.Equal(t, http.StatusMethodNotAllowed, response.code, method+path)
			assert.Equal(t, "GET, HEAD", response.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/changes", "/static/page.css"} {
		response := ask(t, http.MethodHead, url+path, nil)
		assert.Equal(t, http.StatusOK, response.code, path)
		body, err := io.ReadAll(response.body)
		require.NoError(t, err)
		assert.Empty(t, body)
	}
}

// A page elsewhere may let its own name mean 127.0.0.1 (DNS rebinding): the name gives it away.
func TestOnlyItsOwnNamesReachThePage(t *testing.T) {
	g := playedStage(t)
	g.options.Hosts = []string{"hearth.example.com"}
	for host, code := range map[string]int{
		"localhost": 200, "localhost:8090": 200, "LOCALHOST:1": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "[::1]": 200, "localhost.": 200,
		"hearth.example.com": 200, "hearth.example.com:443": 200,
		"evil.example": 421, "evil.example:8090": 421, "localhost.evil.example": 421, "127.0.0.1.nip.example": 421, "10.0.0.7:8090": 421, "": 421, ":8090": 421,
	} {
		for _, path := range []string{"/", "/changes", "/static/page.js"} {
			w := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodHead, path, nil)
			request.Host = host
			g.server().Handler.ServeHTTP(w, request)
			assert.Equal(t, code, w.Code, host+path)
		}
	}
}

func TestEachAnswerForbidsWhatThePageDoesNotNeed(t *testing.T) {
	g := playedStage(t)
	for _, path := range []string{"/", "/runs/payments/nothing", "/static/page.js", "/runs?phase=x", "/runs?x=" + strings.Repeat("a", maxQueryBytes)} {
		h := g.get(path).Header()
		assert.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		assert.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		assert.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
		assert.NotEmpty(t, h.Get("Content-Type"), path)
		assert.NotEmpty(t, h.Get("Cache-Control"), path)
	}
	assert.Equal(t, http.StatusRequestURITooLong, g.get("/runs?x="+strings.Repeat("a", maxQueryBytes)).Code)
	assert.Equal(t, http.StatusNotFound, g.get("/favicon.ico").Code)
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	url := playedStage(t).serve(t)
	tag := ask(t, http.MethodGet, url+"/static/page.css", nil).header.Get("ETag")
	require.NotEmpty(t, tag)
	again := ask(t, http.MethodGet, url+"/static/page.css", func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
	assert.Equal(t, http.StatusNotModified, again.code)
}

// Before the caches are complete, half of the truth would look like all of it.
func TestBeforeTheCacheIsCompleteThePageSaysSo(t *testing.T) {
	g := playedStage(t)
	g.ready.Store(false)
	for _, path := range []string{"/", "/queue", "/runs", "/runs/payments/review-480", "/agents/payments/reviewer"} {
		w := g.get(path)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, path)
		assert.Equal(t, "2", w.Header().Get("Retry-After"))
		assert.Contains(t, w.Body.String(), "still reading")
		assert.NotContains(t, w.Body.String(), "review-480")
	}
	assert.Equal(t, http.StatusOK, g.get("/static/page.css").Code)
}

func TestThePageSaysWhichReplicaAnswersAndWhetherItLeads(t *testing.T) {
	g := playedStage(t)
	assert.Contains(t, g.get("/").Body.String(), "<bdi>hearth-controller-6d9f7c-x2x8k</bdi>, which leads.")
	g.leading.Store(false)
	assert.Contains(t, g.get("/").Body.String(), "which stands by.")
}

// events reads a stream's events as they come.
func events(t *testing.T, url string) <-chan string {
	t.Helper()
	response := ask(t, http.MethodGet, url+"/changes", nil)
	require.Equal(t, http.StatusOK, response.code)
	require.Contains(t, response.header.Get("Content-Type"), "text/event-stream")
	out := make(chan string, 100)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(response.body)
		name := ""
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = n
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				out <- name + " " + data
			}
		}
	}()
	return out
}

func TestAStreamTellsOfChangesAndOfQuiet(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("streams", func(t *testing.T) {
		g := newStage(t, nil, nil)
		g.pace, g.tick = time.Millisecond, 50*time.Millisecond
		stream := events(t, g.serve(t))
		assert.Equal(t, "changed 0", <-stream, "where it is now, for a page that was made before")
		assert.Equal(t, "tick 0", <-stream)
		run := runOf("payments", "reviewer", "work", time.Minute, func(*hearthv1.AgentRun) {})
		g.index.handler().OnAdd(run, false)
		require.Eventually(t, func() bool { return <-stream == "changed 1" }, patience, time.Millisecond)
		g.index.handler().OnUpdate(run, run)
		assert.Equal(t, uint64(1), g.index.feed.now(), "a resync is no change")
		g.index.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: run})
		require.Eventually(t, func() bool { return <-stream == "changed 2" }, patience, time.Millisecond)
		assert.Equal(t, http.StatusNotFound, g.get("/runs/payments/work").Code)
	})
}

// Many changes are one event: a busy cluster does not make a browser fetch for each.
func TestChangesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w, over := newStage(t, nil, nil), httptest.NewRecorder(), make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/changes", nil)
		request.Host = "localhost"
		go func() {
			defer close(over)
			g.server().Handler.ServeHTTP(w, request)
		}()
		synctest.Wait()
		for range 50 {
			g.index.feed.bump()
			synctest.Wait()
		}
		time.Sleep(eventPace) // by the bubble's clock
		synctest.Wait()
		leave()
		<-over
		assert.Equal(t, "event: changed\ndata: 0\n\nevent: changed\ndata: 50\n\n", w.Body.String())
	})
}

func TestStreamsAreBoundedAndGivenBack(t *testing.T) {
	g := newStage(t, nil, nil)
	g.tick, g.pace = 20*time.Millisecond, time.Millisecond
	url := g.serve(t)
	var open []reply
	for range maxStreams {
		response := ask(t, http.MethodGet, url+"/changes", nil)
		require.Equal(t, http.StatusOK, response.code)
		open = append(open, response)
	}
	refused := ask(t, http.MethodGet, url+"/changes", nil)
	assert.Equal(t, http.StatusServiceUnavailable, refused.code)
	assert.NotEmpty(t, refused.header.Get("Retry-After"))
	assert.Equal(t, http.StatusOK, ask(t, http.MethodGet, url+"/", nil).code, "pages are still served")
	require.NoError(t, open[0].body.Close())
	require.Eventually(t, func() bool { return ask(t, http.MethodHead, url+"/changes", nil).code == http.StatusOK }, patience, 10*time.Millisecond)
}

func TestTheIndexFollowsItsObjects(t *testing.T) {
	x := newIndex()
	h := x.handler()
	alive := runOf("payments", "reviewer", "work", time.Minute, func(*hearthv1.AgentRun) {})
	h.OnAdd(alive, true)
	assert.Len(t, x.allLiving(), 1)
	over := runOf("payments", "reviewer", "work", time.Minute, ended("reviewer-1", hearthv1.ReasonCompleted, 0, time.Second))
	over.ResourceVersion = "2"
	h.OnUpdate(alive, over)
	assert.Empty(t, x.allLiving())
	runs, total := x.newest(10, filter{})
	assert.Equal(t, []*hearthv1.AgentRun{over}, runs, "the object itself, not a copy")
	assert.Equal(t, 1, total)
	again := runOf("payments", "triage", "work", 0, func(r *hearthv1.AgentRun) { r.UID = "another" })
	h.OnUpdate(over, again)
	runs, total = x.newest(10, filter{})
	assert.Equal(t, []*hearthv1.AgentRun{again}, runs, "another run of the same name takes its place")
	assert.Equal(t, 1, total)
	_, total = x.newest(10, filter{Agent: "reviewer"})
	assert.Zero(t, total)
	a := agentOf("payments", "reviewer", func(*hearthv1.Agent) {})
	h.OnAdd(a, true)
	assert.Len(t, x.allAgents(), 1)
	h.OnDelete(a)
	h.OnDelete(again)
	assert.Empty(t, x.allAgents())
	runs, total = x.newest(10, filter{})
	assert.Empty(t, runs)
	assert.Zero(t, total)
}
