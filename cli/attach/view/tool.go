package view

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// tool is what is remembered of a tool call.
type tool struct {
	title, input, status string
	lines                []shown // of its newest content
}

// shown is a line of what a tool said or changed.
type shown struct {
	kind kind
	text string
}

// tool shows the begin of a tool call, and its end with what came of it.
func (v *View) tool(u fields) {
	id := cut(word(u["toolCallId"]), maxName)
	t := v.tools[id]
	begins := t == nil
	if begins {
		t = &tool{}
		v.remember(id, t)
	}
	if u["title"].Kind() == '"' {
		t.title = Line(word(u["title"]), maxName)
	}
	if t.title == "" {
		t.title = Line(id, maxName)
	}
	if input := u["rawInput"]; input.Kind() == '{' && len(input) > len("{}") {
		t.input = Line(string(input[:min(len(input), maxText)]), maxWide)
	}
	if lines := results(u["content"]); lines != nil {
		t.lines = lines
	}
	if begins {
		v.line(tooled, "[tool] "+t.title+" "+t.input)
	}
	status := word(u["status"])
	if status == "" || status == t.status {
		return
	}
	t.status = status
	switch status {
	case "pending", "in_progress":
		return
	}
	v.wide(tooled, "[tool] "+cut(t.title, v.width/2)+": "+status, maxWide)
	for _, l := range t.lines {
		v.indented(l.kind, l.text)
	}
	t.lines = nil
}

// remember forgets the oldest when there are too many.
func (v *View) remember(id string, t *tool) {
	if len(v.order) >= maxTools {
		delete(v.tools, v.order[0])
		v.order = v.order[1:]
	}
	v.tools[id] = t
	v.order = append(v.order, id)
}

// results is a tool call's content, in short.
func results(value jsontext.Value) []shown {
	var out []shown
	for _, e := range acp.Elements(value, maxBlocks) {
		c := read(e)
		switch word(c["type"]) {
		case "content":
			text, more := content(c["content"], maxDiff)
			out = append(out, beginning(string(text), more)...)
		case "diff":
			out = append(out, diff(c)...)
		}
		if len(out) > maxBlocks {
			return append(out[:maxBlocks], shown{dimmed, "…"})
		}
	}
	return out
}

// beginning is the first lines of a text.
func beginning(text string, more int) []shown {
	text = strings.TrimRight(text, "\n\r ")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	rest := ""
	switch left := len(lines) - maxLines; {
	case more > 0:
		rest = fmt.Sprintf("… %d bytes more", more)
	case left == 1:
		rest = "… 1 line more"
	case left > 1:
		rest = fmt.Sprintf("… %d lines more", left)
	}
	var out []shown
	for _, l := range lines[:min(len(lines), maxLines)] {
		out = append(out, shown{dimmed, cut(l, maxText/maxBlocks/maxLines)})
	}
	if rest != "" {
		out = append(out, shown{dimmed, rest})
	}
	return out
}

// diff is a change of a file: which lines went and which came, between what is the same at the beginning and the end.
func diff(c fields) []shown {
	before, cutOff := quoted(c["oldText"], maxDiff)
	after, cutOff2 := quoted(c["newText"], maxDiff)
	was, is := split(string(before)), split(string(after))
	for len(was) > 0 && len(is) > 0 && was[0] == is[0] {
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	about := ""
	if cutOff+cutOff2 > 0 {
		about = " at least"
	}
	out := []shown{{other, fmt.Sprintf("%s:%s -%d +%d", Line(word(c["path"]), stdWidth), about, len(was), len(is))}}
	// Half of the room each, and what one leaves is the other's.
	gone := min(len(was), max(maxChanged/2, maxChanged-len(is)))
	come := min(len(is), maxChanged-gone)
	for _, l := range was[:gone] {
		out = append(out, shown{removed, "- " + cut(l, maxName*4)})
	}
	for _, l := range is[:come] {
		out = append(out, shown{added, "+ " + cut(l, maxName*4)})
	}
	if left := len(was) + len(is) - gone - come; left > 0 {
		out = append(out, shown{dimmed, fmt.Sprintf("… %d more", left)})
	}
	return out
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
