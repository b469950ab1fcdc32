package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout is generous: a loaded machine of two cores takes a minute or two for the API server.
	startTimeout = 5 * time.Minute
	lastLineNum  = 20
)

// death is a component that ended while the node was starting.
type death struct {
	name string
	err  error
}

// starter starts components and notices when one dies, whichever one is being waited for.
type starter struct {
	place Place
	died  chan death
}

func newStarter(p Place, count int) *starter {
	return &starter{place: p, died: make(chan death, count)}
}

// launch starts c in a session of its own, so that it outlives us and our terminal.
func (s *starter) launch(ctx context.Context, c component) error {
	log, err := os.OpenFile(s.place.Log(c.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer func() { _ = log.Close() }()
	// It must outlive us, and so our context.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.path, c.args...) // #nosec G204 -- constants and our own paths
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = s.place.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() { s.died <- death{c.name, cmd.Wait()} }()
	return nil
}

// await waits until ready answers. It ends early, with the end of a log, when any component dies.
func (s *starter) await(ctx context.Context, name string, ready probe) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case d := <-s.died:
			return s.explain(d)
		default:
		}
		if err := pause(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%s did not become ready within %s: %w\n%s", name, startTimeout, last, s.place.endOfLog(name))
			}
			return err
		}
	}
}

func (s *starter) explain(d death) error {
	how := "exit status 0"
	if d.err != nil {
		how = d.err.Error()
	}
	return fmt.Errorf("%s died while the cluster was starting: %s\n%s", d.name, how, s.place.endOfLog(d.name))
}

// endOfLog is the last lines of a component's log under a heading that says where the rest is.
func (p Place) endOfLog(name string) string {
	path := p.Log(name)
	content, err := os.ReadFile(path) // #nosec G304 -- our own log
	if err != nil {
		return "no log of it: " + err.Error()
	}
	return fmt.Sprintf("the end of %s:\n%s", path, lastLines(string(content)))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLineNum):], "\n")
}
