package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sink takes an answer piece by piece; both kinds of answer (streamed, whole) implement it.
type sink interface {
	// open sends the headers, so that a client sees the answer begin before its first word.
	open() error
	text(piece string) error
	toolCall(id, name, arguments string) error
	// started reports whether the status line is out, after which a failure can only cut the connection.
	started() bool
	close(finish string, u *usage) error
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// statusError ends an answer with an HTTP status.
type statusError struct {
	status int
	text   string
}

func (e statusError) Error() string { return e.text }

const (
	finishStop  = "stop"
	finishTools = "tool_calls"
)

// player plays one script into one sink.
type player struct {
	server     *Server
	request    *request
	asked      time.Time // when the request came in
	sink       sink
	bytes      int
	finish     string
	usage      *usage
	noUsage    bool
	paragraphs int
}

// play goes on after the tool results the conversation already holds, up to the script's end or to its next
// tool call: the conversation is the only state.
func (p *player) play(ctx context.Context, script []Directive, results []string) error {
	p.finish = finishStop
	script = p.skip(script, len(results))
	if n := len(results); n > 0 {
		if err := p.say(orNone(results[n-1])); err != nil {
			return err
		}
	}
	for _, d := range script {
		if d.Verb == VerbShell {
			called, err := p.shell(d.Text)
			if err != nil {
				return err
			}
			if called {
				p.finish = finishTools
				break
			}
			continue
		}
		if err := p.step(ctx, d); err != nil {
			return err
		}
	}
	return p.sink.close(p.finish, p.figures())
}

// skip drops the directives that were played before the n-th tool result, but keeps what they said about
// usage and finish.
func (p *player) skip(script []Directive, n int) []Directive {
	for i := 0; i < len(script) && n > 0; i++ {
		switch script[i].Verb {
		case VerbShell:
			if n--; n == 0 {
				return script[i+1:]
			}
		case VerbUsage:
			p.setUsage(script[i])
		case VerbFinish:
			p.finish = script[i].Text
		case VerbSay, VerbSlow, VerbHuge, VerbFail, VerbHang, VerbGate, VerbMark:
		}
	}
	if n > 0 {
		return nil
	}
	return script
}

func (p *player) step(ctx context.Context, d Directive) error {
	switch d.Verb {
	case VerbSay:
		return p.say(d.Text)
	case VerbSlow:
		return p.slow(ctx, d.N)
	case VerbHuge:
		return p.huge(d.N)
	case VerbFail:
		return statusError{d.N, fmt.Sprintf("scripted failure %d %s", d.N, http.StatusText(d.N))}
	case VerbHang:
		if err := p.sink.open(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case VerbGate:
		if err := p.sink.open(); err != nil {
			return err
		}
		return p.server.gates.wait(ctx, d.Text)
	case VerbFinish:
		p.finish = d.Text
	case VerbUsage:
		p.setUsage(d)
	case VerbMark:
		return p.server.marks.set(d.Text, p.asked)
	case VerbShell:
		return errors.New("shell is played by the caller")
	}
	return nil
}

func (p *player) setUsage(d Directive) {
	p.noUsage = d.Text == "none"
	p.usage = &usage{Prompt: d.Prompt, Completion: d.N, Total: d.Prompt + d.N}
}

func (p *player) figures() *usage {
	if p.noUsage {
		return nil
	}
	if p.usage != nil {
		return p.usage
	}
	u := usage{Prompt: p.request.promptTokens(), Completion: tokens(p.bytes)}
	u.Total = u.Prompt + u.Completion
	return &u
}

func (p *player) shell(command string) (called bool, err error) {
	name, arguments, ok := p.request.shellCall(command)
	if !ok {
		return false, p.say("error: this client offers no shell tool")
	}
	// goose keeps tool calls by id for the whole session; the conversation's length makes each one new.
	id := fmt.Sprintf("call_%d", len(p.request.Messages))
	p.bytes += len(arguments)
	return true, p.sink.toolCall(id, name, arguments)
}

func orNone(result string) string {
	if strings.TrimSpace(result) == "" {
		return "(no output)"
	}
	return result
}
