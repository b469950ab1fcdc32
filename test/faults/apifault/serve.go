package apifault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// passage is one request on its way.
type passage struct {
	Request
	rule *Rule
}

type passageKey struct{}

func of(r *http.Request) *passage { return r.Context().Value(passageKey{}).(*passage) }

// serve meets a request with the rule that is for it.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	p := &passage{Request: read(r)}
	if p.Verb == "list" || p.Verb == "watch" && p.Name == "" {
		a.mu.Lock()
		a.lists[p.Resource] = r.URL.Path
		a.mu.Unlock()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the caller went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var delay time.Duration
	if p.rule, delay = a.rule(p.Request, body); delay > 0 {
		wait := time.NewTimer(delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return
		}
	}
	if p.rule != nil && p.rule.kind == fail {
		a.tell(w, p, p.rule.code)
		return
	}
	if a.mustList(r, p) {
		a.tell(w, p, http.StatusUnprocessableEntity)
		return
	}
	a.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

// mustList tells whether a watch asks for the list too. It is refused while lists are stale, and the caller lists and watches then.
func (a *API) mustList(r *http.Request, p *passage) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.Verb == "watch" && a.stale[p.Resource] != "" && r.URL.Query().Get("sendInitialEvents") == "true"
}

// rewrite sends a request to the API server; a list of a stale resource asks for the version that it is stale at.
func (a *API) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(a.target)
	p := of(r.In)
	a.mu.Lock()
	version := a.stale[p.Resource]
	a.mu.Unlock()
	query := r.Out.URL.Query()
	if p.Verb != "list" || version == "" || query.Get("continue") != "" {
		return
	}
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	r.Out.URL.RawQuery = query.Encode()
}

// answered looks at what the API server said before the caller hears it.
func (a *API) answered(response *http.Response) error {
	p := of(response.Request)
	if done := response.StatusCode < http.StatusBadRequest; done && p.rule != nil {
		_, _ = io.Copy(io.Discard, response.Body)
		return errCut
	}
	a.ended(p, response.StatusCode)
	if p.Verb == "watch" {
		response.Body = a.hold(response.Request.Context(), p.Resource, response.Body)
	}
	return nil
}

// failed tells the caller what the rule has for it after the API server has done it, or nothing, by a cut.
func (a *API) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := of(r)
	if errors.Is(err, errCut) && p.rule.kind == commit {
		a.tell(w, p, p.rule.code)
		return
	}
	a.ended(p, 0)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// tell answers as the API server does.
func (a *API) tell(w http.ResponseWriter, p *passage, code int) {
	status := apierrors.NewGenericServerResponse(code, p.Verb, schema.GroupResource{Group: p.Group, Resource: p.Resource}, p.Name, "made by a test", 0, true).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
	a.ended(p, code)
}

func (a *API) ended(p *passage, status int) {
	p.Status, p.Took = status, time.Since(p.At)
	a.remember(p.Request)
}

// version asks the API server for the version of all that is stored now.
func (a *API) version(ctx context.Context, resource string) (string, error) {
	a.mu.Lock()
	path, ok := a.lists[resource]
	a.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("the current resource version: nobody has listed %s yet", resource)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.target.JoinPath(path).String()+"?limit=1", nil)
	if err != nil {
		return "", fmt.Errorf("the current resource version: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	response, err := a.own.RoundTrip(r)
	if err != nil {
		return "", fmt.Errorf("the current resource version: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || list.ResourceVersion == "" {
		return "", fmt.Errorf("the current resource version: the API server answered %s: %w", response.Status, err)
	}
	return list.ResourceVersion, nil
}
