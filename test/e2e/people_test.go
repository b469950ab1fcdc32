//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// TestPeopleAtADeliveredRun: with the rights that docs/clients.md names and no others, through the API server's port-forward, one person
// answers the permission question of a delivered run and another, who may only watch, sees the same; the record has its evidence
// (R50–R54).
func TestPeopleAtADeliveredRun(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "people")
	binary := commandLine(t)
	r.readyAgent(reviewer, func(spec *hearthv1.AgentSpec) { spec.Runtime.Permissions.Policy = hearthv1.PermissionAsk })
	for person, secret := range map[string]string{"steers": reviewer + "-acp-steer", "watches": reviewer + "-acp-view"} {
		r.grantConnect(person, secret)
	}
	r.grantConnect("stranger", "")

	r.ask("watched", reviewer, "gate: "+r.tally("watched"), "say: the first words", "shell: echo what-the-tool-said", "say: all is well")
	r.running("watched")
	steers, watches := r.connect(binary, "steers", "run/watched"), r.connect(binary, "watches", "agent/"+reviewer)
	session := steers.load("watched")
	assert.Equal(t, session, watches.load("watched"))
	r.openTheGate("watched")
	steers.until("agent_message_chunk", "words")
	watches.until("agent_message_chunk", "words")

	var question struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Options []struct{ OptionID, Kind string }
		} `json:"params"`
	}
	require.NoError(t, json.Unmarshal([]byte(steers.until("session/request_permission")), &question))
	for _, o := range question.Params.Options {
		if o.Kind == "allow_once" {
			steers.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, question.ID, o.OptionID))
		}
	}
	watches.until("agent_message_chunk", "well")
	assert.NotContains(t, strings.Join(watches.seen, "\n"), "session/request_permission", "who may only watch is not asked")

	run := r.ended("watched", shortly)
	assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, run.Status.Message)
	require.NotNil(t, run.Status.Output)
	assert.Contains(t, run.Status.Output.Value, "what-the-tool-said")
	require.NotNil(t, run.Status.Usage)
	assert.Positive(t, *run.Status.Usage.InputTokens)

	assert.Contains(t, steers.log.String(), "this key may steer")
	assert.Contains(t, watches.log.String(), "no right to read Secret "+reviewer+"-acp-steer: connecting with the key that may watch only")
	stranger := r.connect(binary, "stranger", "run/watched")
	assert.Error(t, stranger.cmd.Wait())
	assert.Contains(t, stranger.log.String(), `cannot get resource "secrets"`)
}

// grantConnect lets a person use hearth connect with the key of one Secret.
func (r *room) grantConnect(person, secret string) {
	r.t.Helper()
	subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: person}}
	meta := metav1.ObjectMeta{Namespace: r.namespace, Name: person + "-connects"}
	require.NoError(r.t, suite.Client.Create(r.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hearth-connect"},
	}))
	if secret == "" {
		return
	}
	meta.Name = person + "-reads-a-key"
	require.NoError(r.t, suite.Client.Create(r.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get"}},
	}}))
	require.NoError(r.t, suite.Client.Create(r.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}))
}

// person is a client that started hearth connect.
type person struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	seen  []string
	log   *strings.Builder
}

// connect starts hearth connect as a person, whom the administrator's kubeconfig impersonates.
func (r *room) connect(binary, name, target string) *person {
	r.t.Helper()
	config, err := clientcmd.LoadFromFile(suite.Kubeconfig)
	require.NoError(r.t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate = name
	}
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	require.NoError(r.t, clientcmd.WriteToFile(*config, file))
	p := &person{t: r.t, lines: make(chan string, 1024), log: &strings.Builder{}}
	p.cmd = exec.CommandContext(r.t.Context(), binary, "connect", target, "--namespace", r.namespace, "--kubeconfig", file)
	p.cmd.Stderr = p.log
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(r.t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		lines := bufio.NewReader(stdout)
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			p.lines <- line
		}
	}()
	r.t.Cleanup(func() { _ = p.stdin.Close(); _ = p.cmd.Wait() })
	return p
}

func (p *person) write(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err, p.log)
}

// until reads messages until one that holds all of these.
func (p *person) until(parts ...string) string {
	p.t.Helper()
	timeout := time.After(shortly)
	for {
		select {
		case line, open := <-p.lines:
			require.True(p.t, open, "it ended: %s", p.log)
			p.seen = append(p.seen, line)
			fits := true
			for _, part := range parts {
				fits = fits && strings.Contains(line, part)
			}
			if fits {
				return line
			}
		case <-timeout:
			require.Fail(p.t, "it never came", "%q", parts)
		}
	}
}

func (p *person) call(id int, method, params string) string {
	p.t.Helper()
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	return p.until(fmt.Sprintf(`"id":%d,`, id))
}

// load initializes, and loads the session of a delivered run.
func (p *person) load(run string) string {
	p.t.Helper()
	p.call(0, "initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
	var listed struct {
		Result struct {
			Sessions []struct {
				SessionID string          `json:"sessionId"`
				Meta      json.RawMessage `json:"_meta"`
			} `json:"sessions"`
		} `json:"result"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.call(1, "session/list", "{}")), &listed))
	for _, s := range listed.Result.Sessions {
		if strings.Contains(string(s.Meta), `"`+run+`"`) {
			loaded := p.call(2, "session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":"/tmp","mcpServers":[]}`, s.SessionID))
			assert.Contains(p.t, loaded, `"result"`)
			return s.SessionID
		}
	}
	require.Fail(p.t, "the run's session is not listed")
	return ""
}
