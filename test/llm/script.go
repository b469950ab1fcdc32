package llm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Verb names what a directive makes the model do.
type Verb string

// The directives a goal may hold; README.md describes each.
const (
	VerbSay    Verb = "say"
	VerbShell  Verb = "shell"
	VerbSlow   Verb = "slow"
	VerbHuge   Verb = "huge"
	VerbFail   Verb = "fail"
	VerbHang   Verb = "hang"
	VerbGate   Verb = "gate"
	VerbFinish Verb = "finish"
	VerbUsage  Verb = "usage"
	VerbMark   Verb = "mark"
)

const (
	maxDirectives = 64
	maxSlow       = 24 * time.Hour
	maxHuge       = 256 << 20
	defaultWords  = 8
)

// Directive is one step of a script: a verb and its argument. N is the argument of slow, huge and fail
// (seconds, bytes, status) and the completion tokens of usage; Prompt is usage's prompt tokens.
type Directive struct {
	Verb   Verb
	Text   string
	N      int
	Prompt int
}

// Parse finds the directives in a goal, in order. A directive is a verb, a colon and an argument that
// reaches to the end of the line or to " ;; "; text before it on the line is ignored. A goal without
// directives gives the one that says "done: " and the goal's first words. The error names the directive
// whose argument makes no sense.
func Parse(goal string) ([]Directive, error) {
	var script []Directive
	for line := range strings.Lines(goal) {
		for part := range strings.SplitSeq(strings.TrimRight(line, "\r\n"), " ;; ") {
			verb, arg, ok := find(part)
			if !ok {
				continue
			}
			if len(script) == maxDirectives {
				return nil, fmt.Errorf("goal holds more than %d directives", maxDirectives)
			}
			d, err := directive(verb, arg)
			if err != nil {
				return nil, err
			}
			script = append(script, d)
		}
	}
	if len(script) == 0 {
		words := strings.Fields(goal)
		words = words[:min(len(words), defaultWords)]
		script = []Directive{{Verb: VerbSay, Text: "done: " + strings.Join(words, " ")}}
	}
	return script, nil
}

// find returns the first verb of the part that starts a word and ends in a colon.
func find(part string) (Verb, string, bool) {
	best := -1
	var verb Verb
	var arg string
	for _, v := range []Verb{VerbSay, VerbShell, VerbSlow, VerbHuge, VerbFail, VerbHang, VerbGate, VerbFinish, VerbUsage, VerbMark} {
		key := string(v) + ":"
		i := wordIndex(part, key)
		if i >= 0 && (best < 0 || i < best) {
			best, verb, arg = i, v, strings.TrimSpace(part[i+len(key):])
		}
	}
	return verb, arg, best >= 0
}

// wordIndex is strings.Index for a key that starts the text or follows a blank.
func wordIndex(text, key string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], key)
		if i < 0 {
			return -1
		}
		i += from
		if i == 0 || text[i-1] == ' ' || text[i-1] == '\t' {
			return i
		}
		from = i + 1
	}
}

func directive(verb Verb, arg string) (Directive, error) {
	d := Directive{Verb: verb, Text: arg}
	var err error
	switch verb {
	case VerbSay, VerbHang:
	case VerbShell, VerbGate, VerbMark:
		if arg == "" {
			err = fmt.Errorf("%s: expected text after the colon", verb)
		}
	case VerbSlow:
		d.N, err = number(verb, arg, "seconds", 0, int(maxSlow.Seconds()))
	case VerbHuge:
		d.N, err = number(verb, arg, "bytes", 0, maxHuge)
	case VerbFail:
		d.N, err = number(verb, arg, "an HTTP error status", 400, 599)
	case VerbFinish:
		if arg != "stop" && arg != "length" && arg != "content_filter" {
			err = fmt.Errorf("finish: expected stop, length or content_filter, got %q", arg)
		}
	case VerbUsage:
		return usageDirective(arg)
	}
	return d, err
}

// usageDirective reads "none" or "PROMPT COMPLETION".
func usageDirective(arg string) (Directive, error) {
	d := Directive{Verb: VerbUsage, Text: arg}
	if arg == "none" {
		return d, nil
	}
	fields := strings.Fields(arg)
	if len(fields) != 2 {
		return d, fmt.Errorf(`usage: expected "none" or two token counts, got %q`, arg)
	}
	var err error
	if d.Prompt, err = number(VerbUsage, fields[0], "prompt tokens", 0, math.MaxInt32); err != nil {
		return d, err
	}
	d.N, err = number(VerbUsage, fields[1], "completion tokens", 0, math.MaxInt32)
	return d, err
}

func number(verb Verb, arg, what string, low, high int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(arg, ".")) // a template's sentence ends behind it
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s: expected %s from %d to %d, got %q", verb, what, low, high, arg)
	}
	return n, nil
}
