package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/standing"
)

// Names of the points of a trial.
const (
	started, greeted, opened, output, ended = "agent starts", "initialize", "session", "agent's output", "SIGTERM"
)

// Untried are the points of an agent that was not tried.
func Untried(why string) []Point {
	var points []Point
	for _, name := range []string{started, greeted, opened, output, ended} {
		points = append(points, skipped(name, why))
	}
	return points
}

// Agent judges a trial. grace is what it had between SIGTERM and SIGKILL.
func Agent(t standing.Trial, grace time.Duration) []Point {
	if t.Start != nil {
		return append([]Point{failed(started, t.Start.Error(), startAdvice(t.Start.Error()))}, Untried("the agent does not start")[1:]...)
	}
	points := []Point{ok(started, "its process is there")}
	switch {
	case t.Beside:
		points = []Point{ok(started, "somebody else's server answers")}
	case t.KeyLeft != nil:
		points = []Point{warning(started, "the key of its server stays where its tools can read it: "+t.KeyLeft.Error(),
			"nothing, if the agent's tools are trusted as much as the agent; else run it as a command on stdin and stdout (goose acp)")}
	}
	return append(points, greeting(t), session(t), lines(t), end(t, grace))
}

const byHand = "start it by hand in the image with the same environment, and look at what it says"

// startAdvice knows what loaders say.
func startAdvice(why string) string {
	if strings.Contains(why, "shared librar") || strings.Contains(why, "GLIBC") || strings.Contains(why, "GLIBCXX") {
		return "install the libraries that it names (ldd shows them all), of a version that is new enough"
	}
	return byHand
}

func greeting(t standing.Trial) Point {
	if t.Greeting != nil {
		advice := startAdvice(t.Greeting.Error())
		if advice == byHand {
			advice = "the command has to speak the Agent Client Protocol, version 1, on stdin and stdout (goose acp, not goose), or listen at --endpoint; " + byHand
		}
		return failed(greeted, t.Greeting.Error(), advice)
	}
	text := fmt.Sprintf("protocolVersion 1; %s %s", or(t.Agent.Name, "without a name"), t.Agent.Version)
	if list := capabilities(t.Agent); list != "" {
		text += "\n" + list
	}
	return ok(greeted, "%s", text)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// capabilities are those that the agent says it has, in words.
func capabilities(a router.Agent) string {
	var answer struct {
		Capabilities struct {
			Prompt   map[string]jsontext.Value `json:"promptCapabilities"`
			Sessions map[string]jsontext.Value `json:"sessionCapabilities"`
			MCP      map[string]jsontext.Value `json:"mcpCapabilities"`
			Load     bool                      `json:"loadSession"`
		} `json:"agentCapabilities"`
	}
	if json.Unmarshal(a.Answer, &answer, router.Lenient) != nil {
		return ""
	}
	c := answer.Capabilities
	words := []string{}
	if c.Load {
		words = append(words, "session/load")
	}
	for prefix, set := range map[string]map[string]jsontext.Value{"session/": c.Sessions, "prompts with ": c.Prompt, "mcp by ": c.MCP} {
		for name, value := range set {
			if k := value.Kind(); k != 'f' && k != 'n' {
				words = append(words, prefix+name)
			}
		}
	}
	return strings.Join(slices.Sorted(slices.Values(words)), ", ")
}

func session(t standing.Trial) Point {
	switch {
	case !t.Answered:
		return skipped(opened, "the agent was not greeted")
	case t.Session != nil:
		return failed(opened, t.Session.Error(), "the agent needs its provider and its keys to be configured (goose: GOOSE_PROVIDER, GOOSE_MODEL and the provider's key)")
	case t.Closing != nil:
		return warning(opened, "was opened, but session/close failed: "+t.Closing.Error(), "nothing: sessions that are over stay in the agent's memory")
	default:
		return ok(opened, "opened in %d ms%s", t.Ready.Milliseconds(), map[bool]string{true: ", and closed"}[t.Agent.Closes])
	}
}

func lines(t standing.Trial) Point {
	if t.Broken > 0 {
		return warning(output, fmt.Sprintf("%d lines on stdout were no messages of the protocol", t.Broken), "let it log to stderr: a line of a log that looks like a message would be taken for one")
	}
	if !t.Answered {
		return skipped(output, "there was none")
	}
	return ok(output, "nothing but the protocol")
}

func end(t standing.Trial, grace time.Duration) Point {
	switch {
	case t.Beside:
		return skipped(ended, "somebody else's server is left alone")
	case t.Gone && t.End == nil:
		return skipped(ended, "the agent had ended by itself")
	case t.End != nil:
		return failed(ended, t.End.Error(), "something that the agent started does not even die of SIGKILL")
	case t.Killed:
		return warning(ended, fmt.Sprintf("did not end the agent within %s; it was killed", grace), "let it end on SIGTERM: each cancelled turn that it ignores, and each drain, takes that long")
	case t.Terminated >= grace:
		return warning(ended, fmt.Sprintf("left something of the agent running for %s; it was killed", grace), "let the agent end what it starts")
	default:
		return ok(ended, "ended it in %d ms, and nothing is left", t.Terminated.Milliseconds())
	}
}
