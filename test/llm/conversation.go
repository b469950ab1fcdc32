package llm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is what a chat completion asks, as far as the script needs it; other fields are ignored, as
// real servers do.
type request struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Tools         []tool    `json:"tools"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a string, null, or a list of parts of which the text ones count.
type content string

func (c *content) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return fmt.Errorf("messages.content: expected a string or a list of parts: %w", err)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

type tool struct {
	Function struct {
		Name       string `json:"name"`
		Parameters struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
			Required []string `json:"required"`
		} `json:"parameters"`
	} `json:"function"`
}

// turnContext is what goose appends to the user's text in every request.
var turnContext = regexp.MustCompile(`(?s)<turn-context>.*?</turn-context>`)

// titleMark stands in the requests by which goose asks for a conversation's title; they quote the goal
// and must not play it.
const titleMark = "---BEGIN USER MESSAGES---"

// goal returns the last user text and the results of the tools called since.
func (r *request) goal() (string, []string) {
	var results []string
	for _, m := range slices.Backward(r.Messages) {
		switch m.Role {
		case "tool":
			results = append(results, string(m.Content))
		case "user":
			text := strings.TrimSpace(turnContext.ReplaceAllString(string(m.Content), ""))
			if text != "" {
				slices.Reverse(results)
				return text, results
			}
		}
	}
	return "", nil
}

// promptTokens estimates four bytes a token.
func (r *request) promptTokens() int {
	n := 0
	for _, m := range r.Messages {
		n += len(m.Content)
	}
	return tokens(n)
}

func tokens(bytes int) int { return (bytes + 3) / 4 }

// shellCall builds the call of the tool that runs commands, under the name and with the argument that this
// client offers; ok is false when it offers none.
func (r *request) shellCall(command string) (name, arguments string, ok bool) {
	for _, want := range []string{"shell", "bash", "terminal"} {
		for _, t := range r.Tools {
			f := t.Function
			if f.Name != want && !strings.HasSuffix(f.Name, "__"+want) {
				continue
			}
			args := map[string]string{}
			for _, key := range f.Parameters.Required {
				if f.Parameters.Properties[key].Type == "string" {
					args[key] = "scripted"
				}
			}
			key := "command"
			if _, has := f.Parameters.Properties["cmd"]; has {
				key = "cmd"
			}
			args[key] = command
			raw, err := json.Marshal(args)
			return f.Name, string(raw), err == nil
		}
	}
	return "", "", false
}
