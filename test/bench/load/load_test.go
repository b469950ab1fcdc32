package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/hearthdev/hearth/test/bench/bare"
)

// api is an API server with a controller, as far as a load sees them: a run that is created has ended at once, or once its last status was
// written.
type api struct {
	t       *testing.T
	status  string // of runs that the controller ends; "" where there is none
	mu      sync.Mutex
	version int
	created []string
	written map[string][]string
	events  chan string
}

func newAPI(t *testing.T, status string) (*api, *rest.Config) {
	a := &api{t: t, status: status, written: map[string][]string{}, events: make(chan string, 1000)}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, &rest.Config{Host: s.URL}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		assert.Equal(a.t, "spec.agentRef.name=reviewer", r.URL.Query().Get("fieldSelector"))
		for {
			select {
			case event := <-a.events:
				_, _ = io.WriteString(w, event)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	var o struct {
		Metadata struct{ Name, ResourceVersion string }
		Spec     struct{ AgentRef struct{ Name string } }
		Status   json.RawMessage
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		assert.NoError(a.t, json.Unmarshal(body, &o), string(body))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	name, status := o.Metadata.Name, a.status
	switch r.Method {
	case http.MethodPost:
		assert.Equal(a.t, "/apis/hearth.dev/v1alpha1/namespaces/bench/agentruns", r.URL.Path)
		assert.Equal(a.t, "reviewer", o.Spec.AgentRef.Name)
		a.created = append(a.created, name)
		a.written[name] = []string{}
	case http.MethodPut:
		assert.True(a.t, strings.HasSuffix(r.URL.Path, name+"/status"))
		assert.NotEmpty(a.t, o.Metadata.ResourceVersion)
		a.written[name] = append(a.written[name], string(o.Status))
		status = string(o.Status)
	}
	object := fmt.Sprintf(`{"metadata":{"name":%q,"uid":"uid of %s","resourceVersion":"%d"}`, name, name, a.version)
	if name != "" {
		a.events <- `{"type":"ADDED","object":` + object + `}}` + "\n"
	}
	if status != "" {
		a.events <- `{"type":"MODIFIED","object":` + object + `,"status":` + status + `}}` + "\n"
	}
	_, _ = io.WriteString(w, object+"}")
}

const succeeded = `{"phase":"Succeeded","reason":"Completed","completionTime":"2026-01-01T00:00:00Z","delivery":{"attempt":1}}`

func plan(runs int) Plan {
	return Plan{APIVersion: "hearth.dev/v1alpha1", Namespace: "bench", Agent: "reviewer", Spec: json.RawMessage(`{"agentRef":{"name":"reviewer"}}`),
		Name: "load", Runs: runs, Workers: 4, Limit: time.Minute}
}

func carry(t *testing.T, p Plan, config *rest.Config) Done {
	t.Helper()
	client, err := bare.New(config)
	require.NoError(t, err)
	runs, err := newLoader(p, client, time.Now).all(t.Context())
	require.NoError(t, err)
	return Done{Runs: runs}
}

func TestEachRunIsMadeOnceAndWatchedToItsEnd(t *testing.T) {
	for name, change := range map[string]func(*Plan){"by workers": func(*Plan) {}, "at times": func(p *Plan) { p.Workers, p.Rate = 0, 1000 }} {
		a, config := newAPI(t, succeeded)
		p := plan(20)
		change(&p)
		d := carry(t, p, config)
		require.NoError(t, p.Check(d), name)
		assert.Len(t, a.created, 20, name)
		assert.Equal(t, "load-000007-x", d.Runs[7].Name)
		assert.Equal(t, "uid of load-000007-x", d.Runs[7].UID)
		assert.False(t, d.Runs[7].Created.Before(d.Runs[7].Sent))
		assert.Positive(t, d.Wall())
	}
}

func TestTheLimitWritesEachStatusOverTheOneBefore(t *testing.T) {
	a, config := newAPI(t, "")
	p := plan(5)
	p.Statuses = []json.RawMessage{json.RawMessage(`{"phase":"Pending"}`), json.RawMessage(succeeded)}
	d := carry(t, p, config)
	require.NoError(t, p.Check(d))
	for _, r := range d.Runs {
		assert.Equal(t, []string{`{"phase":"Pending"}`, succeeded}, a.written[r.Name])
		assert.False(t, r.Written.Before(r.Created))
	}
}

func TestNobodyWaitsForRunsThatAreLeft(t *testing.T) {
	_, config := newAPI(t, "")
	p := plan(5)
	p.Leave = true
	d := carry(t, p, config)
	require.NoError(t, p.Check(d))
	assert.Zero(t, d.Runs[0].Ended)
}

func TestARefusedRunEndsTheLoad(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			http.Error(w, "denied the request", http.StatusForbidden)
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"}}`)
		}
	}))
	t.Cleanup(s.Close)
	client, err := bare.New(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	_, err = newLoader(plan(3), client, time.Now).all(t.Context())
	require.ErrorContains(t, err, "denied the request")
	assert.ErrorContains(t, err, "0 of 3 runs have ended")
}

// A benchmark that measured nothing is a defect.
func TestALoadOfWhichSomethingFailedOrWasLostIsNone(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(*Done)
	}{
		{"expected 2 runs, there are 1", func(d *Done) { d.Runs = d.Runs[:1] }},
		{"run b was not created", func(d *Done) { d.Runs[1].UID = "" }},
		{"run b was not created", func(d *Done) { d.Runs[1].Created = time.Time{} }},
		{"runs a and b have the same UID", func(d *Done) { d.Runs[1].UID = d.Runs[0].UID }},
		{"run b never ended", func(d *Done) { d.Runs[1].Ended = time.Time{} }},
		{"run b ended Failed/TargetLost", func(d *Done) { d.Runs[1].Phase, d.Runs[1].Reason = "Failed", "TargetLost" }},
		{"run b needed 2 attempts", func(d *Done) { d.Runs[1].Attempt = 2 }},
		{"run b has 2 records", func(d *Done) { d.Runs[1].Records = 2 }},
	} {
		at := time.Unix(1, 0)
		d := Done{Runs: []Run{{Name: "a", UID: "1"}, {Name: "b", UID: "2"}}}
		for i := range d.Runs {
			r := &d.Runs[i]
			r.Sent, r.Created, r.Ended, r.Phase, r.Attempt, r.Records = at, at, at.Add(time.Second), "Succeeded", 1, 1
		}
		p := plan(2)
		require.NoError(t, p.Check(d))
		c.spoil(&d)
		assert.EqualError(t, p.Check(d), c.want)
	}
}

func TestWallIsFromTheFirstRequestToTheLastThatCame(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	assert.Equal(t, 9*time.Second, Done{Runs: []Run{{Sent: at(3), Created: at(4), Ended: at(6)}, {Sent: at(1), Created: at(10)}}}.Wall())
}

func TestAProcessTellsWhatItDid(t *testing.T) {
	_, config := newAPI(t, succeeded)
	p := plan(3)
	p.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c"}, p.Kubeconfig))
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, serve(t.Context(), bytes.NewReader(text), &out))
	var d Done
	require.NoError(t, json.Unmarshal(out.Bytes(), &d))
	require.NoError(t, p.Check(d))
	require.ErrorContains(t, serve(t.Context(), strings.NewReader("{"), &out), "read the plan")
	require.NoError(t, os.Remove(p.Kubeconfig))
	assert.ErrorContains(t, serve(t.Context(), bytes.NewReader(text), &out), "find the API server")
}
