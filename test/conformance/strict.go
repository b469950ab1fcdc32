package conformance

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func strictCases() []Case {
	return []Case{
		{ID: "S-1", Title: "an unknown field is refused", run: eachMalformed(unknownFields)},
		{ID: "S-2", Title: "a duplicate field is refused", run: eachMalformed(duplicateFields)},
		{ID: "S-3", Title: "a field in another case is refused", run: eachMalformed(otherCase)},
		{ID: "S-4", Title: "trailing data is refused", run: eachMalformed(trailing)},
		{ID: "S-5", Title: "invalid UTF-8 is refused", run: eachMalformed(invalidText)},
		{ID: "S-6", Title: "a missing or empty required text is refused", run: eachMalformed(missingText)},
		{ID: "S-7", Title: "a value of another type or out of range is refused", run: eachMalformed(wrongValues)},
		{ID: "S-8", Title: "a refusal names the field as a JSON pointer", run: namesTheField},
		{ID: "S-9", Title: "a body over 1 MiB gets 413, with and without a declared length", run: tooLarge},
		{ID: "S-10", Title: "another media type gets 415", run: otherMedia},
		{ID: "S-11", Title: "another apiVersion gets 406 with the versions served", run: otherVersion},
		{ID: "S-12", Title: "a refusal never repeats what was sent", run: repeatsNothing},
	}
}

// spoilt is a body that is wrong in one way.
type spoilt struct {
	name  string
	body  []byte
	field string // the pointer that a refusal should have; "" where none can be expected
}

// eachMalformed sends bodies of one kind and wants 400 for each, and nothing journalled.
func eachMalformed(bodies func(map[string]any) []spoilt) func(*trial) {
	return func(t *trial) {
		k := fresh()
		for _, b := range bodies(t.content(k, t.kit.GoalQuick)) {
			c := t.delivery(k, "")
			c.body = b.body
			a := t.send(c)
			t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed,
				"%s: expected 400 malformed, got %s", b.name, describe(a.status, a.problem.Code))
		}
		t.neverSeen(k)
		for _, b := range bodies(map[string]any{"apiVersion": wire.APIVersion, "target": t.target()}) {
			c := t.challenge()
			c.body = b.body
			a := t.send(c)
			t.check(a.status == http.StatusBadRequest && a.problem.Code == wire.CodeMalformed,
				"challenge, %s: expected 400 malformed, got %s", b.name, describe(a.status, a.problem.Code))
		}
	}
}

// with is a body with one value changed; a path such as run.uid leads into it, and remove takes it out.
func with(content map[string]any, path string, value any) []byte {
	out := maps.Clone(content)
	if outer, inner, nested := strings.Cut(path, "."); nested {
		below, _ := content[outer].(map[string]any)
		below = maps.Clone(below)
		if below == nil {
			below = map[string]any{}
		}
		set(below, inner, value)
		out[outer] = below
	} else {
		set(out, path, value)
	}
	return encoded(out)
}

// remove as a value removes the field.
type remove struct{}

func set(m map[string]any, field string, value any) {
	if _, gone := value.(remove); gone {
		delete(m, field)
		return
	}
	m[field] = value
}

func encoded(v any) []byte {
	b, err := wire.Encode(v)
	if err != nil {
		panic(err) // our own values always encode
	}
	return b
}

func unknownFields(c map[string]any) []spoilt {
	out := []spoilt{
		{"one more field", with(c, "conformance", true), "/conformance"},
		{"one more field that is null", with(c, "conformance", nil), "/conformance"},
		{"one more field in target", with(c, "target.conformance", "x"), "/target/conformance"},
	}
	if c["run"] != nil {
		out = append(out, spoilt{"one more field in run", with(c, "run.conformance", "x"), "/run/conformance"},
			spoilt{"one more field in limits", with(c, "limits.conformance", 1), "/limits/conformance"})
	}
	return out
}

// again puts a field in front of a body that has it already.
func again(body []byte, field string) []byte {
	return append([]byte(`{`+field+`,`), bytes.TrimPrefix(body, []byte("{"))...)
}

