package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

//go:embed templates static
var files embed.FS

// site is what the page is served from.
type site struct {
	options Options
	index   *index
	synced  func() bool
	leads   func() bool
	pages   map[string]*template.Template
	// pace and tick are the times between two events of a stream, at least and at most.
	pace, tick time.Duration
	streams    chan struct{} // a place for each stream
	done       chan struct{} // closed when the server shuts down
	stop       func()
}

func newSite(o Options) (*site, error) {
	s := &site{
		options: o, index: newIndex(), pages: map[string]*template.Template{}, pace: eventPace, tick: eventTick,
		streams: make(chan struct{}, maxStreams), done: make(chan struct{}),
		synced: func() bool { return false }, leads: func() bool { return false },
	}
	s.stop = sync.OnceFunc(func() { close(s.done) })
	for _, name := range []string{"overview", "queue", "runs", "agent", "run", "problem"} {
		t, err := template.ParseFS(files, "templates/layout.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("status page: template %s: %w", name, err)
		}
		s.pages[name] = t
	}
	return s, nil
}

func (s *site) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*http.Request) answer{
		"/{$}": s.overview, "/queue": s.queue, "/runs": s.runs,
		"/agents/{namespace}/{name}": s.agent, "/runs/{namespace}/{name}": s.run,
	} {
		mux.HandleFunc(pattern, s.whole(serve))
	}
	mux.HandleFunc("/static/{name}", s.static)
	mux.HandleFunc("/changes", s.changes)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.write(w, r, 0, problem{code: http.StatusNotFound, Title: "No such page", Text: "There is nothing at this address."}.answer())
	})
	return mux
}

// answer is a page to be written.
type answer struct {
	code        int
	page, title string
	body        any
}

// problem is what a page says when it cannot be shown, and what to do.
type problem struct {
	code                       int
	Title, Text, Todo, Command string
}

func (p problem) answer() answer {
	return answer{code: p.code, page: "problem", title: p.Title, body: p}
}

// whole serves a page once the index is complete: half of the truth would look like all of it.
func (s *site) whole(serve func(*http.Request) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.synced() {
			w.Header().Set("Retry-After", "2")
			s.write(w, r, 0, problem{code: http.StatusServiceUnavailable, Title: "Not ready yet",
				Text: "The controller is still reading Agents and runs from the API server.",
				Todo: "Load this page again in some seconds. If it stays like this, the controller's log says why:", Command: "kubectl logs -n hearth-system deploy/hearth-controller"}.answer())
			return
		}
		version := s.index.feed.now() // read first: what changes from here on is told by the stream
		s.write(w, r, version, serve(r))
	}
}

// layout is what is around each page.
type layout struct {
	Title, Replica string
	Leads, Live    bool
	Version        uint64
	Now            stamp
	Nav            []navItem
	Body           any
}

type navItem struct {
	Path, Name string
	Here       bool
}

func (s *site) write(w http.ResponseWriter, r *http.Request, version uint64, a answer) {
	now := s.options.Now()
	l := layout{
		Title: a.title, Replica: clean(s.options.Replica, maxCell), Leads: s.leads(), Live: a.code == http.StatusOK, Version: version,
		Now: stamp{at: now, now: now}, Body: a.body,
	}
	for _, n := range []navItem{{Path: "/", Name: "Overview"}, {Path: "/queue", Name: "Queue"}, {Path: "/runs", Name: "Runs"}} {
		n.Here = r.URL.Path == n.Path
		l.Nav = append(l.Nav, n)
	}
	var out bytes.Buffer
	if err := s.pages[a.page].ExecuteTemplate(&out, "layout", l); err != nil {
		s.options.Log.Error("status page", "page", a.page, "error", err)
		s.plain(w, http.StatusInternalServerError, "this page could not be made; the controller's log says why")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(a.code)
	_, _ = w.Write(out.Bytes())
}

func (s *site) view() view { return view{now: s.options.Now()} }

func ok(page, title string, body any) answer {
	return answer{code: http.StatusOK, page: page, title: title, body: body}
}

func (s *site) overview(*http.Request) answer {
	recent, total := s.index.newest(maxFew, filter{})
	return ok("overview", "Overview", s.view().overview(s.index.allAgents(), surveyed(s.index.allLiving(), maxFew), recent, total))
}

func (s *site) queue(*http.Request) answer {
	return ok("queue", "Queue", s.view().queue(surveyed(s.index.allLiving(), maxQueue)))
}

func (s *site) runs(r *http.Request) answer {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		return problem{code: http.StatusBadRequest, Title: "This filter cannot be used", Text: err.Error()}.answer()
	}
	runs, total := s.index.newest(maxRuns, f)
	return ok("runs", "Runs", s.view().runs(f, runs, total))
}

func (s *site) agent(r *http.Request) answer {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	a := s.index.agent(key)
	if a == nil {
		return missing("Agent", "agents", key)
	}
	recent, _ := s.index.newest(maxFew, filter{Namespace: key.Namespace, Agent: key.Name})
	living := s.index.allLiving()
	its := living[:0]
	for _, r := range living {
		if agentKey(r) == key {
			its = append(its, r)
		}
	}
	return ok("agent", a.Name+" in "+a.Namespace, s.view().agent(a, surveyed(its, maxFew), recent))
}

func (s *site) run(r *http.Request) answer {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	run := s.index.run(key)
	if run == nil {
		return missing("AgentRun", "agentruns", key)
	}
	return ok("run", run.Name+" in "+run.Namespace, s.view().run(run))
}

func missing(kind, resource string, key types.NamespacedName) answer {
	return problem{code: http.StatusNotFound, Title: "No such " + kind,
		Text: fmt.Sprintf("There is no %s %s in namespace %s: it was deleted, its record's time is over, or the controller does not serve that namespace.", kind, clean(key.Name, maxCell), clean(key.Namespace, maxCell)),
		Todo: "Those that there are:", Command: "kubectl get " + resource + " -A"}.answer()
}

// types of what is served from static; nothing else is.
var mediaTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (s *site) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := files.ReadFile(path.Join("static", path.Base(name)))
	if err != nil {
		s.plain(w, http.StatusNotFound, "there is no such file")
		return
	}
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("Cache-Control", "no-cache") // asked for again each time, answered with 304
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", mediaTypes[path.Ext(name)])
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(content) //nolint:gosec // a file that was linked in
}
