package view

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// The directions of an Entry (SPEC.md, Transcripts).
const (
	toAgent   = "in"
	fromAgent = "out"
	fromHere  = "note"
)

// steer is goose's way to put a word into a prompt that is under way.
const steer = "_goose/unstable/session/steer"

// Entry shows an entry of a transcript: as the session's clients saw it, and the questions with their answers.
func (v *View) Entry(direction string, frame jsontext.Value) []byte {
	switch {
	case direction == fromHere:
		v.noted(frame)
	case v.muted:
	case direction == toAgent:
		v.told(read(frame))
	case direction == fromAgent:
		v.heard(read(frame))
	}
	return v.take()
}

// told shows what an agent was told.
func (v *View) told(f fields) {
	switch method := word(f["method"]); {
	case method == "session/prompt" || method == steer:
		for _, block := range acp.Elements(acp.Member(f["params"], "prompt"), maxBlocks) {
			text, more := content(block, maxPrompt)
			v.close()
			v.flow(user, "", text)
			v.more(more)
		}
		v.close()
	case method == "session/cancel":
		v.wide(warned, "── the agent was told to stop", maxWide)
	case method == "" && f["id"] != nil:
		v.answer(f["id"], f["result"])
	}
}

// heard shows what an agent said.
func (v *View) heard(f fields) {
	switch method, id := word(f["method"]), f["id"]; {
	case method == "session/request_permission" && id != nil:
		if options := v.question(f["params"]); len(v.asked) < maxBlocks && len(id) <= maxName {
			v.asked[string(id)] = options
		}
	case method == "session/update" && id == nil:
		v.update(acp.Member(f["params"], "update"))
	case method == "" && f["error"] != nil:
		v.failed("the agent", f["error"])
	}
}

// answer shows what was answered to a question.
func (v *View) answer(id, result jsontext.Value) {
	if len(id) > maxName {
		return
	}
	options, open := v.asked[string(id)]
	if !open {
		return
	}
	delete(v.asked, string(id))
	chosen := acp.Member(result, "outcome", "optionId")
	for _, o := range options {
		if bytes.Equal(o.ID, chosen) {
			v.line(warned, "[answer] "+o.Name+" ("+o.Kind+")")
			return
		}
	}
	v.line(warned, "[answer] "+word(acp.Member(result, "outcome", "outcome")))
}
