package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hearthdev/hearth/internal/version"
	"github.com/hearthdev/hearth/runtime/attach"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// people is where those who come through the door meet the agents (SPEC.md, People at the agent).
type people struct {
	store *transcript.Store
	hub   *attach.Hub
	pool  *standing.Pool // once there is one
}

// newPeople opens the transcripts, in which no secret of the environment is written.
func newPeople(c *config, environ []string, log *slog.Logger) (*people, error) {
	store, err := transcript.Open(transcript.Config{
		Dir: filepath.Join(c.dataDir, "transcripts"), Secrets: secretsOf(environ), Now: time.Now, Log: log,
	})
	if err != nil {
		return nil, err
	}
	p := &people{store: store}
	p.hub = attach.New(attach.Config{
		Version: version.Of(), Store: store, Steering: attach.Steering(c.steering), Policy: c.permissions, AskTimeout: c.askTimeout,
		Dir: p.dir, Left: p.left, Log: log, Now: time.Now,
	})
	return p, nil
}

// secretsOf are the values that nobody is to see.
func secretsOf(environ []string) []string {
	var values []string
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); slices.Contains(secrets, name) && value != "" {
			values = append(values, value)
		}
	}
	return values
}

// dir is the directory of a session that a client asked to be in this one, which may be one of the client's own machine.
func (p *people) dir(asked string) (string, error) {
	if info, err := os.Stat(asked); err == nil && info.IsDir() && filepath.IsAbs(asked) {
		p.pool.HoldDir(asked) // it may be a run's
		return asked, nil
	}
	return p.pool.OpenDir()
}

// left says that a session in that directory is over.
func (p *people) left(dir string) { p.pool.CloseDir(dir) }

// Connect makes the hub the endpoint's Clients.
func (p *people) Connect(access attach.Access) (endpoint.Client, error) {
	client, err := p.hub.Connect(access)
	if err != nil {
		return nil, err
	}
	return client, nil
}

// close is called when everybody has left and no agent stands any more.
func (p *people) close() error {
	p.hub.Close()
	return p.store.Close()
}
