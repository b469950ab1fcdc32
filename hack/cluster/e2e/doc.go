// Package e2e starts, breaks and removes real clusters on this machine. It runs only when HEARTH_CLUSTER_TEST=1, as
// root, and while no other cluster runs.
package e2e