func duplicateFields(c map[string]any) []spoilt {
	body := encoded(c)
	out := []spoilt{
		{"apiVersion twice", again(body, `"apiVersion":"`+wire.APIVersion+`"`), "/apiVersion"},
		{"a field twice in target", bytes.Replace(body, []byte(`"target":{`), []byte(`"target":{"uid":"x",`), 1), "/target/uid"},
	}
	if c["goal"] != nil {
		out = append(out, spoilt{"goal twice", again(body, `"goal":"other"`), "/goal"},
			spoilt{"attempt twice, the same", again(body, `"attempt":1`), "/attempt"},
			spoilt{"a field twice, once escaped", again(body, `"go\u0061l":"other"`), "/goal"})
	}
	return out
}

func otherCase(c map[string]any) []spoilt {
	body := encoded(c)
	var out []spoilt
	for _, field := range []string{"apiVersion", "target", "goal", "attempt", "journal"} {
		if c[field] == nil {
			continue
		}
		other := strings.ToUpper(field[:1]) + field[1:]
		out = append(out, spoilt{"field " + other, bytes.Replace(body, []byte(`"`+field+`"`), []byte(`"`+other+`"`), 1), ""})
	}
	return append(out, spoilt{"field UID in target", bytes.Replace(body, []byte(`"uid":"`), []byte(`"UID":"`), -1), ""})
}

func trailing(c map[string]any) []spoilt {
	body := encoded(c)
	var out []spoilt
	for _, tail := range []string{"{}", "x", "null", ",", "\x00"} {
		out = append(out, spoilt{"more after the object", append(slices.Clone(body), tail...), ""})
	}
	return append(out, spoilt{"an object that does not end", body[:len(body)-1], ""}, spoilt{"no body", nil, ""}, spoilt{"an array", []byte("[]"), ""})
}

func invalidText(c map[string]any) []spoilt {
	const mark = "CONFORMANCE-MARK"
	field := "target.name"
	if c["goal"] != nil {
		field = "goal"
	}
	var out []spoilt
	for name, bad := range map[string]string{
		"a stray byte": "\xff", "half a rune": "\xe2\x82", "an overlong form": "\xc0\xaf", "a surrogate": "\xed\xa0\x80", "half of an escaped pair": `\ud800`,
	} {
		out = append(out, spoilt{name, bytes.Replace(with(c, field, mark), []byte(mark), []byte("x"+bad), 1), ""})
	}
	return out
}

func missingText(c map[string]any) []spoilt {
	fields := []string{"apiVersion", "target.name", "target.uid"}
	if c["run"] != nil {
		fields = append(fields, "run.namespace", "run.name", "run.uid", "journal", "goal")
	}
	var out []spoilt
	for _, f := range fields {
		pointer := "/" + strings.ReplaceAll(f, ".", "/")
		out = append(out, spoilt{f + " missing", with(c, f, remove{}), pointer})
		if f != "apiVersion" {
			out = append(out, spoilt{f + " empty", with(c, f, ""), pointer})
		}
	}
	return append(out, spoilt{"target missing", with(c, "target", remove{}), ""})
}

func wrongValues(c map[string]any) []spoilt {
	out := []spoilt{
		{"target as text", with(c, "target", "x"), "/target"},
		{"target.uid as a number", with(c, "target.uid", 1), "/target/uid"},
	}
	if c["run"] == nil {
		return out
	}
	for _, v := range []any{0, -1, 1 << 31, 1.5, "1", true} {
		out = append(out, spoilt{"attempt", with(c, "attempt", v), "/attempt"})
	}
	return append(out,
		spoilt{"attempt missing", with(c, "attempt", remove{}), "/attempt"},
		spoilt{"goal as a list", with(c, "goal", []string{"x"}), "/goal"},
		spoilt{"goal as a number", with(c, "goal", 7), "/goal"},
		spoilt{"limits as a list", with(c, "limits", []int{1}), "/limits"},
		spoilt{"limits.activeSeconds as text", with(c, "limits.activeSeconds", "5"), "/limits/activeSeconds"})
}

