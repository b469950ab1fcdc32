package attach

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/acp"
	"github.com/hearthdev/hearth/cli/attach/view"
	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/internal/version"
)

const (
	methodInitialize = "initialize"
	methodList       = "session/list"
	methodLoad       = "session/load"
	methodPrompt     = "session/prompt"
	methodSteer      = "_goose/unstable/session/steer"
	methodCancel     = "$/cancel_request"
	methodPermission = "session/request_permission"

	codeNotFound = -32002
	codeNobody   = -32601 // leaves a question to others

	maxListed    = 4096 // sessions that are looked at
	maxHeld      = 16   // lines that wait for the session
	maxQuestions = 64   // that are open at once; the harness has no more
)

// talk is the client's side of a conversation with an endpoint about one run. It is pure: messages in, messages and text out.
type talk struct {
	view    *view.View
	uid     string // of the run
	attempt int64
	hint    string // the session's id as the run's record has it
	keys    bool   // somebody is there who can answer questions

	asked     int
	waits     map[string]string // methods of requests that wait for their answer, by id
	session   string            // the run's; "" while it is looked for
	loaded    bool              // all was shown that had been said
	shown     int               // notifications of the session that were shown
	skip      int               // of those that come again, after a loss in the middle of loading
	questions []question        // the oldest first, which is the one that is put
	number    int               // of questions that were put
	steering  bool
	held      []string // lines that wait for the session
	mute      bool     // what is typed is not allowed, which was said
}

type question struct {
	id      jsontext.Value
	params  jsontext.Value
	options []view.Option // once it was put
}

// step is what follows from something.
type step struct {
	send [][]byte
	show []byte
	look bool  // for the session again, a little later
	err  error // there is nothing more to be had
}

func newTalk(v *view.View, p place, keys bool) *talk {
	return &talk{view: v, uid: p.run, attempt: p.attempt, hint: p.session, keys: keys, waits: map[string]string{}}
}

