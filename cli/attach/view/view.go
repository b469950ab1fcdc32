// Package view makes lines for people of what is said in a session of the Agent Client Protocol. It is pure: messages in, text out. All
// of a message is an agent's word, so nothing in it commands a terminal, nothing of any size makes more than bounded text, and what is not
// known is one short line or nothing, never an error (R51, R55).
package view

import (
	"bytes"
	"fmt"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// Limits of what is shown of one message, and of what is remembered of a session.
const (
	maxText    = 256 << 10 // of a text, as it is written in JSON
	maxPrompt  = 4 << 10   // of a prompt
	maxLines   = 5         // of what a tool said
	maxChanged = 8         // lines of a diff
	maxDiff    = 64 << 10  // of a file, before and after, that are compared
	maxPlan    = 30        // steps of a plan
	maxBlocks  = 64        // content blocks of one message
	maxOptions = 9         // answers to a question: one key each
	maxOption  = 4 << 10   // an answer's id
	maxTools   = 512       // tool calls whose titles are remembered
	maxKinds   = 32        // kinds of updates that are not known, each of which is told once
	maxName    = 128       // of an id that is remembered
	maxWide    = 1000      // characters of a line that is not cut to the width
	minWidth   = 40
	stdWidth   = 100
)

// Config is how things are shown.
type Config struct {
	// Width is how many characters a line of a terminal has; lines that are cut are cut there. 0 where there is none.
	Width  int
	Colour bool
	// Times puts the time that At was told before each line.
	Times bool
	// RunUID and Attempt say whose words are shown, in a session that has those of several runs; "" shows all, 0 every attempt.
	RunUID  string
	Attempt int64
}

// View shows one session. Its methods return the text to append to what was shown; the last line of it may be open.
type View struct {
	cfg   Config
	width int

	out     []byte
	open    kind   // what the line that is open, or was last, is of
	message string // whose message it is
	fresh   bool   // at the beginning of a line
	empty   bool   // nothing of this message was shown yet
	at      time.Time

	tools  map[string]*tool
	order  []string // of the tools, the oldest first
	plan   string   // shown last
	usage  string
	kinds  map[string]bool
	asked  map[string][]Option // questions of a transcript that are open
	muted  bool
	over   bool // the run that is shown has ended
	note   Note
	active string // goose's id of what is under way
}

// kind is who or what a line is of.
type kind int

const (
	nothing kind = iota
	said
	thought
	user
	tooled
	other
	dimmed
	warned
	added
	removed
)

// prefixes begin each line of a kind.
var prefixes = map[kind]string{thought: "· ", user: "> "}

// styles are ANSI's (ECMA-48, SGR).
var styles = map[kind]string{
	thought: "\x1b[2m", user: "\x1b[36m", tooled: "\x1b[1m", dimmed: "\x1b[2m", warned: "\x1b[33m", added: "\x1b[32m", removed: "\x1b[31m",
}

const plain = "\x1b[0m"

// Note is what the harness said of a run (SPEC.md, People at the agent).
type Note struct {
	RunUID, State, Outcome, Reason string
	Attempt                        int64
}

// The states of a Note.
const (
	Running = "running"
	Ended   = "ended"
)

// New is a View of a session of which nothing was shown yet.
func New(cfg Config) *View {
	width := cfg.Width
	if width <= 0 {
		width = stdWidth
	}
	return &View{cfg: cfg, width: max(width, minWidth), fresh: true, tools: map[string]*tool{}, kinds: map[string]bool{}, asked: map[string][]Option{}}
}

// At says when what comes next was said.
func (v *View) At(t time.Time) { v.at = t }

// Note is what the harness said last of a run, the one that is shown or another.
func (v *View) Note() Note { return v.note }

// Over tells whether the end of the run that is shown was shown.
func (v *View) Over() bool { return v.over }

// ActiveRun is goose's own id of what is under way, "" where nothing is or the agent is another.
func (v *View) ActiveRun() string { return v.active }

// Say shows a line of our own.
func (v *View) Say(text string) []byte {
	v.wide(dimmed, "── "+text, maxWide)
	return v.take()
}

// Warn shows a line of our own that somebody has to read.
func (v *View) Warn(text string) []byte {
	v.wide(warned, "── "+text, maxWide)
	return v.take()
}

// End closes the line that is open.
func (v *View) End() []byte {
	v.close()
	return v.take()
}

func (v *View) take() []byte {
	out := v.out
	v.out = nil
	return out
}

// close ends the line that is open.
func (v *View) close() {
	if !v.fresh {
		v.out = append(v.out, '\n')
	}
	v.fresh, v.open, v.message = true, nothing, ""
}

// line shows one line; its text is cut to the width, and cleaned.
func (v *View) line(k kind, text string) { v.wide(k, text, v.width) }

// wide is line for what has to be read to its end.
func (v *View) wide(k kind, text string, width int) {
	v.close()
	v.begin(k)
	v.styled(k, []byte(Line(text, width)))
	v.out = append(v.out, '\n')
	v.open = nothing
	v.fresh = true
}

// indented is line, further in; the spaces that begin the text stay.
func (v *View) indented(k kind, text string) {
	const indent = "    "
	v.close()
	v.begin(k)
	v.styled(k, append([]byte(indent), Clean(nil, []byte(cut(text, v.width-len(indent))))...))
	v.out = append(v.out, '\n')
	v.open, v.fresh = nothing, true
}

// cut is the beginning of a line.
func cut(text string, width int) string {
	n := 0
	for at := range text {
		if n++; n > width {
			return text[:at] + "…"
		}
	}
	return text
}

func (v *View) begin(k kind) {
	if v.cfg.Times {
		v.styled(dimmed, []byte(v.at.Format("15:04:05 ")))
	}
	if p := prefixes[k]; p != "" {
		v.styled(k, []byte(p))
	}
	v.fresh = false
}

func (v *View) styled(k kind, text []byte) {
	style := styles[k]
	if !v.cfg.Colour || style == "" || len(text) == 0 {
		v.out = append(v.out, text...)
		return
	}
	v.out = append(append(append(v.out, style...), text...), plain...)
}

// flow shows a piece of a longer text, which goes on where the last one of its kind and message ended.
func (v *View) flow(k kind, message string, text []byte) {
	if v.open != k || v.message != message {
		v.close()
		v.open, v.message, v.empty = k, message, true
	}
	text = Clean(nil, text)
	if v.empty {
		text = bytes.TrimLeft(text, "\n")
	}
	for len(text) > 0 {
		v.empty = false
		part, rest, newline := bytes.Cut(text, []byte("\n"))
		if v.fresh {
			v.begin(k)
		}
		v.styled(k, part)
		if text = rest; newline {
			v.out = append(v.out, '\n')
			v.fresh = true
		}
	}
}

// half is the end of a string after the first half of a surrogate pair, or after what looks like it.
var half = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}"$`)

