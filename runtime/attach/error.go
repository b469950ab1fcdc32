package attach

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/router"
)

// Codes of the errors that clients get from the harness and not from the agent (SPEC.md, People at the agent).
const (
	CodeNotAllowed = -32050 // it needs the steer key, or the Agent does not allow it
	CodeBusy       = -32051 // the session carries out another prompt, or too much waits
	CodeGone       = -32052 // the agent, the session or the run is gone

	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotFound       = -32002 // the Agent Client Protocol's own
	codeMethodNotFound = -32601
)

// refusal is the error that a request is answered with.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// maxStderr is how much of a dead agent's stderr clients are told, in bytes.
const maxStderr = 1 << 10

// gone is what a client is told when its request has no answer. Who may watch only is not told what the agent wrote to stderr.
func gone(err error, access Access) *refusal {
	var exit *process.ExitError
	switch {
	case errors.As(err, &exit):
		r := refuse(CodeGone, "the agent %s before it answered; it is restarted: load the session again", exit.Exit)
		if access == Steer {
			r.Data = map[string]string{"stderr": lastOf(wire.CleanText(exit.Exit.Stderr), maxStderr)}
		}
		return r
	case errors.Is(err, router.ErrLineTooLong):
		return refuse(codeInternal, "%s", router.ErrLineTooLong)
	case errors.Is(err, router.ErrBacklog):
		return refuse(CodeBusy, "%s", router.ErrBacklog)
	}
	return refuse(CodeGone, "the connection to the agent ended before it answered: load the session again")
}

// lastOf keeps the last bytes of a text, beginning at a whole character.
func lastOf(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	from := len(text) - limit
	for from < len(text) && text[from]&0xC0 == 0x80 {
		from++
	}
	return text[from:]
}

var null = jsontext.Value("null")

// answer builds an answer. The id is written as it is.
func answer(id jsontext.Value, member string, value []byte) []byte {
	if id == nil {
		id = null
	}
	b := make([]byte, 0, len(id)+len(value)+40)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	b = append(append(b, `,"`+member+`":`...), value...)
	return append(b, '}')
}

func failure(id jsontext.Value, r *refusal) []byte { return answer(id, "error", encode(r)) }

// encode is for what cannot fail: our own structs of text and numbers.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
