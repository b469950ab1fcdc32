package apifault

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is one question to the API server.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection; the HTTP method in lower case for what is no resource.
	Verb string
	// Resource is its plural name, "agentruns"; Subresource is "status" or so. A path that is no resource's is in Name.
	Group, Resource, Subresource, Namespace, Name string
	// Status is what the caller was told; 0 when it was told nothing.
	Status int
	// At is when it came and Took how long the answer took; of a watch, until it began.
	At   time.Time
	Took time.Duration
}

// Match says which requests a rule is for. What is left empty matches all.
type Match struct {
	Verbs                                  []string
	Resource, Subresource, Namespace, Name string
	// Body is asked last, with what was sent.
	Body func([]byte) bool
}

// None as a Match's Subresource means the object itself.
const None = "-"

func (m Match) matches(r Request) bool {
	subresource := m.Subresource
	if subresource == None {
		subresource = ""
	}
	return (len(m.Verbs) == 0 || slices.Contains(m.Verbs, r.Verb)) && (m.Resource == "" || m.Resource == r.Resource) &&
		(m.Subresource == "" || subresource == r.Subresource) && (m.Namespace == "" || m.Namespace == r.Namespace) && (m.Name == "" || m.Name == r.Name)
}

// read takes a request's path apart: /api/v1/... or /apis/group/version/..., then perhaps namespaces/x, then resource/name/subresource.
func read(r *http.Request) Request {
	q := Request{Verb: strings.ToLower(r.Method), At: time.Now()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		q.Group, parts = parts[1], parts[3:]
	default:
		q.Name = r.URL.Path
		return q
	}
	if parts[0] == "namespaces" && len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
		q.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	q.Resource, q.Name, q.Subresource = parts[0], parts[1], parts[2]
	switch r.Method {
	case http.MethodPost:
		q.Verb = "create"
	case http.MethodPut:
		q.Verb = "update"
	case http.MethodDelete:
		if q.Name == "" {
			q.Verb = "deletecollection"
		}
	case http.MethodGet:
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			q.Verb = "watch"
		} else if q.Name == "" {
			q.Verb = "list"
		}
	}
	return q
}