// quoted is the content of a JSON string, of which at most so many bytes are read; and how many were not.
func quoted(value jsontext.Value, limit int) (text []byte, more int) {
	if value.Kind() != '"' {
		return nil, 0
	}
	if len(value) <= limit {
		text, _ = jsontext.AppendUnquote(nil, value) // what is no UTF-8 in it is U+FFFD
		return text, 0
	}
	end := limit
	for end > 0 && value[end]&0xc0 == 0x80 { // within a character
		end--
	}
	const longest = len(`\ud83d\ude00`)
	for tries := 0; tries <= longest; tries++ { // not within an escape
		piece := append(bytes.Clone(value[:end-tries]), '"')
		if jsontext.Value(piece).IsValid(acp.Lenient...) && !half.Match(piece) {
			text, _ = jsontext.AppendUnquote(nil, piece)
			return text, len(value) - end + tries - 1
		}
	}
	return nil, len(value)
}

// word is a short text: an id, a status, a title.
func word(value jsontext.Value) string {
	text, _ := quoted(value, 4<<10)
	return string(text)
}

// more tells what was left out.
func (v *View) more(bytes int) {
	if bytes > 0 {
		v.wide(dimmed, fmt.Sprintf("… %d bytes more, which the transcript has (hearth logs --raw)", bytes), maxWide)
	}
}
