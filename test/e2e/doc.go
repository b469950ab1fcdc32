// Package e2e tries the whole on a real Kubernetes with real goose agents and the scripted model. Its tests have the build tag e2e.
package e2e
