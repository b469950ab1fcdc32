package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// MediaType is what a run's output is to be (SPEC.md, JSON output).
type MediaType string

// The media types.
const (
	Text MediaType = "text/plain"       // all that the agent said
	JSON MediaType = "application/json" // the JSON that it answered with
)

// ParseMediaType reads a media type in any case; "" is Text.
func ParseMediaType(s string) (MediaType, error) {
	for _, m := range []MediaType{Text, JSON} {
		if strings.EqualFold(s, string(m)) {
			return m, nil
		}
	}
	if s == "" {
		return Text, nil
	}
	return "", fmt.Errorf("output media type %.64q: expected %s or %s", s, Text, JSON)
}

// envelopeRoom is what an envelope may need next to its output, encoded.
const envelopeRoom = 128 << 10

// outputRoom is what it has for its output, encoded.
const outputRoom = wire.MaxEnvelopeBytes - envelopeRoom

// Reasons for an answer not to be the JSON that was asked for.
var (
	errNothingSaid = errors.New("the answer is empty")
	errNotUTF8     = errors.New("it has bytes that are not UTF-8")
	errFences      = errors.New("it has more than one fenced code block marked json")
	errTooLarge    = errors.New("it is longer than an envelope can carry")
)

// answerJSON finds the JSON that a message is: the whole of it or, if that is none, what its one fenced code block marked json has,
// without the white space around it and otherwise byte for byte. JSON is RFC 8259's with the interoperability that RFC 7493
// demands: no name twice in an object, and no half of a surrogate pair.
func answerJSON(message string) (string, error) {
	text := strings.Trim(message, jsonSpace)
	if text == "" {
		return "", errNothingSaid
	}
	whole := valid(text)
	if whole == nil {
		return text, nil
	}
	blocks := fenced(message)
	switch len(blocks) {
	case 0:
		return "", whole
	case 1:
		text = strings.Trim(blocks[0], jsonSpace)
		return text, valid(text)
	}
	return "", errFences
}

// message is what an agent said in one go, before anything of it was replaced.
type message struct {
	text    strings.Builder
	long    bool // there is more than could be kept
	mangled bool // it had bytes that are not UTF-8, or halves of surrogate pairs
}

func (m *message) add(text string, raw jsontext.Value) {
	var strict string
	m.mangled = m.mangled || json.Unmarshal(raw, &strict) != nil
	if m.long = m.long || m.text.Len()+len(text) > keptText; !m.long {
		m.text.WriteString(text)
	}
}

// json is the JSON that the message is, or why it is none that an envelope can carry.
func (m *message) json() (string, error) {
	switch {
	case m.long:
		return "", errTooLarge
	case m.mangled:
		return "", errNotUTF8
	}
	value, err := answerJSON(m.text.String())
	if err != nil {
		return "", err
	}
	if quoted, err := jsontext.AppendQuote(nil, value); err != nil || len(quoted) > outputRoom {
		return "", errTooLarge
	}
	return value, nil
}

const jsonSpace = " \t\r\n"

// valid says what is wrong with a text as JSON.
func valid(text string) error {
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	d := jsontext.NewDecoder(strings.NewReader(text))
	if err := d.SkipValue(); err != nil {
		return err
	}
	if rest := strings.Trim(text[d.InputOffset():], jsonSpace); rest != "" {
		return fmt.Errorf("there is more behind the first value, which ends after %d bytes", d.InputOffset())
	}
	return nil
}

const (
	maxFenceIndent = 3 // by which a fence may be indented, as CommonMark has it
	minFence       = 3
)

// fenced finds what stands in a text's fenced code blocks marked json. A block that is not closed is none: the answer was cut.
func fenced(text string) []string {
	var blocks []string
	var open string // the fence of the block that is being read
	var marked bool
	var inside strings.Builder
	for line := range strings.Lines(text) {
		fence, info := fenceOf(line)
		switch {
		case open == "" && fence != "":
			open, marked = fence, strings.EqualFold(info, "json")
			inside.Reset()
		case open != "" && info == "" && strings.HasPrefix(fence, open):
			if marked {
				blocks = append(blocks, inside.String())
			}
			open = ""
		case open != "":
			inside.WriteString(line)
		}
	}
	return blocks
}

// fenceOf splits a line that is a fence, of backticks or tildes, from what is written behind it; "" if the line is none.
func fenceOf(line string) (fence, info string) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > maxFenceIndent || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return "", ""
	}
	info = strings.TrimLeft(rest, rest[:1])
	fence = rest[:len(rest)-len(info)]
	info = strings.TrimSpace(info)
	if len(fence) < minFence || fence[0] == '`' && strings.Contains(info, "`") {
		return "", ""
	}
	return fence, info
}

// asJSON holds the answer of a turn that succeeded against JSON and, if it is none, asks for it once more: in the same session,
// within the same time and budget.
func (p *play) asJSON(ctx context.Context, f facts, v verdict) (facts, verdict) {
	v, wrong := p.gather.judgeJSON(v)
	if wrong == nil || errors.Is(wrong, errTooLarge) {
		return f, v
	}
	left, limited := p.goal.Limits.left(p.Now())
	switch over := demandVerdicts[f.demand]; {
	case f.demand != noDemand: // the agent had answered, which is of no use
		over.message, over.warnings = f.detail, append(v.warnings, v.message)
		return f, over
	case ctx.Err() != nil:
		return f, verdict{outcome: wire.OutcomeCancelled, reason: wire.ReasonCancelled, message: context.Cause(ctx).Error(), warnings: []string{v.message}}
	case limited && left <= 0:
		return f, failed(wire.ReasonDeadlineExceeded, p.late(), v.message)
	}
	p.gather.again("the answer was asked for once more, because it was not the JSON that was asked for: " + describe(wrong))
	call, err := p.seat.Session.PromptWith(p.spans.meta(), repair(wrong))
	if err != nil {
		return f, failed(wire.ReasonAgentCrashed, "the prompt for valid JSON could not be sent: "+err.Error())
	}
	if f, v = p.follow(ctx, call); v.outcome == wire.OutcomeSucceeded {
		v, _ = p.gather.judgeJSON(v)
	}
	return f, v
}

// judgeJSON is the verdict on the last message as JSON, and what is wrong with it.
func (c *collector) judgeJSON(v verdict) (verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, err := c.last.json()
	switch {
	case errors.Is(err, errTooLarge):
		return failed(wire.ReasonResultTooLarge, "the JSON that was asked for cannot be given whole: "+describe(err), v.warnings...), err
	case err != nil:
		return failed(wire.ReasonInvalidOutput, "the answer is not the JSON that was asked for: "+describe(err), v.warnings...), err
	}
	v.answer = answer
	return v, nil
}

// again makes room for the answer to the next prompt of the same turn.
func (c *collector) again(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent()
	c.warn(why)
}

// repair asks for the answer once more. It says what was wrong and nothing of the goal, which the session knows.
func repair(wrong error) string {
	return "Your last answer could not be used, because it had to be JSON and is not: " + describe(wrong) + ".\n\n" +
		"Answer once more. The answer must be one valid JSON value and nothing else: no words before or after it and no code fence. " +
		"No object may have a name twice."
}

const maxDescription = 256

// describe is an error in a few words; it may quote the answer.
func describe(wrong error) string {
	text := strings.TrimPrefix(wrong.Error(), "jsontext: ")
	return wire.CutText(wire.CleanText(text), maxDescription)
}