func namesTheField(t *trial) {
	k := fresh()
	content := t.content(k, t.kit.GoalQuick)
	for _, b := range slices.Concat(unknownFields(content), duplicateFields(content), missingText(content), wrongValues(content)) {
		if b.field == "" {
			continue
		}
		c := t.delivery(k, "")
		c.body = b.body
		if a := t.send(c); a.problem.Code == wire.CodeMalformed {
			t.check(a.problem.Field == b.field, "%s: expected a refusal whose field is %s, got field %q", b.name, b.field, a.problem.Field)
		}
	}
}

func tooLarge(t *trial) {
	k := fresh()
	for name, chunked := range map[string]bool{"declared": false, "chunked": true} {
		c := t.delivery(k, t.kit.GoalQuick)
		c.body, c.chunked = padded(c.body, wire.MaxBodyBytes+1), chunked
		a := t.send(c)
		t.check(a.status == http.StatusRequestEntityTooLarge && a.problem.Code == wire.CodeTooLarge,
			"1 MiB and one byte, %s: expected 413 too_large, got %s", name, describe(a.status, a.problem.Code))
	}
	t.neverSeen(k)
}

// padded is a body with spaces in front of it.
func padded(body []byte, size int) []byte {
	return append(bytes.Repeat([]byte(" "), size-len(body)), body...)
}

func otherMedia(t *trial) {
	k := fresh()
	for _, media := range []string{"text/plain", "", "application/x-www-form-urlencoded", "application/json-seq", "text/plain; application/json"} {
		for _, c := range []call{t.delivery(k, t.kit.GoalQuick), t.challenge()} {
			c.media = media
			a := t.send(c)
			t.check(a.status == http.StatusUnsupportedMediaType && a.problem.Code == wire.CodeUnsupportedMedia,
				"%s as %q: expected 415 unsupported_media, got %s", a.what, media, describe(a.status, a.problem.Code))
		}
	}
	t.neverSeen(k)
}

func otherVersion(t *trial) {
	k := fresh()
	newer := t.content(k, t.kit.GoalQuick)
	newer["apiVersion"], newer["ofAnotherVersion"] = "hearth.dev/delivery/v9", true
	for _, c := range []call{t.call(http.MethodPost, wire.RunsPath, newer), t.challenge()} {
		c.body = bytes.Replace(c.body, []byte(wire.APIVersion), []byte("hearth.dev/delivery/v9"), 1)
		a := t.send(c)
		t.refused(a, wire.CodeUnsupportedVersion)
		t.check(slices.Contains(a.problem.Versions, wire.APIVersion), "%s: expected versions to list %s, got %d versions", a.what, wire.APIVersion, len(a.problem.Versions))
	}
	t.neverSeen(k)
}

func repeatsNothing(t *trial) {
	canary := "canary-" + fresh().uid
	k := fresh()
	known := fresh()
	t.finished(known)
	content := t.content(k, canary)
	bodies := map[string][]byte{
		"an unknown field":  with(content, "conformance", canary),
		"a duplicate field": again(encoded(content), `"goal":"`+canary+`"`),
		"a wrong type":      with(content, "attempt", canary),
		"an unknown word":   with(content, "session", canary),
		"invalid UTF-8":     bytes.Replace(encoded(content), []byte(canary), []byte(canary+"\xff"), 1),
		"broken JSON":       append(encoded(content), canary...),
		"another version":   with(content, "apiVersion", canary),
		"another target":    with(content, "target.uid", canary),
		"another journal":   with(content, "journal", canary),
		"another content":   encoded(t.content(known, canary)),
	}
	for name, body := range bodies {
		c := t.delivery(k, "")
		c.body = body
		t.hides(name, t.send(c), canary)
	}
	for name, change := range map[string]func(*call){
		"another media type": func(c *call) { c.media = canary }, "a wrong proof": func(c *call) { c.proof = []string{canary} },
		"another Host": func(c *call) { c.host = canary }, "another boot": func(c *call) { c.boot = canary },
	} {
		c := t.delivery(k, canary)
		change(&c)
		t.hides(name, t.send(c), canary)
	}
}

func (t *trial) hides(name string, a answer, canary string) {
	if a.status < http.StatusBadRequest {
		return // what should have been refused is the matter of another case
	}
	said := string(a.body)
	for _, values := range a.header {
		said += strings.Join(values, " ")
	}
	t.check(!strings.Contains(said, canary), "%s: expected a refusal without what was sent; the %d has it", name, a.status)
}
