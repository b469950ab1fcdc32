package attach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/acp"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/cli/forward"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	maxEntry    = connect.MaxMessage + 1<<10 // a line of a transcript
	maxProblem  = 4 << 10                    // of an endpoint's refusal
	againFirst  = 500 * time.Millisecond     // the pause before a transcript is asked for again, doubled
	againMost   = 10 * time.Second
	logLine     = 64 << 10 // of a Pod's log, that is looked at as one
	mediaJSON   = "application/x-ndjson"
	headerOfOne = `"hearth"`
	maxTold     = 200 // characters of a refusal
)

// Archive is where transcripts and logs are read (forward.Cluster).
type Archive interface {
	Check(ctx context.Context, p forward.Pod) error
	Get(ctx context.Context, p forward.Pod, path string) (*http.Response, error)
	Log(ctx context.Context, p forward.Pod) (io.ReadCloser, error)
	Judge(err error) error
}

// Logs prints what was said in a run.
type Logs struct {
	Archive Archive
	Out     io.Writer
	Raw     bool   // the transcript's own lines
	Follow  bool   // until the run has ended
	After   uint64 // the entry that was seen last
	View    view.Config
	// Terminal tells that Out is one, which nothing may command.
	Terminal bool
	RetryFor time.Duration
	Changes  <-chan Change // with Follow
	Say      func(format string, args ...any)
	Story    func(run *hearthv1.AgentRun) []string

	view   *view.View
	headed bool // the header of this attempt was printed
	alive  bool // this connection has shown a sign of life
	live   bool // what is not there yet may come
}

// These say why there is no transcript.
var (
	errNoTranscript = errors.New("its Pod keeps no transcript of it: the oldest make room for new ones, and an Agent whose data directory is on no volume loses them with the container")
	errTooOld       = errors.New("its Pod's harness is older than transcripts, or none of ours")
	errNotBegun     = errors.New("has said nothing yet")
	errRawOfLog     = errors.New("the transcript is gone with the end of its Pod: there are no lines for --raw; without it the Pod's log is printed")
)

// Print prints the transcript of a run's newest attempt, or the log of its Pod where that has ended.
func (l *Logs) Print(ctx context.Context, run *hearthv1.AgentRun) error {
	for {
		p, err := placeOf(run)
		waits := err != nil && !errors.As(err, new(forward.Final)) || err == nil && !begun(run)
		switch {
		case waits && !l.Follow:
			return fmt.Errorf("run/%s %w (%s)", run.Name, errNotBegun, forward.Because(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded))
		case !waits && err != nil:
			return err
		case !waits:
			l.live = l.Follow && !run.Ended()
			err := l.attempt(ctx, p)
			switch {
			case l.Follow && !run.Ended() && over(err): // what becomes of the run, it will tell
				l.Say("%v: what was said there can be read no more", err)
			case err != nil || !l.Follow:
				return err
			}
			l.After, l.headed = 0, false
		}
		if run, err = l.next(ctx, run, p, !waits); err != nil || run == nil {
			return err
		}
	}
}

