package standing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

const (
	talkFile      = "standing.json"
	maxTalkBytes  = 64 << 10
	fileMode      = 0o600
	lateWindow    = 250 * time.Millisecond // after an agent's answer: what it still sends belongs to that turn
	lookAgain     = 20 * time.Millisecond  // whether a client's prompt is over
	loadShare     = 2                      // of the time to start, loading the session may take this part
	maxLostReason = 160
)

// talk is the standing session: one that remembers from goal to goal (SPEC.md, Standing sessions).
type talk struct {
	session *router.Session
	memory  *turn.Memory
	dir     string
	lost    string    // why the one before was lost, until a goal's envelope has told it
	over    time.Time // when the last turn was
}

// note is what is kept of a talk on disk, where the next agent process, or the next harness, finds it.
type note struct {
	Session    string       `json:"session"`
	Dir        string       `json:"dir"`
	Instructed bool         `json:"instructed"`
	Account    turn.Account `json:"account"`
	Lost       string       `json:"lost,omitzero"`
}

// recall reads the note; false: there is none of any use. The agent could have written it, so it is believed no further than that.
func (w *workshop) recall() (note, bool) {
	var n note
	f, err := os.Open(filepath.Join(w.dir, talkFile))
	if err != nil {
		return n, false
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxTalkBytes))
	if err != nil || json.Unmarshal(b, &n) != nil || n.Session == "" {
		return note{}, false
	}
	return n, true
}

// keep replaces the note as a whole.
func (w *workshop) keep(n note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("standing session: %w", err)
	}
	name := filepath.Join(w.dir, talkFile)
	if err := os.WriteFile(name+".new", b, fileMode); err != nil {
		return fmt.Errorf("standing session: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("standing session: %w", err)
	}
	return nil
}

// resume brings the agent to the standing session: the one that the note tells of, if the agent can take it up, or else a new one
// that remembers why it is one.
func (a *agent) resume(ctx context.Context) error {
	n, known := a.home.recall()
	t := &talk{lost: n.Lost}
	if known {
		loading, cancel := context.WithTimeoutCause(ctx, a.cfg.StartTimeout/loadShare, errNoAnswer)
		err := a.load(loading, t, n)
		cancel()
		if err == nil || ctx.Err() != nil || a.gone() {
			return err
		}
		t.lost = turn.Short("memory was lost: the agent's standing session could not be taken up again: "+err.Error(), maxLostReason)
		a.cfg.Log.Warn("agent: a new standing session, because the last could not be taken up", "cause", err)
	}
	dir, err := a.home.open()
	if err != nil {
		return err
	}
	if t.session, err = a.conn.NewSession(ctx, dir); err != nil {
		a.home.discard(dir)
		return err
	}
	a.adopt(t, dir, note{})
	return nil
}

var (
	errNoAnswer   = errors.New("no answer in time")
	errCannotLoad = errors.New("the agent cannot load sessions")
)

func (a *agent) load(ctx context.Context, t *talk, n note) error {
	if !a.info.Loads {
		return errCannotLoad
	}
	dir, err := a.home.reopen(n.Dir)
	if err != nil {
		return err
	}
	if t.session, err = a.conn.LoadSession(ctx, n.Session, dir); err != nil {
		a.home.close(dir)
		return err
	}
	a.adopt(t, dir, n)
	return nil
}

// adopt makes a session the agent's standing one.
func (a *agent) adopt(t *talk, dir string, n note) {
	t.dir = dir
	t.memory = turn.NewMemory(a.cfg.Permissions, a.ask, n.Instructed, n.Account)
	t.memory.Attach(t.session)
	a.talk = t
	a.remember()
}

// remember keeps the note up to date. Without it the next agent process begins anew, which is said then.
func (a *agent) remember() {
	if a.talk == nil {
		return
	}
	t := a.talk
	instructed, account := t.memory.Told()
	if err := a.home.keep(note{t.session.ID, t.dir, instructed, account, t.lost}); err != nil {
		a.cfg.Log.Warn("agent: its standing session cannot be noted", "error", err)
	}
}

// free waits until nothing of an earlier turn, or of a client's own prompt, can be under way in the standing session; the goal waits
// for that as it would for another goal. The error says that the agent does not answer the client.
func (a *agent) free(ctx context.Context) error {
	if !a.talk.over.IsZero() {
		wait(ctx, a.cfg.late-a.cfg.Now().Sub(a.talk.over))
	}
	for a.conn.Busy(a.talk.session.ID) && ctx.Err() == nil && !a.gone() {
		if a.cfg.Now().Sub(a.conn.LastHeard()) > a.cfg.Silence {
			return errors.New("the agent wrote nothing to the client whose prompt was under way")
		}
		wait(ctx, lookAgain)
	}
	return nil
}
