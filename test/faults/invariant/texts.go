package invariant

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Text is something that people or other Pods can read: a log, an Event, metrics, another Pod's environment or files.
type Text struct {
	Where string
	Body  string
}

// Secret is what may be in none of the texts: a goal, a root secret, a key. But tells of texts where it may be.
type Secret struct {
	Name  string
	Value string
	But   func(Text) bool // nil: nowhere
}

const (
	// minSecret: what is shorter is in any text by chance.
	minSecret = 8
	// goalStart: a goal that was cut is a goal all the same.
	goalStart = 40
)

// Silent is I8. Secrets are looked for as they are, from their beginning on, in JSON, base64 at any offset and hexadecimal.
func Silent(texts []Text, secrets []Secret) []Violation {
	var found []Violation
	for _, s := range secrets {
		if len(s.Value) < minSecret {
			found = append(found, Violation{Invariant: I8, Text: fmt.Sprintf("%s is too short to be looked for: %d bytes", s.Name, len(s.Value))})
			continue
		}
		for _, t := range texts {
			if s.But != nil && s.But(t) {
				continue
			}
			for how, form := range forms(s.Value) {
				if at := strings.Index(t.Body, form); at >= 0 {
					found = append(found, Violation{Invariant: I8, Text: fmt.Sprintf("%s is in %s, %s, at byte %d", s.Name, t.Where, how, at)})
					break
				}
			}
		}
	}
	return found
}

func forms(value string) map[string]string {
	if len(value) > goalStart {
		value = value[:goalStart]
	}
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string always has a form in JSON
	}
	all := map[string]string{"as it is": value, "in JSON": strings.Trim(string(quoted), `"`), "in hexadecimal": hex.EncodeToString([]byte(value))}
	for offset := range 3 {
		// The characters at the ends also hold bits of what is beside the secret.
		body := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), value...))
		first, last := []int{0, 2, 3}[offset], len(body)
		if (offset+len(value))%3 != 0 {
			last--
		}
		body = body[first:last]
		all[fmt.Sprintf("in base64 at offset %d", offset)] = body
		all[fmt.Sprintf("in base64url at offset %d", offset)] = strings.NewReplacer("+", "-", "/", "_").Replace(body)
	}
	return all
}
