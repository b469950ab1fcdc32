package attach

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrLeft says that the person has left: nothing else has ended.
var ErrLeft = errors.New("left")

// Input is what a person did.
type Input struct {
	Key   int    // an answer, from 1,
	Asked Asked  // to this question
	Line  string // else a line
	Left  bool   // else the end
}

// Asked is a question that was put: the how manieth, and how many keys answer it. Zero is none.
type Asked struct{ Number, Keys int }

// Screen is where a session is shown, and where a person may say something.
type Screen interface {
	io.Writer
	// Inputs is nil where nothing can be said.
	Inputs() <-chan Input
	// Keys tells whether questions can be answered.
	Keys() bool
	// Ask makes keys answers to a question.
	Ask(question Asked)
}

// page is a Screen without a terminal, or for somebody who only watches.
type page struct {
	io.Writer
	lines chan Input
}

func (p page) Inputs() <-chan Input { return p.lines }
func (page) Keys() bool             { return false }
func (page) Ask(Asked)              {}

// maxTyped bounds a line that somebody types or pipes.
const maxTyped = 1 << 20

// OpenScreen is where a person watches; with say, somebody may answer and say something: at a terminal key by key, else by lines. close
// gives the terminal back, and may be called more than once.
func OpenScreen(ctx context.Context, in io.Reader, out io.Writer, say bool, width int) (s Screen, close func(), err error) {
	keys, typed := in.(*os.File)
	shown, seen := out.(*os.File)
	if say && typed && seen && term.IsTerminal(int(keys.Fd())) && term.IsTerminal(int(shown.Fd())) {
		t, err := openTerminal(ctx, keys, out, width)
		if err != nil {
			return nil, nil, err
		}
		return t, t.close, nil
	}
	if !say {
		in = nil
	}
	return newPage(ctx, out, in), func() {}, nil
}

// newPage is a Screen that takes lines from a stream, if there is one.
func newPage(ctx context.Context, out io.Writer, in io.Reader) page {
	p := page{Writer: out}
	if in == nil {
		return p
	}
	p.lines = make(chan Input)
	go func() { // it may wait for the stream without end; the process's end is its end
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxTyped)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				select {
				case p.lines <- Input{Line: line}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return p
}
