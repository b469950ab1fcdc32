package view

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// Option is an answer to a permission question. Its key is its place, from 1.
type Option struct {
	ID   jsontext.Value // as the agent wrote it
	Name string         // fit to be shown
	// Kind is the protocol's own word for what the answer does, such as allow_once; a name may say anything.
	Kind string
}

// Question shows a permission question. Options beyond those that there are keys for cannot be chosen.
func (v *View) Question(params jsontext.Value) ([]Option, []byte) {
	return v.question(params), v.take()
}

func (v *View) question(params jsontext.Value) []Option {
	p := read(params)
	call := read(p["toolCall"])
	title := word(call["title"])
	input := ""
	if known := v.tools[cut(word(call["toolCallId"]), maxName)]; known != nil {
		input = known.input
		if title == "" {
			title = known.title
		}
	}
	if given := call["rawInput"]; given.Kind() == '{' && len(given) > len("{}") {
		input = string(given[:min(len(given), maxText)])
	}
	if title == "" {
		title = "something that it does not name"
	}
	v.wide(warned, "[question] may the agent: "+title+" "+input, maxWide) // whole: it is decided on
	for _, l := range results(call["content"]) {
		v.indented(l.kind, l.text)
	}
	var options []Option
	all := acp.Elements(p["options"], maxBlocks)
	for _, e := range all {
		o := read(e)
		if id := o["optionId"]; id.Kind() == '"' && len(id) <= maxOption && len(options) < maxOptions {
			options = append(options, Option{ID: slices.Clone(id), Name: Line(word(o["name"]), v.width/2), Kind: Line(word(o["kind"]), 24)})
		}
	}
	for i, o := range options {
		v.indented(warned, fmt.Sprintf("%d  %s (%s)", i+1, o.Name, o.Kind))
	}
	if left := len(all) - len(options); left > 0 {
		v.indented(dimmed, fmt.Sprintf("… and %d more, which have no key", left))
	}
	return options
}

// Answered shows what came of a question.
func (v *View) Answered(how string) []byte {
	v.line(warned, "[answer] "+how)
	return v.take()
}

// Failed shows why a request was refused.
func (v *View) Failed(what string, failure jsontext.Value) []byte {
	v.failed(what, failure)
	return v.take()
}

func (v *View) failed(what string, failure jsontext.Value) {
	f := read(failure)
	v.wide(warned, fmt.Sprintf("[refused] %s: %s (%s)", what, word(f["message"]), cutBytes(f["code"])), maxWide)
}
