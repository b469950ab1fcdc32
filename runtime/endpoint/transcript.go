package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// Transcripts finds what was said in a run (transcript.Store).
type Transcripts interface {
	// Find is the transcript of the newest attempt of a run.
	Find(runUID string) (*transcript.Book, bool)
}

const (
	pathRuns       = "/runs/"
	pathTranscript = "/transcript"
	mediaLines     = "application/x-ndjson"
	// maxTranscripts bounds how many are read at once.
	maxTranscripts = 32
)

var uidForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`) })

// transcriptPath takes the run's UID out of a path, if it is a transcript's.
func transcriptPath(path string) (uid string, is bool) {
	rest, runs := strings.CutPrefix(path, pathRuns)
	uid, is = strings.CutSuffix(rest, pathTranscript)
	return uid, runs && is && !strings.Contains(uid, "/")
}

// wanted is what a request asks for.
type wanted struct {
	uid    string
	after  uint64
	follow bool
}

// parseWanted reads a request for a transcript. The error names what is wrong with which field, and repeats none of it.
func parseWanted(uid, query string) (wanted, error) {
	w := wanted{uid: uid}
	if !uidForm().MatchString(uid) {
		return w, errors.New("uid: expected the UID of an AgentRun")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return w, errors.New("query: expected after, follow and token")
	}
	for name, all := range values {
		if len(all) > 1 {
			return w, errors.New("query: expected each name once")
		}
		value := all[0]
		switch name {
		case "after":
			if w.after, err = strconv.ParseUint(value, 10, 63); err != nil || value[0] == '+' {
				return w, errors.New("after: expected the number of an entry, or 0")
			}
		case "follow":
			if w.follow = value == "true"; !w.follow && value != "false" {
				return w, errors.New("follow: expected true or false")
			}
		case "token":
		default:
			return w, errors.New("query: expected nothing but after, follow and token")
		}
	}
	return w, nil
}

// transcript answers with a run's transcript: its header, then what came after an entry, a line each.
func (e *Endpoint) transcript(w http.ResponseWriter, r *http.Request, uid string) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		turnAway(w, r, http.StatusMethodNotAllowed, wire.CodeMethodNotAllowed, "expected GET")
		return
	}
	want, err := parseWanted(uid, r.URL.RawQuery)
	if err != nil {
		turnAway(w, r, http.StatusBadRequest, wire.CodeMalformed, err.Error())
		return
	}
	var book *transcript.Book
	if e.cfg.Transcripts != nil {
		book, _ = e.cfg.Transcripts.Find(uid)
	}
	if book == nil {
		turnAway(w, r, http.StatusNotFound, wire.CodeUnknown, "uid: no transcript of that run is here")
		return
	}
	select {
	case e.shelf <- struct{}{}:
		defer func() { <-e.shelf }()
	default:
		w.Header().Set("Retry-After", "1")
		turnAway(w, r, http.StatusServiceUnavailable, codeNoRoom, fmt.Sprintf("%d transcripts are being read: try again", maxTranscripts))
		return
	}
	header, err := transcript.AppendHeader(nil, book.Header(), want.after+1)
	if err != nil {
		turnAway(w, r, http.StatusInternalServerError, wire.CodeInternal, "the transcript has no header")
		return
	}
	flow := http.NewResponseController(w)
	_ = flow.SetReadDeadline(time.Time{}) // nothing more is read; its end would look like the client's
	w.Header().Set("Content-Type", mediaLines)
	w.Header().Set("Cache-Control", "no-store")
	l := &lines{flow: flow, pace: e.cfg.pace, out: bufio.NewWriterSize(pieces{w, flow, e.cfg.Now, e.cfg.pace.stall}, pieceBytes)}
	_, _ = l.out.Write(header)
	l.serve(r.Context(), book, want)
}

// lines writes a transcript.
type lines struct {
	flow *http.ResponseController
	pace pace
	out  *bufio.Writer
	line []byte // reused
}

func (l *lines) serve(ctx context.Context, book *transcript.Book, want wanted) {
	next := want.after + 1
	for {
		last := book.Last()
		if err := book.Read(next, last, l.entry); err != nil || l.flush() != nil {
			return
		}
		next = max(next, last+1)
		if !want.follow || !l.await(ctx, book, next-1) {
			return
		}
	}
}

func (l *lines) entry(e transcript.Entry) error {
	l.line = transcript.AppendEntry(l.line[:0], e)
	_, err := l.out.Write(l.line)
	if cap(l.line) > pieceBytes {
		l.line = nil
	}
	return err //nolint:wrapcheck // whoever it is for is gone
}

// await waits for more entries, with an empty line now and then as a sign of life.
func (l *lines) await(ctx context.Context, book *transcript.Book, after uint64) bool {
	for {
		wait, cancel := context.WithTimeout(ctx, l.pace.ping)
		more := book.Wait(wait, after)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case more:
			return true
		case ctx.Err() != nil || !quiet:
			return false
		}
		_ = l.out.WriteByte('\n')
		if l.flush() != nil {
			return false
		}
	}
}

func (l *lines) flush() error {
	if err := l.out.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := l.flow.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// pieces is writeAll as a Writer.
type pieces struct {
	io.Writer
	flow  *http.ResponseController
	now   func() time.Time
	stall time.Duration
}

func (p pieces) Write(data []byte) (int, error) {
	if err := writeAll(p.Writer, p.flow, p.now, p.stall, data); err != nil {
		return 0, err
	}
	return len(data), nil
}