// next waits until a run begins, or begins again elsewhere; nil when there is nothing more to come.
func (l *Logs) next(ctx context.Context, run *hearthv1.AgentRun, was place, seen bool) (*hearthv1.AgentRun, error) {
	for {
		p, err := placeOf(run)
		switch {
		case err == nil && begun(run) && !(seen && p.same(was)):
			return run, nil
		case run.Ended():
			return nil, nil
		case l.Story != nil:
			for _, line := range l.Story(run) {
				l.Say("%s", line)
			}
		}
		select {
		case c := <-l.Changes:
			if c.Say != "" {
				l.Say("%s", c.Say)
			}
			if run, err = c.after(run); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// attempt prints one attempt. Where its Pod is one that has ended, that is its log.
func (l *Logs) attempt(ctx context.Context, p place) error {
	l.view = view.New(l.View)
	var phase *forward.NotRunning
	switch err := l.Archive.Check(ctx, p.pod); {
	case errors.Is(err, forward.ErrGone):
		return forward.Finally(fmt.Errorf("%w, and with it what was said there; the run's output and end are in its record", err))
	case errors.As(err, &phase) && over(err):
		return l.log(ctx, p)
	case err != nil:
		return l.Archive.Judge(err)
	}
	at := l.After
	err := l.transcript(ctx, p)
	if l.After == at && errors.As(err, &phase) && over(err) { // the Pod ended when it was about to be asked
		return l.log(ctx, p)
	}
	return err
}

// log prints a Pod's log.
func (l *Logs) log(ctx context.Context, p place) error {
	if l.Raw {
		return errRawOfLog
	}
	log, err := l.Archive.Log(ctx, p.pod)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	l.Say("Pod %s has ended, and its transcript is gone with it: this is its log, which is what the harness printed, the agent's answer last", p.pod.Name)
	lines := bufio.NewReaderSize(log, logLine)
	for {
		line, err := lines.ReadSlice('\n')
		if l.Terminal {
			line = view.Clean(nil, line)
		}
		if _, failed := l.Out.Write(line); failed != nil {
			return failed
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("the log of Pod %s: %w", p.pod.Name, err)
		}
	}
}

// transcript prints it, and asks again from where it broke off.
func (l *Logs) transcript(ctx context.Context, p place) error {
	deadline, pause := newStopped(), againFirst
	defer deadline.Stop()
	deadline.Reset(l.RetryFor)
	for {
		l.alive = false
		err := l.stream(ctx, p)
		switch {
		case err == nil:
			_, err = l.Out.Write(l.view.End())
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(forward.Final)) || over(err) || errors.As(err, new(unwritten)):
			return err
		}
		if l.alive { // the time is that of the connection, not of what the agent says
			pause = againFirst
			deadline.Reset(l.RetryFor)
		}
		l.Say("%v; asking again", err)
		select {
		case <-time.After(pause):
			pause = min(2*pause, againMost)
		case <-deadline.C:
			return fmt.Errorf("--retry-for is over: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unwritten says that whoever reads is gone.
type unwritten struct{ error }

// stream prints what one answer has.
func (l *Logs) stream(ctx context.Context, p place) error {
	if err := l.Archive.Check(ctx, p.pod); err != nil {
		return l.Archive.Judge(err)
	}
	response, err := l.Archive.Get(ctx, p.pod, fmt.Sprintf("/runs/%s/transcript?after=%d&follow=%t", p.run, l.After, l.Follow))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		if err := refused(response); !l.live || !errors.Is(err, errNoTranscript) {
			return err
		}
		return fmt.Errorf("it %w", errNotBegun)
	}
	if kind := response.Header.Get("Content-Type"); kind != mediaJSON {
		return forward.Finally(errTooOld)
	}
	lines := bufio.NewReaderSize(response.Body, logLine)
	for first := true; ; first = false {
		line, err := wholeLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the transcript broke off: %w", err)
		case len(line) <= 1: // a sign of life
			l.alive = true
			continue
		case first && !bytes.Contains(line[:min(len(line), logLine)], []byte(headerOfOne)):
			return forward.Finally(errTooOld)
		}
		if err := l.line(line, first); err != nil {
			return unwritten{err}
		}
		l.alive = l.alive || !first
	}
}

// line prints one line, and remembers its number.
func (l *Logs) line(line []byte, header bool) error {
	if header {
		if l.Raw && !l.headed {
			l.headed = true
			return l.raw(line)
		}
		return nil
	}
	var seq, at, direction, frame []byte
	acp.Each(line, func(name string, value jsontext.Value) bool {
		switch name {
		case "seq":
			seq = value
		case "time":
			at = value
		case "dir":
			direction = value
		case "frame":
			frame = value
		}
		return true
	})
	if n, err := strconv.ParseUint(string(seq), 10, 64); err == nil {
		l.After = n
	}
	if l.Raw {
		return l.raw(line)
	}
	if text, err := acp.Text(at); err == nil {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			l.view.At(t.Local())
		}
	}
	way, _ := acp.Text(direction)
	_, err := l.Out.Write(l.view.Entry(way, frame))
	return err
}

// raw prints a line of the transcript byte by byte, but where a terminal would read it: JSON may have controls of the C1 set as they are.
func (l *Logs) raw(line []byte) error {
	if l.Terminal {
		line = view.Clean(nil, line)
	}
	_, err := l.Out.Write(line)
	return err
}

// wholeLine reads a line with its newline. io.EOF is a clean end.
func wholeLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxEntry {
			return nil, forward.Finally(fmt.Errorf("a line of it is longer than %d bytes", maxEntry))
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return line, err
		}
	}
}

// refused says in words why an endpoint gives no transcript (SPEC.md, Transports).
func refused(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	code, _ := acp.Text(acp.Member(body, "code"))
	detail, _ := acp.Text(acp.Member(body, "detail"))
	err := fmt.Errorf("the endpoint answered %d: %s", response.StatusCode, view.Line(detail, maxTold))
	switch {
	case response.StatusCode == http.StatusNotFound && code == string(wire.CodeUnknown):
		return forward.Finally(errNoTranscript)
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusMethodNotAllowed, response.StatusCode == http.StatusNotImplemented:
		return forward.Finally(errTooOld)
	case response.StatusCode == http.StatusUnauthorized:
		return forward.Finally(errors.New("the endpoint refused the key: its Pod was made with other ones; a recast gives it those of the Secrets"))
	case response.StatusCode == http.StatusServiceUnavailable || response.StatusCode >= http.StatusInternalServerError:
		return err
	}
	return forward.Finally(err)
}
