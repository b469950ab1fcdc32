// Package cli tests the program hearth from outside: as a process, against a real API server, called by shells, by kubectl and on a
// terminal. What a controller would do is played by the tests.
package cli