// request is a request of ours.
func (t *talk) request(method, params string) []byte {
	t.asked++
	id := strconv.Itoa(t.asked)
	t.waits[id] = method
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func (t *talk) hello() []byte {
	const goose = `"_meta":{"goose":{"customNotifications":true}}`
	return t.request(methodInitialize, fmt.Sprintf(`{"protocolVersion":1,"clientInfo":{"name":"hearth","version":%s},"clientCapabilities":{%s}}`, acp.Quoted(version.Of()), goose))
}

// look asks for the sessions there are.
func (t *talk) look() []byte { return t.request(methodList, "{}") }

// message takes one of the endpoint's.
func (t *talk) message(data []byte) step {
	m := map[string]jsontext.Value{}
	acp.Each(data, func(name string, value jsontext.Value) bool {
		switch name {
		case "id", "method", "params", "result", "error":
			m[name] = value
		}
		return true
	})
	method, _ := acp.Text(m["method"])
	switch {
	case m["method"] == nil && m["id"] != nil:
		return t.answer(string(m["id"]), m["result"], m["error"])
	case method == methodPermission && m["id"] != nil && t.keys && len(t.questions) < maxQuestions:
		t.questions = append(t.questions, question{id: m["id"].Clone(), params: m["params"].Clone()})
		return t.put(nil)
	case m["id"] != nil:
		return t.decline(method, m["id"], m["params"])
	case method == methodCancel:
		return t.withdrawn(string(acp.Member(m["params"], "requestId")))
	case method != "":
		return t.told(method, m["params"])
	}
	return step{}
}

// told shows a notification of the session.
func (t *talk) told(method string, params jsontext.Value) step {
	if id, _ := acp.Text(acp.Member(params, "sessionId")); id != t.session || t.session == "" {
		return step{}
	}
	if t.skip > 0 {
		t.skip--
		return step{}
	}
	t.shown++
	return step{show: t.view.Notification(method, params)}
}

// decline leaves a question to others, or to the Agent's policy: it is not waited for somebody who cannot answer.
func (t *talk) decline(method string, id, params jsontext.Value) step {
	s := step{send: [][]byte{fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"nobody is here who could answer"}}`, id, codeNobody)}}
	if method == methodPermission {
		_, s.show = t.view.Question(params)
		s.show = append(s.show, t.view.Answered("not from here: there is no terminal to press a key at")...)
	}
	return s
}

// answer takes the answer to a request of ours.
func (t *talk) answer(id string, result, failure jsontext.Value) step {
	method, waits := t.waits[id]
	if !waits {
		return step{}
	}
	delete(t.waits, id)
	code, _ := strconv.Atoi(string(acp.Member(failure, "code")))
	switch {
	case failure != nil && method == methodInitialize && code != connect.CodeLost:
		return step{show: t.view.Failed("initialize", failure), err: errors.New("the endpoint refused to initialize")}
	case failure != nil && (method == methodPrompt || method == methodSteer):
		return step{show: t.view.Failed("your word", failure)}
	case failure != nil && method == methodLoad && code != connect.CodeLost && code != codeNotFound:
		return step{show: t.view.Failed("the session", failure), err: errors.New("the endpoint refused to show the session")}
	case failure != nil && method == methodInitialize:
		return step{send: [][]byte{t.hello()}}
	case failure != nil:
		t.session = ""
		return step{look: true}
	}
	switch method {
	case methodInitialize:
		return t.greeted(result)
	case methodList:
		return t.listed(result)
	case methodLoad:
		t.loaded, t.skip = true, 0
		return t.release()
	}
	return step{}
}

// greeted takes what the endpoint says of itself.
func (t *talk) greeted(result jsontext.Value) step {
	steering, _ := acp.Text(acp.Member(result, "_meta", "hearth", "steering"))
	t.steering = steering == string(hearthv1.SteeringSteer)
	s := step{send: [][]byte{t.look()}}
	if acp.Member(result, "_meta", "hearth") == nil {
		s.show = t.view.Warn("the endpoint is no harness's, or that of an older one: the run's session may not be found there")
	}
	return s
}

// listed finds the run's session among those there are.
func (t *talk) listed(result jsontext.Value) step {
	for _, s := range acp.Elements(acp.Member(result, "sessions"), maxListed) {
		id, _ := acp.Text(acp.Member(s, "sessionId"))
		meta := acp.Member(s, "_meta", "hearth")
		uid, _ := acp.Text(acp.Member(meta, "run", "uid"))
		attempt, _ := strconv.ParseInt(string(acp.Member(meta, "attempt")), 10, 64)
		own := uid == t.uid && (attempt == 0 || t.attempt == 0 || attempt == t.attempt)
		if id == "" || !own && id != t.hint {
			continue
		}
		t.session, t.skip = id, t.shown
		return step{send: [][]byte{t.request(methodLoad, fmt.Sprintf(`{"sessionId":%s,"cwd":"/","mcpServers":[]}`, acp.Quoted(id)))}}
	}
	return step{look: true}
}

// release sends what was typed before the session was open.
func (t *talk) release() step {
	var all step
	for _, line := range t.held {
		s := t.typed(line)
		all.send, all.show = append(all.send, s.send...), append(all.show, s.show...)
	}
	t.held = nil
	return all
}

// put shows the oldest question, if it was not shown.
func (t *talk) put(before []byte) step {
	s := step{show: before}
	if len(t.questions) > 0 && t.questions[0].options == nil {
		t.number++
		q := &t.questions[0]
		options, show := t.view.Question(q.params)
		q.options = append([]view.Option{}, options...) // none is not nil
		s.show = append(s.show, show...)
	}
	return s
}

// now is the question that is put.
func (t *talk) now() Asked {
	if len(t.questions) == 0 {
		return Asked{}
	}
	return Asked{Number: t.number, Keys: len(t.questions[0].options)}
}

// pressed answers the question that was put when the key was pressed; another one may be by now.
func (t *talk) pressed(key int, asked Asked) step {
	if now := t.now(); asked != now || key < 1 || key > now.Keys {
		return step{}
	}
	q := t.questions[0]
	o := q.options[key-1]
	t.questions = t.questions[1:]
	s := t.put(t.view.Answered(o.Name + " (" + o.Kind + ")"))
	s.send = [][]byte{fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%s}}}`, q.id, o.ID)}
	return s
}

// withdrawn takes a question back that somebody else has answered, or that is not waited for any more.
func (t *talk) withdrawn(id string) step {
	for i, q := range t.questions {
		if string(q.id) != id {
			continue
		}
		t.questions = append(t.questions[:i:i], t.questions[i+1:]...)
		if q.options == nil {
			return step{}
		}
		return t.put(t.view.Answered("elsewhere, or it is not waited for any more"))
	}
	return step{}
}

// typed sends a line to the run's session: into what is under way where the agent is goose, which can do that, else as a prompt.
func (t *talk) typed(line string) step {
	switch {
	case !t.loaded && len(t.held) == maxHeld:
		return step{show: t.view.Warn("not sent: the session is not open yet, and enough waits for it")}
	case !t.loaded:
		t.held = append(t.held, line)
		return step{}
	case !t.steering && t.mute:
		return step{}
	case !t.steering:
		t.mute = true
		return step{show: t.view.Warn("not sent: the Agent lets nobody steer its runs (runtime.steering: Steer does); questions can be answered")}
	}
	prompt := fmt.Sprintf(`"sessionId":%s,"prompt":[{"type":"text","text":%s}]`, acp.Quoted(t.session), acp.Quoted(line))
	if active := t.view.ActiveRun(); active != "" && !t.view.Over() {
		return step{send: [][]byte{t.request(methodSteer, fmt.Sprintf(`{%s,"expectedRunId":%s}`, prompt, acp.Quoted(active)))}}
	}
	return step{send: [][]byte{t.request(methodPrompt, "{"+prompt+"}")}}
}
