package peers

import (
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
)

// pinnedVersions are those of the clients.
func pinnedVersions() []string {
	var out []string
	var pinned struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if content, err := os.ReadFile("package.json"); err == nil && json.Unmarshal(content, &pinned) == nil {
		for name, version := range pinned.Dependencies {
			if name != "ws" {
				out = append(out, name+" "+version)
			}
		}
	}
	slices.Sort(out)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/coder/acp-go-sdk" {
				out = append(out, "coder/acp-go-sdk "+m.Version)
			}
		}
	}
	return out
}
