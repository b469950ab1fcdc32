package apiserver

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`
	auditFile   = "audit.log"
	maxLine     = 1 << 20
)

// Request is what the API server's audit log says of a request.
type Request struct {
	Verb  string
	Stage string
	// User is the one that the request was carried out as.
	User string
	// Agent is what the program calls itself: it begins with the name by which it was started.
	Agent string
	// Group, Resource (with its subresource), Namespace and Name are what it was about; Name is empty for a list, a watch, a create.
	Group, Resource, Namespace, Name string
	// Selector is the label selector of a list or a watch.
	Selector string
	// Code is the answer's HTTP status.
	Code int
}

// Audit is what was asked of the API server so far by a user, in the order of its answers. It needs Options.Audit.
func (s *Server) Audit(t testing.TB, user string) []Request {
	t.Helper()
	file, err := os.Open(filepath.Join(s.scratch, auditFile))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var event struct {
			Verb, Stage, UserAgent string
			RequestURI             string
			User, ImpersonatedUser struct{ Username string }
			ObjectRef              struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus         struct{ Code int }
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		r := Request{Verb: event.Verb, Stage: event.Stage, User: event.User.Username, Agent: event.UserAgent, Code: event.ResponseStatus.Code,
			Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name}
		if event.ImpersonatedUser.Username != "" {
			r.User = event.ImpersonatedUser.Username
		}
		if event.ObjectRef.Subresource != "" {
			r.Resource += "/" + event.ObjectRef.Subresource
		}
		if r.User == user {
			asked, err := url.ParseRequestURI(event.RequestURI)
			require.NoError(t, err)
			r.Selector = asked.Query().Get("labelSelector")
			requests = append(requests, r)
		}
	}
	require.NoError(t, lines.Err())
	return requests
}

func (s *Server) keepAudit() error {
	policy := filepath.Join(s.scratch, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	s.env.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(s.scratch, auditFile))
	return nil
}
