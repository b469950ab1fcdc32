package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`
	newSession = `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}`
	promptID   = `"id":3`
)

// prompt asks for the updates.
func prompt(session string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0",%s,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"parts: %d 1024"}]}}`, promptID, session, updates)
}

func sessionOf(line string) string {
	_, rest, _ := strings.Cut(line, `"sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// viewer is a client by WebSocket.
type viewer struct {
	conn *websocket.Conn
	read int // messages so far
}

func (h *harness) view(ctx context.Context) (*viewer, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+h.acp+"/acp?token="+steerKey, nil) //nolint:bodyclose // websocket.Dial says that it needs no closing
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn.SetReadLimit(1 << 26)
	v := &viewer{conn: conn}
	_, err = v.ask(ctx, initialize, `"id":1`)
	return v, err
}

// ask sends a message and reads until its answer.
func (v *viewer) ask(ctx context.Context, message, id string) (string, error) {
	if err := v.conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	return v.until(ctx, id)
}

// until reads up to the message that has this near its beginning.
func (v *viewer) until(ctx context.Context, what string) (string, error) {
	for {
		_, data, err := v.conn.Read(ctx)
		if err != nil {
			return "", fmt.Errorf("read: %w", err)
		}
		v.read++
		if strings.Contains(string(data[:min(len(data), 60)]), what) {
			return string(data), nil
		}
	}
}

// prompt sends one and reads until its answer: all updates must have come before that, or nothing was measured.
func (v *viewer) prompt(ctx context.Context, session string) error {
	before := v.read
	if _, err := v.ask(ctx, prompt(session), promptID); err != nil {
		return err
	}
	if n := v.read - before - 1; n < updates {
		return fmt.Errorf("expected %d updates, there were %d", updates, n)
	}
	return nil
}

func (v *viewer) close() { _ = v.conn.CloseNow() }

// crowd tells the processor time in µs that the harness takes for an update and a viewer, by how many viewers there are.
func crowd(ctx context.Context, h *harness) (map[int]float64, error) {
	costs := map[int]float64{}
	for _, viewers := range crowds {
		first, err := h.view(ctx)
		if err != nil {
			return nil, err
		}
		opened, err := first.ask(ctx, newSession, `"id":2`)
		if err != nil {
			return nil, err
		}
		session := sessionOf(opened)
		all := []*viewer{first}
		for len(all) < viewers {
			v, err := h.view(ctx)
			if err != nil {
				return nil, err
			}
			load := `{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":` + strconv.Quote(session) + `,"cwd":"/tmp","mcpServers":[]}}`
			if _, err := v.ask(ctx, load, `"id":2`); err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		cost, err := h.shown(ctx, all, session)
		if err != nil {
			return nil, err
		}
		costs[viewers] = cost
		for _, v := range all {
			v.close()
		}
	}
	return costs, nil
}

// enough updates for what a harness does now and then, such as collecting garbage.
const enough = 30_000

// shown has the first of the viewers prompt, and all read.
func (h *harness) shown(ctx context.Context, all []*viewer, session string) (float64, error) {
	prompted := max(1, enough/(updates*len(all)))
	before, err := h.used()
	if err != nil {
		return 0, err
	}
	for range prompted {
		ctx, cancel := context.WithTimeout(ctx, patience)
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return all[0].prompt(ctx, session) })
		for _, v := range all[1:] {
			group.Go(func() error {
				for range updates + 1 { // with the prompt itself, as what the user said
					if _, _, err := v.conn.Read(ctx); err != nil {
						return fmt.Errorf("a viewer: %w", err)
					}
				}
				return nil
			})
		}
		err := group.Wait()
		cancel()
		if err != nil {
			return 0, err
		}
	}
	after, err := h.used()
	return float64((after - before).Microseconds()) / float64(prompted*updates*len(all)), err
}
