// Package process starts an agent in a process group of its own and ends it with everything it started.
//
// The harness is the subreaper of its agents: what an agent leaves behind becomes the harness's child, is found again and
// is ended, a process that called setsid included (SPEC.md, Harness). Waiting is sound because of two rules: the leader of a
// group is only peeked at (WNOWAIT) until the whole group is gone, so that its number cannot be given to a stranger while
// signals are sent to it; and orphans are reaped by their own number, under the lock that Start holds, never with Wait4(-1),
// so that nobody else's Wait is stolen.
package process
