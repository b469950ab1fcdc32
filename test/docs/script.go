package docs

import "strings"

// Script is what a page has its reader type.
type Script struct {
	// Page and Name are those of its blocks.
	Page, Name string
	// Code is that of its blocks, in their order.
	Code string
}

// Order is that in which the scripts are executed, one after the other on one cluster: what a reader has done who comes to each.
var Order = []Script{
	{Page: "docs/quickstart.md", Name: "install"},
	{Page: "docs/install.md", Name: "registry"},
	{Page: "docs/install.md", Name: "manifest"},
	{Page: "docs/install.md", Name: "kustomize"},
	{Page: "docs/quickstart.md", Name: "model"},
	{Page: "docs/quickstart.md", Name: "agent"},
	{Page: "docs/quickstart.md", Name: "work"},
	{Page: "docs/quickstart.md", Name: "look"},
	{Page: "docs/quickstart.md", Name: "break"},
	{Page: "docs/operating.md", Name: "record"},
	{Page: "docs/agents.md", Name: "examples"},
	{Page: "docs/quickstart.md", Name: "remove"},
}

// Scripts are those of a page, in the order of their first blocks.
func Scripts(blocks []Block) []Script {
	var scripts []Script
	at := map[string]int{}
	for _, b := range blocks {
		if b.Mark != Run {
			continue
		}
		n, known := at[b.Said]
		if !known {
			n, at[b.Said] = len(scripts), len(scripts)
			scripts = append(scripts, Script{Page: b.Page, Name: b.Said})
		}
		scripts[n].Code += b.Code
	}
	return scripts
}

// Bash is the script as it is given to bash: it ends at the first command that fails, and shows each.
func (s Script) Bash() string {
	return strings.Join([]string{"set -euo pipefail", s.Code}, "\n")
}
