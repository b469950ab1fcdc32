package tell

import (
	"regexp"
	"slices"
	"strings"
)

var placeholder = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Placeholders are the names in a goalTemplate, each once: the parameters of an Agent that declares none (api/v1alpha1, AgentSpec). $${ is
// not one.
func Placeholders(goalTemplate string) (names []string) {
	for _, match := range placeholder.FindAllStringSubmatch(goalTemplate, -1) {
		if !strings.HasPrefix(match[0], "$$") && !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}
