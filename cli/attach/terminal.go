package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	promptText = "> "
	minColumns = 20
	maxWord    = 4 << 10 // bytes without a space that wait for one
)

// terminal is a Screen at which somebody types: lines, and the keys that answer questions. The terminal is raw while it is open.
type terminal struct {
	line   *term.Terminal
	inputs chan Input
	ctx    context.Context //nolint:containedctx // its reader has no other way
	width  int
	close  func()

	mu    sync.Mutex
	asked Asked
	open  []byte // a line that is not whole yet: what is typed stands below whole ones
}

// openTerminal makes a terminal raw. close makes it what it was; it may be called more than once, and by anybody.
func openTerminal(ctx context.Context, in *os.File, out io.Writer, width int) (t *terminal, err error) {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be read key by key: %w", err)
	}
	t = &terminal{
		line: term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{in, out}, promptText),
		inputs: make(chan Input), ctx: ctx, width: max(width, minColumns),
		close: sync.OnceFunc(func() {
			_, _ = io.WriteString(out, "\x1b[?2004l\r\x1b[K") // the prompt goes
			_ = term.Restore(fd, before)
		}),
	}
	_ = t.line.SetSize(t.width, 1)
	t.line.AutoCompleteCallback = t.key
	t.line.SetBracketedPasteMode(true) // what is pasted answers nothing
	go func() {
		defer t.guard()
		t.read()
	}()
	return t, nil
}

// guard gives the terminal back before a panic goes on its way.
func (t *terminal) guard() {
	if r := recover(); r != nil {
		t.close()
		panic(r)
	}
}

func (t *terminal) Inputs() <-chan Input { return t.inputs }
func (t *terminal) Keys() bool           { return true }

// Ask implements Screen.
func (t *terminal) Ask(question Asked) {
	t.mu.Lock()
	changed := t.asked != question
	t.asked = question
	t.mu.Unlock()
	if !changed {
		return
	}
	prompt := promptText
	if question.Keys > 0 {
		prompt = fmt.Sprintf("1-%d? ", question.Keys)
	}
	t.line.SetPrompt(prompt)
	_, _ = t.line.Write(nil) // shows it
}

// read takes lines until somebody leaves, by Ctrl-C, or Ctrl-D on an empty line.
func (t *terminal) read() {
	for {
		line, err := t.line.ReadLine()
		switch {
		case errors.Is(err, term.ErrPasteIndicator), err == nil:
			if line = strings.TrimSpace(line); line != "" {
				t.put(Input{Line: line})
			}
		default:
			t.put(Input{Left: true})
			return
		}
	}
}

func (t *terminal) put(in Input) {
	select {
	case t.inputs <- in:
	case <-t.ctx.Done():
	}
}

// key takes a key that answers a question, on an empty line.
func (t *terminal) key(line string, _ int, key rune) (string, int, bool) {
	t.mu.Lock()
	number := int(key - '0')
	asked := t.asked
	answers := line == "" && number >= 1 && number <= asked.Keys
	if answers {
		t.asked.Keys = 0 // one key, one answer
	}
	t.mu.Unlock()
	if !answers {
		return "", 0, false
	}
	t.put(Input{Key: number, Asked: asked})
	return "", 0, true
}

// Write shows whole lines; what begins one waits for its end, or until the line is full. A word that is longer than maxWord is cut.
func (t *terminal) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, maxWord) {
		t.open = append(t.open, piece...)
		whole := bytes.LastIndexByte(t.open, '\n') + 1
		for {
			rest := t.open[whole:]
			if utf8.RuneCount(rest) < t.width {
				break
			}
			at := bytes.LastIndexByte(rest[:min(len(rest), t.width)], ' ')
			if at <= 0 { // a long word
				at = 1 + bytes.IndexByte(rest[1:], ' ')
			}
			switch cut := wordCut(rest); {
			case at > 0 && (cut == 0 || at <= cut):
				rest[at] = '\n'
			case cut > 0:
				at = cut
				t.open = slices.Insert(t.open, whole+at, '\n')
			}
			if at <= 0 {
				break
			}
			whole += at + 1
		}
		if whole == 0 {
			continue
		}
		if _, err := t.line.Write(t.open[:whole]); err != nil {
			return 0, err
		}
		t.open = append(t.open[:0], t.open[whole:]...)
	}
	return len(p), nil
}

// wordCut is where to cut a word that is too long, not within a character or a style of ours; 0 where it is not.
func wordCut(word []byte) int {
	const longestStyle = 8
	if len(word) <= maxWord {
		return 0
	}
	at := maxWord
	if esc := bytes.LastIndexByte(word[at-longestStyle:at], '\x1b'); esc >= 0 {
		at += esc - longestStyle
	}
	for at > 1 && !utf8.RuneStart(word[at]) {
		at--
	}
	return at
}
