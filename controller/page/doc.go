// Package page serves the status page: agents, what waits, what ran, and how one run went, for a person who may forward a port to the
// controller. It only reads, from the manager's cache, so every replica serves it, whoever leads. There is no login of its own: it
// never shows goals, parameters, outputs, templates, session IDs, addresses or anything of a Secret.
//
// What a page says is made by pure functions out of objects (overview.go, runs.go, agent.go, run.go); index.go holds the objects,
// server.go and stream.go are the shell.
package page
