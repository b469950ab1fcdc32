package view

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// Notification shows what an endpoint tells of a session.
func (v *View) Notification(method string, params jsontext.Value) []byte {
	if method == "session/update" {
		v.update(acp.Member(params, "update"))
	}
	return v.take()
}

// fields are the members of an update that are looked at.
type fields map[string]jsontext.Value

func read(object jsontext.Value) fields {
	f := fields{}
	acp.Each(object, func(name string, value jsontext.Value) bool {
		if len(f) < maxBlocks && len(name) <= maxName {
			f[name] = value
		}
		return true
	})
	return f
}

// update shows one session/update.
func (v *View) update(update jsontext.Value) {
	u := read(update)
	kind := word(u["sessionUpdate"])
	if kind == "session_info_update" {
		v.news(u["_meta"])
		return
	}
	if v.muted {
		return
	}
	switch kind {
	case "agent_message_chunk":
		v.chunk(said, u, maxText)
	case "agent_thought_chunk":
		v.chunk(thought, u, maxText)
	case "user_message_chunk":
		v.chunk(user, u, maxPrompt)
	case "tool_call", "tool_call_update":
		v.tool(u)
	case "plan":
		v.steps(u["entries"])
	case "usage_update":
		v.used(u)
	case "current_mode_update":
		v.line(dimmed, "[mode] "+word(u["currentModeId"]))
	case "available_commands_update", "config_option_update":
	default:
		if name := cut(kind, maxName); name != "" && !v.kinds[name] && len(v.kinds) < maxKinds {
			v.kinds[name] = true
			v.line(dimmed, "[agent] "+Line(kind, stdWidth/2)+", which this version does not know")
		}
	}
}

// chunk shows a piece of a message.
func (v *View) chunk(k kind, u fields, limit int) {
	message := word(u["messageId"])
	text, more := content(u["content"], limit)
	if k == user { // each block as it was sent
		v.close()
	}
	v.flow(k, cut(message, maxName), text)
	v.more(more)
}

// content is a content block as text.
func content(block jsontext.Value, limit int) (text []byte, more int) {
	c := read(block)
	switch kind := word(c["type"]); kind {
	case "text", "":
		return quoted(c["text"], limit)
	case "resource_link":
		return []byte("[" + Line(word(c["uri"]), stdWidth) + "]"), 0
	case "resource":
		return []byte("[" + Line(word(acp.Member(c["resource"], "uri")), stdWidth) + "]"), 0
	default:
		return []byte("[" + Line(kind, maxName) + "]"), 0
	}
}

// news are what the harness and the agent tell of the session.
func (v *View) news(meta jsontext.Value) {
	m := read(meta)
	if goose := m["goose"]; goose != nil {
		if id := word(acp.Member(goose, "activeRunId")); len(id) <= maxName {
			v.active = id
		}
	}
	if m["hearth"] != nil {
		v.noted(m["hearth"])
	}
}

// noted shows what the harness notes in a transcript (SPEC.md, Transcripts).
func (v *View) noted(note jsontext.Value) {
	n := read(note)
	run := n["run"]
	switch {
	case run != nil:
		v.begun(n, run)
	case v.muted:
	case n["unanswered"] != nil:
		v.wide(dimmed, "── nobody answered the agent's "+word(n["unanswered"]), maxWide)
	case n["note"] != nil:
		v.wide(warned, fmt.Sprintf("── %s entries of the transcript are missing here: %s", Line(n["entries"].String(), 20), missing(word(n["note"]))), maxWide)
	}
}

func missing(why string) string {
	switch why {
	case "dropped":
		return "the oldest made room for newer ones"
	case "lost":
		return "they could not be written, or not be read again"
	case "torn":
		return "the harness ended while it wrote"
	case "too long":
		return "longer than a transcript keeps"
	}
	return why
}

// begun shows the begin and the end of a run.
func (v *View) begun(n fields, run jsontext.Value) {
	r := read(run)
	v.note = Note{RunUID: word(r["uid"]), State: word(n["state"]), Outcome: word(n["outcome"]), Reason: word(n["reason"])}
	if _, err := fmt.Sscan(string(n["attempt"]), &v.note.Attempt); err != nil {
		v.note.Attempt = 0
	}
	mine := v.cfg.RunUID == "" || v.note.RunUID == v.cfg.RunUID && (v.cfg.Attempt == 0 || v.note.Attempt == 0 || v.note.Attempt == v.cfg.Attempt)
	if v.muted = !mine; v.muted {
		return
	}
	v.over = v.note.State == Ended
	name := word(r["namespace"]) + "/" + word(r["name"])
	if v.note.Attempt > 1 {
		name += fmt.Sprintf(", attempt %d", v.note.Attempt)
	}
	if !v.over {
		v.wide(dimmed, "── run "+name+" begins", maxWide)
		return
	}
	if v.usage != "" {
		v.line(dimmed, v.usage)
		v.usage = ""
	}
	v.wide(dimmed, fmt.Sprintf("── run %s ended: %s (%s)", name, v.note.Outcome, v.note.Reason), maxWide)
	v.muted = v.cfg.RunUID != "" // in a standing session others go on
}

// steps shows a plan, unless it was shown just so.
func (v *View) steps(entries jsontext.Value) {
	var lines []string
	all := acp.Elements(entries, maxPlan+1)
	for i, e := range all {
		if i == maxPlan {
			lines = append(lines, "…")
			break
		}
		step := read(e)
		mark := map[string]string{"completed": "[x] ", "in_progress": "[>] "}[word(step["status"])]
		if mark == "" {
			mark = "[ ] "
		}
		lines = append(lines, mark+word(step["content"]))
	}
	if plan := strings.Join(lines, "\n"); plan != v.plan {
		v.plan = plan
		v.line(tooled, "[plan]")
		for _, l := range lines {
			v.indented(other, Line(l, v.width))
		}
	}
}

// used keeps what the agent says that it has used; it is shown at the run's end.
func (v *View) used(u fields) {
	v.usage = "[usage] " + Line(string(cutBytes(u["used"])), 24) + " of " + Line(string(cutBytes(u["size"])), 24) + " tokens of context"
	if cost := read(u["cost"]); cost["amount"] != nil {
		v.usage += ", " + Line(string(cutBytes(cost["amount"])), 24) + " " + Line(word(cost["currency"]), 16)
	}
}

func cutBytes(value jsontext.Value) jsontext.Value { return value[:min(len(value), maxName)] }
