// Package peers holds the tests of the real harness with clients and agents that others wrote: docs/compatibility.md is what they
// saw. It has no code of its own.
package peers
