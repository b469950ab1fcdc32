package check

import (
	"slices"
	"strings"
)

// minLeakBytes is how long a secret is that is looked for: shorter ones, which no harness takes, are parts of other words.
const minLeakBytes = 8

// Exposed judges which secrets the agent, and everything it runs, finds in its environment and on its command line. ours are the
// values, by variable, that the harness takes out.
func Exposed(agentEnv, command []string, ours map[string]string) Point {
	const name = "secrets"
	var leaks, likely []string
	for secret, value := range ours {
		if len(value) < minLeakBytes {
			continue
		}
		for _, pair := range agentEnv {
			if variable, held, _ := strings.Cut(pair, "="); strings.Contains(held, value) {
				leaks = append(leaks, variable+" has the value of "+secret)
			}
		}
		if slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, value) }) {
			leaks = append(leaks, "the agent's command line has the value of "+secret)
		}
	}
	if len(leaks) > 0 {
		slices.Sort(leaks)
		return failed(name, strings.Join(leaks, "\n"), "give the agent no copy of it: who has it can act as the harness or as its controller")
	}
	for _, pair := range agentEnv {
		if variable, value, _ := strings.Cut(pair, "="); value != "" && Sensitive(variable) {
			likely = append(likely, variable)
		}
	}
	if len(likely) == 0 {
		return ok(name, "none of ours reaches the agent, and nothing else in its environment looks like one")
	}
	slices.Sort(likely)
	return ok(name, "none of ours reaches the agent; it and its tools see %s", strings.Join(likely, ", "))
}

// Sensitive tells whether a variable's name looks as if its value were a secret.
func Sensitive(variable string) bool {
	parts := strings.FieldsFunc(strings.ToUpper(variable), func(r rune) bool { return r == '_' || r == '.' })
	return slices.ContainsFunc(parts, func(p string) bool {
		return slices.Contains([]string{"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"}, p)
	})
}
