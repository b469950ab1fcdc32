package cli

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// How often the line of a wait is drawn on a terminal, and without one looked at whether the wait has become long.
const (
	spinEvery = 120 * time.Millisecond
	lookEvery = time.Second
)

const (
	frames     = `|/-\`
	eraseLine  = "\r\x1b[K"
	resetStyle = "\x1b[0m"
)

var colours = map[hearthv1.Phase]string{
	hearthv1.PhasePending:   "\x1b[33m",
	hearthv1.PhaseRunning:   "\x1b[36m",
	hearthv1.PhaseSucceeded: "\x1b[32m",
	hearthv1.PhaseFailed:    "\x1b[31m",
}

// progress is what a person sees of a wait: on a terminal a line that changes, under the lines that stay; else only those that stay.
type progress struct {
	out      io.Writer
	terminal bool
	colour   bool
	width    func() int
	frame    int
	shown    bool
	held     bool // somebody else writes to the terminal
}

func newProgress(env *kube.Env) *progress {
	return &progress{out: env.ErrOut, terminal: kube.Terminal(env.ErrOut), colour: kube.Colour(env.ErrOut), width: func() int { return kube.Width(env.ErrOut) }}
}

// every is how often to call draw.
func (p *progress) every() time.Duration {
	if p.terminal {
		return spinEvery
	}
	return lookEvery
}

// say writes lines that stay; on a terminal those of an event only, not of each change, which the changing line shows.
func (p *progress) say(lines ...string) {
	if len(lines) == 0 {
		return
	}
	_, _ = io.WriteString(p.out, p.erased()+kube.Text(strings.Join(lines, "\n"))+"\n")
}

// change writes what has changed, where there is no line that shows it.
func (p *progress) change(lines ...string) {
	if !p.terminal || p.held {
		p.say(lines...)
	}
}

// end writes the lines of a run's end, the first in the colour of its phase.
func (p *progress) end(phase hearthv1.Phase, lines []string) {
	if c := colours[phase]; p.colour && c != "" && len(lines) > 0 {
		_, _ = io.WriteString(p.out, p.erased()+c+kube.Text(lines[0])+resetStyle+"\n")
		lines = lines[1:]
	}
	p.say(lines...)
}

// draw shows the line of now.
func (p *progress) draw(phase hearthv1.Phase, line string) {
	if !p.terminal || p.held || line == "" {
		return
	}
	const spinner = 2
	line = cut(kube.Line(line), p.width()-spinner-1)
	if c := colours[phase]; p.colour && c != "" {
		line = c + line + resetStyle
	}
	_, _ = io.WriteString(p.out, eraseLine+frames[p.frame%len(frames):][:1]+" "+line)
	p.frame++
	p.shown = true
}

// clear takes the changing line away.
func (p *progress) clear() { _, _ = io.WriteString(p.out, p.erased()) }

// hold leaves the terminal to somebody else.
func (p *progress) hold(held bool) {
	p.clear()
	p.held = held
}

func (p *progress) erased() string {
	if !p.shown {
		return ""
	}
	p.shown = false
	return eraseLine
}

func cut(line string, width int) string {
	if width < 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:width-1]) + "…"
}
