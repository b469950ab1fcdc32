package attach

import (
	"bytes"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// methodSteer is goose's way to put a word into a prompt that is under way.
const methodSteer = "_goose/unstable/session/steer"

// view is what a client is shown of an entry of a transcript: notifications as the agent wrote them, prompts as chunks of what
// the user said, and what the harness notes as news of the session. It depends on nothing else, so a late client sees what an
// early one saw.
func view(session string, e transcript.Entry) [][]byte {
	if e.Direction == transcript.Note {
		return [][]byte{noted(session, e.Frame)}
	}
	f, bad := router.Parse(e.Frame, router.Lenient)
	if bad != nil {
		return nil
	}
	return viewFrame(session, e.Direction, &f)
}

func viewFrame(session string, d transcript.Direction, f *router.Frame) [][]byte {
	switch {
	case d == transcript.FromAgent && f.Method != "" && f.ID() == nil:
		return [][]byte{f.Raw}
	case d == transcript.ToAgent && (f.Method == acp.AgentMethodSessionPrompt || f.Method == methodSteer):
		return prompted(session, f.Params())
	}
	return nil
}

// prompted shows the content blocks of a prompt.
func prompted(session string, params jsontext.Value) [][]byte {
	d := jsontext.NewDecoder(bytes.NewReader(readObject(params).get("prompt")), router.Lenient)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil
	}
	var chunks [][]byte
	for d.PeekKind() != ']' {
		block, err := d.ReadValue()
		if err != nil {
			return chunks
		}
		chunks = append(chunks, update(session, append([]byte(`{"sessionUpdate":"user_message_chunk","content":`), append(block, '}')...)))
	}
	return chunks
}

// noted shows what the harness notes.
func noted(session string, frame jsontext.Value) []byte {
	return update(session, append([]byte(`{"sessionUpdate":"session_info_update","_meta":{"hearth":`), append(bytes.Clone(frame), "}}"...)...))
}

func update(session string, what []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`+acp.ClientMethodSessionUpdate+`","params":{"sessionId":`), encode(session)...)
	b = append(append(b, `,"update":`...), what...)
	return append(b, "}}"...)
}
