package llm

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// head is what every answer and every piece of one begins with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

type choice struct {
	Index   int      `json:"index"`
	Delta   *speaker `json:"delta,omitempty"`
	Message *speaker `json:"message,omitempty"`
	Finish  *string  `json:"finish_reason"`
}

type speaker struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
	Calls   []call `json:"tool_calls,omitempty"`
}

type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type completion struct {
	head
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

func newHead(id, object, model string) head {
	return head{ID: id, Object: object, Created: time.Now().Unix(), Model: model}
}

func newCall(id, name, arguments string) call {
	c := call{ID: id, Type: "function"}
	c.Function.Name, c.Function.Arguments = name, arguments
	return c
}

// streamed writes server-sent events, each flushed.
type streamed struct {
	w        http.ResponseWriter
	head     head
	withUse  bool
	begun    bool
	hasSpoke bool
}

func (s *streamed) started() bool { return s.begun }

func (s *streamed) open() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(s.w).Flush()
}

func (s *streamed) text(piece string) error { return s.delta(&speaker{Content: piece}, nil) }

func (s *streamed) toolCall(id, name, arguments string) error {
	return s.delta(&speaker{Calls: []call{newCall(id, name, arguments)}}, nil)
}

func (s *streamed) delta(d *speaker, finish *string) error {
	if !s.hasSpoke {
		s.hasSpoke = true
		d.Role = "assistant"
	}
	return s.event(completion{head: s.head, Choices: []choice{{Delta: d, Finish: finish}}})
}

func (s *streamed) event(v any) error {
	if err := s.open(); err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.line(string(raw))
}

func (s *streamed) line(data string) error {
	if _, err := s.w.Write([]byte("data: " + data + "\n\n")); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *streamed) close(finish string, u *usage) error {
	if err := s.delta(&speaker{}, &finish); err != nil {
		return err
	}
	if s.withUse && u != nil {
		if err := s.event(completion{head: s.head, Choices: []choice{}, Usage: u}); err != nil {
			return err
		}
	}
	return s.line("[DONE]")
}

// whole collects an answer and writes it at its end.
type whole struct {
	w     http.ResponseWriter
	head  head
	words strings.Builder
	calls []call
}

func (h *whole) started() bool { return false }
func (h *whole) open() error   { return nil }

func (h *whole) text(piece string) error {
	h.words.WriteString(piece)
	return nil
}

func (h *whole) toolCall(id, name, arguments string) error {
	h.calls = append(h.calls, newCall(id, name, arguments))
	return nil
}

func (h *whole) close(finish string, u *usage) error {
	said := &speaker{Role: "assistant", Content: h.words.String(), Calls: h.calls}
	return writeJSON(h.w, http.StatusOK, completion{head: h.head, Choices: []choice{{Message: said, Finish: &finish}}, Usage: u})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}

// writeError answers as the OpenAI API does, so that clients show the text.
func writeError(w http.ResponseWriter, status int, text string) {
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	body := map[string]any{"error": map[string]any{"message": text, "type": kind, "code": status}}
	// The client may be gone; nothing is left to tell it.
	_ = writeJSON(w, status, body)
}
