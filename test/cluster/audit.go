package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	codeForbidden = 403
	// terminating is in the API server's refusal to create something in a namespace that is being deleted.
	terminating = "because it is being terminated"
	auditFiles  = "audit*.log"
	// maxAuditLine is far above what an event at level Metadata has.
	maxAuditLine = 4 << 20
)

// AuditEvent is what is read of an event of the API server's audit log (audit.k8s.io/v1).
type AuditEvent struct {
	Stage                    string
	Verb                     string
	User                     struct{ Username string }
	ObjectRef                AuditObject
	ResponseStatus           AuditStatus
	RequestReceivedTimestamp time.Time
}

// AuditObject is what a request was about; empty where it was about no object, as in API discovery.
type AuditObject struct{ APIGroup, Resource, Subresource, Namespace, Name string }

// AuditStatus is how it was answered.
type AuditStatus struct {
	Code    int
	Message string
}

func (o AuditObject) resource() string {
	if o.Subresource == "" {
		return o.Resource
	}
	return o.Resource + "/" + o.Subresource
}

// ErrNoAudit: this cluster keeps no audit log, or none that can be read here.
var ErrNoAudit = errors.New("no audit log")

// Audited are the requests that a user made about objects since then. It reads the log of hack/cluster, which lies beside the
// kubeconfig, with what was rotated out of it. That the log goes back far enough is checked.
func (c *Cluster) Audited(user string, since time.Time) ([]AuditEvent, error) {
	files, err := filepath.Glob(filepath.Join(c.NodeLogs(), auditFiles))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoAudit, c.NodeLogs())
	}
	var events []AuditEvent
	reachesBack := false
	for _, file := range files {
		if err := readAudit(file, func(e AuditEvent) {
			reachesBack = reachesBack || e.RequestReceivedTimestamp.Before(since)
			if e.User.Username == user && e.ObjectRef.Resource != "" && !e.RequestReceivedTimestamp.Before(since) {
				events = append(events, e)
			}
		}); err != nil {
			return nil, err
		}
	}
	if !reachesBack {
		return nil, fmt.Errorf("the audit log in %s does not reach back to %s", c.NodeLogs(), since.Format(time.RFC3339))
	}
	return events, nil
}

// NodeLogs is where hack/cluster keeps the logs of the node's components.
func (c *Cluster) NodeLogs() string { return filepath.Join(filepath.Dir(c.Kubeconfig), "logs") }

func readAudit(file string, saw func(AuditEvent)) error {
	in, err := os.Open(file) // #nosec G304 -- the cluster's own log
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = in.Close() }()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		var e AuditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: %w", file, err) // also the last line, if it is being written: the API server writes a line at once
		}
		saw(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
